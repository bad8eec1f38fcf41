// SPDX-License-Identifier: Apache-2.0
// Loading, unloading and describing models.
#include <cstdlib>
#include <limits>

#include "nrt/nrt_experimental.h"
#include "opennrt/opennrt.h"
#include "runtime/api/handles.h"
#include "runtime/core/loader.h"

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

namespace {

Status load(const void* bytes, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t** out) {
  ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
  ONRT_RETURN_IF_ERROR(check_not_null(bytes, "neff_bytes"));
  ONRT_RETURN_IF_ERROR(check_not_null(out, "model"));
  if (vnc >= session->core_count()) {
    ONRT_RETURN_IF_ERROR(session->core(vnc).status());
  }
  if (vnc_count > session->core_count() - std::max(vnc, 0)) {
    return Status(NRT_LOAD_NOT_ENOUGH_NC,
                  format("{} NeuronCores asked for from index {}, this process has {}", vnc_count,
                         std::max(vnc, 0), session->core_count()));
  }
  ONRT_ASSIGN_OR_RETURN(
      const Model* const model,
      load_neff(*session, std::span(static_cast<const std::byte*>(bytes), size), vnc));
  *out = static_cast<nrt_model_t*>(HandleTable<Model>::handle_of(model));
  return ok_status();
}

// One block: the array, then the shapes.
Status make_tensor_info(const Model& model, nrt_tensor_info_array_t** out) {
  size_t dims = 0;
  for (const NeffTensor& tensor : model.tensors()) {
    dims += tensor.dims.size();
    for (const int64_t dim : tensor.dims) {
      if (dim < 0 || dim > std::numeric_limits<uint32_t>::max()) {
        return Status(NRT_FAILURE,
                      format("{}: extent {} of tensor '{}' does not fit the 32 bits of "
                             "nrt_tensor_info_t",
                             model.label(), dim, tensor.name));
      }
    }
  }
  const size_t count = model.tensors().size();
  const size_t array_bytes = sizeof(nrt_tensor_info_array_t) + count * sizeof(nrt_tensor_info_t);
  auto* array =
      static_cast<nrt_tensor_info_array_t*>(std::calloc(1, array_bytes + dims * sizeof(uint32_t)));
  if (array == nullptr) {
    return Status(NRT_RESOURCE, "host memory ran out");
  }
  auto* shape = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(array) + array_bytes);
  array->tensor_count = count;
  for (size_t i = 0; i < count; ++i) {
    const NeffTensor& tensor = model.tensors()[i];
    nrt_tensor_info_t& info = array->tensor_array[i];
    tensor.name.copy(info.name, NRT_TENSOR_NAME_MAX - 1);
    info.usage =
        tensor.usage == TensorUsage::kInput ? NRT_TENSOR_USAGE_INPUT : NRT_TENSOR_USAGE_OUTPUT;
    info.size = tensor.size_bytes;
    info.dtype = static_cast<nrt_dtype_t>(dtype_info(tensor.dtype).nrt_code);
    info.shape = shape;
    info.ndim = static_cast<uint32_t>(tensor.dims.size());
    for (const int64_t dim : tensor.dims) {
      *shape++ = static_cast<uint32_t>(dim);
    }
  }
  *out = array;
  return ok_status();
}

// A model runs on one logical core, one execution at a time.
NRT_STATUS one_for_model(const nrt_model_t* model, uint32_t* out, const char* name,
                         const char* function) {
  return c_boundary(
      [&] {
        return with_model(model, [&](Session&, Model&) -> Status {
          ONRT_RETURN_IF_ERROR(check_not_null(out, name));
          *out = 1;
          return ok_status();
        });
      },
      function);
}

}  // namespace

extern "C" NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                               nrt_model_t** model) {
  return c_boundary([&] { return load(neff_bytes, size, vnc, vnc_count, model); });
}

extern "C" NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc,
                                           int32_t vnc_count, uint32_t ctx_device_id,
                                           uint32_t ctx_device_count, nrt_model_t** model) {
  return c_boundary([&]() -> Status {
    if (ctx_device_id >= ctx_device_count) {
      return Status(NRT_INVALID, format("ctx_device_id {}: expected less than ctx_device_count {}",
                                        ctx_device_id, ctx_device_count));
    }
    return load(neff_bytes, size, vnc, vnc_count, model);
  });
}

extern "C" NRT_STATUS nrt_unload(nrt_model_t* model) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(Model* const found, object_of<Model>(model, "model"));
    return unload_model(*session, found, 0);
  });
}

extern "C" NRT_STATUS nrt_get_model_nc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return one_for_model(model, vnc_count, "vnc_count", "nrt_get_model_nc_count");
}
extern "C" NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t* model, uint32_t* vnc_count) {
  return one_for_model(model, vnc_count, "vnc_count", "nrt_get_model_vnc_count");
}
extern "C" NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* instance_count) {
  return one_for_model(model, instance_count, "instance_count", "nrt_get_model_instance_count");
}

extern "C" NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model,
                                                nrt_tensor_info_array_t** tensor_info) {
  return c_boundary([&] {
    return with_model(model, [&](Session&, Model& found) -> Status {
      ONRT_RETURN_IF_ERROR(check_not_null(tensor_info, "tensor_info"));
      return make_tensor_info(found, tensor_info);
    });
  });
}

// Only host memory: works in any state.
extern "C" NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info) {
  return c_boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_not_null(tensor_info, "tensor_info"));
    std::free(tensor_info);
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info,
                                         size_t info_size_in, size_t* info_size_out) {
  return c_boundary([&] {
    return with_model(model, [&](Session&, Model& found) {
      return fill_struct(nrt_model_info_t{static_cast<uint32_t>(found.core().local)}, info,
                         info_size_in, info_size_out);
    });
  });
}

extern "C" NRT_STATUS onrt_get_model_times(const nrt_model_t* model, onrt_model_times_t* times,
                                           size_t size_in, size_t* size_out) {
  return c_boundary([&] {
    return with_model(model, [&](Session&, Model& found) {
      onrt_model_times_t now = {};
      now.executions = found.times.executions.load();
      now.last_device_ns = found.times.last_device_ns.load();
      now.total_device_ns = found.times.total_device_ns.load();
      now.last_wall_ns = found.times.last_wall_ns.load();
      now.total_wall_ns = found.times.total_wall_ns.load();
      return fill_struct(now, times, size_in, size_out);
    });
  });
}
