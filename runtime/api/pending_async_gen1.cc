// SPDX-License-Identifier: Apache-2.0
// As pending.cc, for generation 1 of the asynchronous interface: its names get version node
// NRT_2.0.0 only, so that they do not meet those of generation 2.
#define OPENNRT_ASYNC_GEN1
#define OPENNRT_ASYNC_GEN1_SUFFIX ", remove"

#include "nrt/nrt_async.h"
#include "runtime/api/pending_bodies.h"

// clang-format off: the rows need the bodies above.
#include "runtime/api/pending_async_gen1.def"
