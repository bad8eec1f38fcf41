// SPDX-License-Identifier: Apache-2.0
// What the rows of pending*.def become. Included by the files that include those only.
#pragma once

#include "runtime/api/last_error.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ONRT_PENDING_BODY __attribute__((section("onrt_pending"), noinline))

#define ONRT_PENDING(name, parameters) \
  extern "C" ONRT_PENDING_BODY NRT_STATUS name parameters { return onrt::api::pending(#name); }

#define ONRT_PENDING_VALUE(type, name, value, parameters) \
  extern "C" ONRT_PENDING_BODY type name parameters {     \
    onrt::api::pending(#name);                            \
    return value;                                         \
  }

#define ONRT_PENDING_VOID(name, parameters) \
  extern "C" ONRT_PENDING_BODY void name parameters { onrt::api::pending(#name); }
