// SPDX-License-Identifier: Apache-2.0
// Tensor sets.
#include "runtime/api/handles.h"

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

extern "C" NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(result, "result"));
    *result = HandleTable<TensorSet>::handle_of(HandleTable<TensorSet>::instance().create());
    return ok_status();
  });
}

// As nrt_tensor_free(): at any time.
extern "C" void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set) {
  if (tensor_set == nullptr || *tensor_set == nullptr) {
    return;
  }
  nrt_tensor_set_t* const handle = std::exchange(*tensor_set, nullptr);
  if (Runtime::instance().state() == RuntimeState::kChild) {
    return;
  }
  c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(TensorSet* const set, object_of<TensorSet>(handle, "tensor_set"));
    HandleTable<TensorSet>::instance().destroy(set);
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set,
                                                   const char* tensor_name, nrt_tensor_t* tensor) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(TensorSet* const set, object_of<TensorSet>(tensor_set, "tensor_set"));
    ONRT_RETURN_IF_ERROR(check_not_null(tensor_name, "tensor_name"));
    ONRT_ASSIGN_OR_RETURN(Tensor* const added, object_of<Tensor>(tensor, "tensor"));
    set->add(tensor_name, added);
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* tensor_set,
                                                     const char* tensor_name,
                                                     nrt_tensor_t** tensor) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const TensorSet* const set,
                          object_of<TensorSet>(tensor_set, "tensor_set"));
    ONRT_RETURN_IF_ERROR(check_not_null(tensor_name, "tensor_name"));
    ONRT_RETURN_IF_ERROR(check_not_null(tensor, "tensor"));
    ONRT_ASSIGN_OR_RETURN(const Tensor* const found, set->get(tensor_name));
    *tensor = handle_of(found);
    return ok_status();
  });
}
