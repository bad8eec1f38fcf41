/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling this is the test. */
#include "ndl/ndl.h"
#include "nrt/ndebug_stream.h"
#include "nrt/nds/neuron_ds.h"
#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_version.h"
#include "tests/abi/struct_sizes.h"
