// SPDX-License-Identifier: Apache-2.0
// Checks that the functions of the C API share: state, handles, output parameters.
#pragma once

#include <algorithm>
#include <cstring>

#include "nrt/nrt.h"
#include "runtime/api/last_error.h"
#include "runtime/base/format.h"
#include "runtime/core/model.h"
#include "runtime/core/runtime.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tensor_set.h"

namespace onrt::api {

// NRT_INVALID for NULL.
inline Status check_not_null(const void* pointer, const char* name) {
  return pointer != nullptr
             ? ok_status()
             : Status(NRT_INVALID, format("{}: expected a pointer, found NULL", name));
}

// NRT_INVALID for NULL, NRT_INVALID_HANDLE for something that is not a live object.
template <class T>
Result<T*> object_of(const void* handle, const char* name) {
  ONRT_RETURN_IF_ERROR(check_not_null(handle, name));
  T* object = HandleTable<T>::find(handle);
  if (object == nullptr) {
    return Status(NRT_INVALID_HANDLE,
                  format("{}: {} is not, or no longer, a valid handle", name, handle));
  }
  return object;
}

inline nrt_tensor_t* handle_of(const Tensor* tensor) {
  return static_cast<nrt_tensor_t*>(HandleTable<Tensor>::handle_of(tensor));
}

// Runs `body(session, model)` while the model can't be unloaded.
template <class Body>
Status with_model(const void* handle, Body&& body) {
  ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
  ONRT_RETURN_IF_ERROR(object_of<Model>(handle, "model").status());
  const ModelUse model(handle);
  if (!model) {
    return Status(NRT_INVALID_HANDLE, "model: it is being unloaded");
  }
  return body(*session, *model);
}

// For structs that grow: copies what the caller has room for and says how much that is.
template <class T>
Status fill_struct(const T& value, T* out, size_t size_in, size_t* size_out) {
  ONRT_RETURN_IF_ERROR(check_not_null(out, "the struct to fill"));
  ONRT_RETURN_IF_ERROR(check_not_null(size_out, "the size written"));
  const size_t size = std::min(size_in, sizeof(T));
  std::memcpy(out, &value, size);
  *size_out = size;
  return ok_status();
}

}  // namespace onrt::api
