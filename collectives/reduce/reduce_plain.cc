// SPDX-License-Identifier: Apache-2.0
#define ONRT_REDUCE_FUNCTION reduce_function_plain
#include "collectives/reduce/reduce_body.h"
