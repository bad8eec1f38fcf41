// SPDX-License-Identifier: Apache-2.0
#define ONRT_REDUCE_FUNCTION reduce_function_sse4
#include "collectives/reduce/reduce_body.h"
