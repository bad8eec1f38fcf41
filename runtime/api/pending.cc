// SPDX-License-Identifier: Apache-2.0
// Bodies of the functions in pending.def. They lie in a section of their own, by which tests know
// them in the finished library.

#include "ndl/ndl.h"
#include "nrt/ndebug_stream.h"
#include "nrt/nds/neuron_ds.h"
#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_async_sendrecv.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_profile.h"
#include "nrt/nrt_sys_trace.h"
#include "opennrt/opennrt.h"
#include "runtime/api/pending_bodies.h"

// clang-format off: the rows need the bodies above.
#include "runtime/api/pending.def"
