// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_bench/model.h"

#include <dlfcn.h>

#include "opennrt/opennrt.h"
#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

// onrt_* exist in our library only, and the tool also runs on the vendor's.
template <class Function>
Function find_extension(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

Status checked(NRT_STATUS status, const char* call) {
  if (status == NRT_SUCCESS) {
    return ok_status();
  }
  const auto last_error = find_extension<decltype(&onrt_last_error)>("onrt_last_error");
  const std::string detail = last_error != nullptr ? last_error() : "";
  return Status(status, format("{} failed with status {} ({}){}{}", call, static_cast<int>(status),
                               nrt_get_status_as_str(status), detail.empty() ? "" : ": ", detail));
}

Result<std::unique_ptr<Runtime>> Runtime::start() {
  ONRT_RETURN_IF_ERROR(checked(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init"));
  return std::unique_ptr<Runtime>(new Runtime());
}

Result<std::unique_ptr<Model>> Model::load(std::span<const std::byte> neff, int core) {
  std::unique_ptr<Model> model(new Model());
  ONRT_RETURN_IF_ERROR(
      checked(nrt_load(neff.data(), neff.size(), core, -1, &model->model_), "nrt_load"));
  ONRT_RETURN_IF_ERROR(model->read_table());
  ONRT_RETURN_IF_ERROR(model->allocate(core));
  return model;
}

Model::~Model() {
  if (inputs_ != nullptr) {
    nrt_destroy_tensor_set(&inputs_);
  }
  if (outputs_ != nullptr) {
    nrt_destroy_tensor_set(&outputs_);
  }
  for (nrt_tensor_t*& buffer : buffers_) {
    nrt_tensor_free(&buffer);
  }
  if (model_ != nullptr) {
    nrt_unload(model_);
  }
}

Status Model::read_table() {
  nrt_tensor_info_array_t* table = nullptr;
  ONRT_RETURN_IF_ERROR(
      checked(nrt_get_model_tensor_info(model_, &table), "nrt_get_model_tensor_info"));
  for (uint64_t i = 0; i < table->tensor_count; ++i) {
    const nrt_tensor_info_t& row = table->tensor_array[i];
    TensorInfo info;
    info.name = row.name;
    info.is_input = row.usage == NRT_TENSOR_USAGE_INPUT;
    info.bytes = row.size;
    info.dtype = row.dtype;
    info.shape.assign(row.shape, row.shape + row.ndim);
    tensors_.push_back(std::move(info));
  }
  return checked(nrt_free_model_tensor_info(table), "nrt_free_model_tensor_info");
}

Status Model::allocate(int core) {
  ONRT_RETURN_IF_ERROR(checked(nrt_allocate_tensor_set(&inputs_), "nrt_allocate_tensor_set"));
  ONRT_RETURN_IF_ERROR(checked(nrt_allocate_tensor_set(&outputs_), "nrt_allocate_tensor_set"));
  for (const TensorInfo& info : tensors_) {
    nrt_tensor_t* buffer = nullptr;
    ONRT_RETURN_IF_ERROR(checked(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, info.bytes,
                                                     info.name.c_str(), &buffer),
                                 "nrt_tensor_allocate"));
    buffers_.push_back(buffer);
    nrt_tensor_set_t* set = info.is_input ? inputs_ : outputs_;
    ONRT_RETURN_IF_ERROR(checked(nrt_add_tensor_to_tensor_set(set, info.name.c_str(), buffer),
                                 "nrt_add_tensor_to_tensor_set"));
  }
  return ok_status();
}

Status Model::write(size_t index, std::span<const std::byte> data) {
  return checked(nrt_tensor_write(buffers_[index], data.data(), 0, data.size()),
                 "nrt_tensor_write");
}

Result<std::vector<std::byte>> Model::read(size_t index) const {
  std::vector<std::byte> data(tensors_[index].bytes);
  ONRT_RETURN_IF_ERROR(
      checked(nrt_tensor_read(buffers_[index], data.data(), 0, data.size()), "nrt_tensor_read"));
  return data;
}

std::optional<DeviceTimes> Model::times() const {
  const auto get = find_extension<decltype(&onrt_get_model_times)>("onrt_get_model_times");
  onrt_model_times_t times = {};
  size_t size = 0;
  if (get == nullptr || get(model_, &times, sizeof(times), &size) != NRT_SUCCESS) {
    return std::nullopt;
  }
  return DeviceTimes{times.executions, times.total_device_ns};
}

}  // namespace onrt::tools
