// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every function inside OpenNRT reports failure.
//
// The code is the NRT_STATUS that the caller of the C API must see; the message names the object,
// what was expected and what was found. No exception crosses a function that returns a Status.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nrt/nrt_status.h"

namespace onrt {

// One pointer wide; success allocates nothing. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(NRT_STATUS code, std::string message) {
    if (code != NRT_SUCCESS) {
      failure_ = std::make_unique<Failure>(Failure{code, std::move(message)});
    }
  }
  Status(const Status& other)
      : failure_(other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) {
      failure_ = other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr;
    }
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return failure_ == nullptr; }
  NRT_STATUS code() const { return failure_ ? failure_->code : NRT_SUCCESS; }
  std::string_view message() const { return failure_ ? failure_->message : std::string_view(); }

  // Puts `context` and ": " before the message of a failure; leaves success alone.
  Status annotate(std::string_view context) && {
    if (failure_) {
      failure_->message = std::string(context) + ": " + failure_->message;
    }
    return std::move(*this);
  }

 private:
  struct Failure {
    NRT_STATUS code;
    std::string message;
  };
  std::unique_ptr<Failure> failure_;
};

inline Status ok_status() { return {}; }

// A value or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return Status(...);` both read naturally.
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) {
      status_ = Status(NRT_FAILURE, "internal error: Result made from a successful Status");
    }
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace onrt

#define ONRT_CONCAT_(a, b) a##b
#define ONRT_CONCAT(a, b) ONRT_CONCAT_(a, b)

// Returns from the enclosing function if `expression` (a Status) failed.
#define ONRT_RETURN_IF_ERROR(expression)        \
  do {                                          \
    ::onrt::Status onrt_status_ = (expression); \
    if (!onrt_status_.ok()) {                   \
      return onrt_status_;                      \
    }                                           \
  } while (false)

// `ONRT_ASSIGN_OR_RETURN(auto x, make_x());` declares x or returns the failure of make_x().
#define ONRT_ASSIGN_OR_RETURN(declaration, expression) \
  ONRT_ASSIGN_OR_RETURN_(ONRT_CONCAT(onrt_result_, __LINE__), declaration, expression)
#define ONRT_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) {                                           \
    return std::move(result).status();                          \
  }                                                             \
  declaration = std::move(result).value()
