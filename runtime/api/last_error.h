// SPDX-License-Identifier: Apache-2.0
// The border between C++ inside and the C API: every exported function that returns a status runs
// its body through c_boundary(), which logs a failure and keeps its text for onrt_last_error().
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "nrt/nrt_status.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace onrt::api {

// Settings and log of the C API: read from the environment at first use, and again by
// refresh_context(), which nrt_init() calls. A holder keeps its own snapshot. Thread-safe, also
// across fork().
std::shared_ptr<const Context> context();
std::shared_ptr<const Context> refresh_context();

// Text of the calling thread's last failure; "" when there was none.
const char* last_error();

// Stores and logs a failure of the exported function `function` and returns its code. Does not
// allocate to store; texts over 2 KiB are cut. Control characters become \x0a.
NRT_STATUS report(NRT_STATUS code, std::string_view message, const char* function);

// Static text of a status. Internal name of nrt_get_status_as_str(), which clients may replace.
const char* status_text(NRT_STATUS status);

// Runs `body`, which returns a Status. Nothing in the runtime throws, except that memory or threads
// may run out anywhere. `function` is the caller, that is the exported function.
template <class Body>
NRT_STATUS c_boundary(Body&& body, const char* function = __builtin_FUNCTION()) {
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? NRT_SUCCESS : report(status.code(), status.message(), function);
  } catch (const std::bad_alloc&) {
    return report(NRT_RESOURCE, "host memory ran out", function);
  } catch (const std::system_error& error) {
    return report(NRT_RESOURCE, error.what(), function);
  } catch (const std::exception& error) {
    return report(NRT_FAILURE, error.what(), function);
  }
}

// Body of an exported function that a later release brings: NRT_FAILURE and a text that says so.
NRT_STATUS pending(const char* function);

}  // namespace onrt::api
