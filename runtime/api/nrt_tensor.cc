// SPDX-License-Identifier: Apache-2.0
// Tensors: allocation, transfer, views.
#include <cstring>

#include "runtime/api/handles.h"
#include "runtime/core/tensor_io.h"

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

namespace {

// A C caller may pass any number: it is looked at as one before it becomes an enumerator.
int number_of(const nrt_tensor_placement_t& placement) {
  int number = 0;
  static_assert(sizeof placement == sizeof number);
  std::memcpy(&number, &placement, sizeof number);
  return number;
}

Result<TensorPlacement> placement_of(int placement) {
  switch (placement) {
    case NRT_TENSOR_PLACEMENT_DEVICE:
      return TensorPlacement::kDevice;
    case NRT_TENSOR_PLACEMENT_HOST:
      return TensorPlacement::kHost;
    case NRT_TENSOR_PLACEMENT_VIRTUAL:
      return TensorPlacement::kVirtual;
  }
  return Status(NRT_INVALID, format("tensor placement {}: expected 0, 1 or 2", placement));
}

// Runs `body(session, tensor)`.
template <class Body>
Status with_tensor(const void* handle, Body&& body, const char* name = "tensor") {
  ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
  ONRT_ASSIGN_OR_RETURN(Tensor* const tensor, object_of<Tensor>(handle, name));
  return body(*session, *tensor);
}

Result<std::vector<TensorTransfer>> transfers(const nrt_tensor_batch_t* batches, uint64_t count) {
  if (count != 0) {
    ONRT_RETURN_IF_ERROR(check_not_null(batches, "batches"));
  }
  std::vector<TensorTransfer> out;
  for (uint64_t i = 0; i < count; ++i) {
    const nrt_tensor_batch_t& batch = batches[i];
    auto tensor = object_of<Tensor>(batch.tensor, "tensor");
    if (!tensor.ok()) {
      return std::move(tensor).status().annotate(format("batch {}", i));
    }
    if (batch.num_ops != 0 && batch.ops == nullptr) {
      return Status(NRT_INVALID, format("batch {}: {} operations at NULL", i, batch.num_ops));
    }
    for (uint32_t k = 0; k < batch.num_ops; ++k) {
      out.push_back({*tensor, batch.ops[k].offset, batch.ops[k].size, batch.ops[k].buffer});
    }
  }
  return out;
}

Blocking blocking_of(bool unsafe) { return unsafe ? Blocking::kUnsafe : Blocking::kWait; }

}  // namespace

extern "C" NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc,
                                          size_t size, const char* name, nrt_tensor_t** tensor) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(tensor, "tensor"));
    ONRT_ASSIGN_OR_RETURN(const TensorPlacement placement,
                          placement_of(number_of(tensor_placement)));
    ONRT_ASSIGN_OR_RETURN(Tensor* const made,
                          Tensor::allocate(*session, placement, vnc, size, name));
    *tensor = handle_of(made);
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(tensor, "tensor"));
    *tensor = handle_of(Tensor::allocate_empty(name));
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor, void* buffer, size_t size) {
  return c_boundary([&] {
    return with_tensor(tensor,
                       [&](Session&, Tensor& target) { return target.attach(buffer, size); });
  });
}

extern "C" NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* tensor_source, size_t offset,
                                                size_t size, const char* name,
                                                nrt_tensor_t** tensor_slice) {
  return c_boundary([&]() -> Status {
    return with_tensor(
        tensor_source,
        [&](Session& session, Tensor& source) -> Status {
          ONRT_RETURN_IF_ERROR(check_not_null(tensor_slice, "tensor_slice"));
          ONRT_RETURN_IF_ERROR(source.check_usable(session));
          ONRT_ASSIGN_OR_RETURN(Tensor* const made, Tensor::slice(source, offset, size, name));
          *tensor_slice = handle_of(made);
          return ok_status();
        },
        "tensor_source");
  });
}

