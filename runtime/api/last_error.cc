// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/last_error.h"

#include <pthread.h>

#include <cstddef>

#include "opennrt/opennrt.h"
#include "runtime/base/format.h"
#include "runtime/base/mutex.h"

namespace onrt::api {
namespace {

// Without a destructor, so that it neither pins the library after dlclose() nor runs at a time when
// the process is half gone.
constexpr size_t kTextBytes = 2048;
thread_local char last_error_text[kTextBytes];

struct Shared {
  Mutex mutex;
  std::shared_ptr<const Context> context ONRT_GUARDED_BY(mutex);
};

// Never destroyed: clients free tensors in their own static destructors.
Shared& shared() {
  static Shared* const kInstance = [] {
    // A child must not inherit the mutex locked by a thread that it does not have.
    pthread_atfork([]() ONRT_NO_THREAD_SAFETY_ANALYSIS { shared().mutex.lock(); },
                   []() ONRT_NO_THREAD_SAFETY_ANALYSIS { shared().mutex.unlock(); },
                   []() ONRT_NO_THREAD_SAFETY_ANALYSIS { shared().mutex.unlock(); });
    return new Shared;
  }();
  return *kInstance;
}

// What one_line() does, without an allocation.
void store_text(std::string_view message) {
  static constexpr char kHex[] = "0123456789abcdef";
  size_t length = 0;
  for (const char c : message) {
    if (length + 4 >= kTextBytes) {
      break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      last_error_text[length++] = c;
    } else {
      for (const char part : {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]}) {
        last_error_text[length++] = part;
      }
    }
  }
  last_error_text[length] = '\0';
}

// A full or empty queue and a wait that ended are answers rather than faults.
LogLevel level_of(NRT_STATUS code) {
  switch (code) {
    case NRT_QUEUE_FULL:
    case NRT_QUEUE_EMPTY:
      return LogLevel::kDebug;
    default:
      return LogLevel::kError;
  }
}

}  // namespace

std::shared_ptr<const Context> context() {
  Shared& state = shared();
  MutexLock lock(state.mutex);
  if (!state.context) {
    state.context = std::make_shared<const Context>(Context::from_environment());
  }
  return state.context;
}

std::shared_ptr<const Context> refresh_context() {
  auto fresh = std::make_shared<const Context>(Context::from_environment());
  Shared& state = shared();
  MutexLock lock(state.mutex);
  state.context = fresh;
  return fresh;
}

const char* last_error() { return last_error_text; }

NRT_STATUS report(NRT_STATUS code, std::string_view message, const char* function) {
  store_text(message);
  try {
    const std::shared_ptr<const Context> current = context();
    if (current->log && current->log->enabled(LogComponent::kNrt, level_of(code))) {
      current->log->write(LogComponent::kNrt, level_of(code), function,
                          format("{} [{}]", message, status_text(code)));
    }
  } catch (const std::bad_alloc&) {
    return code;  // the text is stored; there is no memory to format its log line
  }
  return code;
}

NRT_STATUS pending(const char* function) {
  return c_boundary(
      [&] {
        return Status(NRT_FAILURE, format("{}() is not implemented in OpenNRT {}; it belongs to a "
                                          "later release",
                                          function, onrt_version()));
      },
      function);
}

}  // namespace onrt::api

extern "C" const char* onrt_last_error(void) { return onrt::api::last_error(); }