// Clients free in their destructors, also after nrt_close() and in forked children: never an error.
extern "C" void nrt_tensor_free(nrt_tensor_t** tensor) {
  if (tensor == nullptr || *tensor == nullptr) {
    return;
  }
  nrt_tensor_t* const handle = std::exchange(*tensor, nullptr);
  if (Runtime::instance().state() == RuntimeState::kChild) {
    return;  // the parent's; locks may be held by threads that this process does not have
  }
  c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(Tensor* const found, object_of<Tensor>(handle, "tensor"));
    free_tensor(found);
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset,
                                      size_t size) {
  return c_boundary([&] {
    return with_tensor(tensor, [&](Session& session, Tensor& source) {
      return read_tensor(session, source, buf, offset, size);
    });
  });
}

extern "C" NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset,
                                       size_t size) {
  return c_boundary([&] {
    return with_tensor(tensor, [&](Session& session, Tensor& target) {
      return write_tensor(session, target, buf, offset, size);
    });
  });
}

extern "C" NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value,
                                        size_t size) {
  return c_boundary([&] {
    return with_tensor(tensor, [&](Session& session, Tensor& target) {
      return fill_tensor(session, target, offset, static_cast<uint8_t>(value), size);
    });
  });
}

extern "C" NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* src, size_t src_offset, nrt_tensor_t* dst,
                                      size_t dst_offset, size_t size) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const Tensor* const source, object_of<Tensor>(src, "src"));
    ONRT_ASSIGN_OR_RETURN(Tensor* const target, object_of<Tensor>(dst, "dst"));
    return copy_tensor(*session, *source, src_offset, *target, dst_offset, size);
  });
}

extern "C" NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches,
                                            bool unsafe) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const auto items, transfers(batches, num_batches));
    return read_batch(*session, items, blocking_of(unsafe));
  });
}

extern "C" NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches,
                                             uint64_t num_batches, bool unsafe) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const auto items, transfers(batches, num_batches));
    return write_batch(*session, items, blocking_of(unsafe));
  });
}

extern "C" size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  size_t size = 0;
  c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const Tensor* const found, object_of<Tensor>(tensor, "tensor"));
    size = found->size();
    return ok_status();
  });
  return size;
}

extern "C" void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  void* address = nullptr;
  c_boundary([&] {
    return with_tensor(tensor, [&](Session& session, Tensor& found) -> Status {
      ONRT_ASSIGN_OR_RETURN(address, found.host_address(session));
      return ok_status();
    });
  });
  return address;
}

extern "C" NRT_STATUS nrt_tensor_get_device_allocation_info(
    const nrt_tensor_t* tensor, nrt_tensor_device_allocation_info_t* alloc_info) {
  return c_boundary([&] {
    return with_tensor(tensor, [&](Session& session, Tensor& found) -> Status {
      ONRT_RETURN_IF_ERROR(check_not_null(alloc_info, "alloc_info"));
      ONRT_RETURN_IF_ERROR(found.check_usable(session));
      if (!found.storage().is_device()) {
        return Status(NRT_INVALID, found.label() + " is in host memory");
      }
      alloc_info->physical_address = found.address();
      alloc_info->size = found.storage().block().size - found.offset();
      alloc_info->hbm_index = found.storage().hbm().stack;
      return ok_status();
    });
  });
}

extern "C" NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* output_tensor,
                                                         int64_t timeout,
                                                         uint64_t expected_completion_count) {
  return c_boundary([&] {
    return with_tensor(
        output_tensor,
        [&](Session& session, Tensor& tensor) {
          return tensor.wait_completions(session, expected_completion_count,
                                         std::chrono::microseconds(timeout));
        },
        "output_tensor");
  });
}

extern "C" NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* output_tensor) {
  return c_boundary([&] {
    return with_tensor(
        output_tensor,
        [&](Session&, Tensor& tensor) {
          tensor.reset_completions();
          return ok_status();
        },
        "output_tensor");
  });
}
