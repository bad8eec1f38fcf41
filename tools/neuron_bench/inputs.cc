// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_bench/inputs.h"

#include <algorithm>
#include <set>

#include "runtime/base/format.h"
#include "tools/common/file.h"

namespace onrt::tools {
namespace {

struct TypeRow {
  nrt_dtype_t dtype;
  const char* type;               // what we write
  std::vector<std::string> also;  // what else is taken: same size, no conversion
};

// PRED is reported as uint8, fp8 types as int8 (runtime/base/dtype.def).
const std::vector<TypeRow>& type_table() {
  static const std::vector<TypeRow> kTable = {
      {NRT_DTYPE_FLOAT32, "<f4", {}},
      {NRT_DTYPE_FP32R, "<f4", {}},
      {NRT_DTYPE_FLOAT16, "<f2", {}},
      {NRT_DTYPE_BFLOAT16, "<V2", {"|V2", "<u2"}},
      {NRT_DTYPE_UINT8, "|u1", {"|b1"}},
      {NRT_DTYPE_INT8, "|i1", {"<V1", "|V1"}},
      {NRT_DTYPE_UINT16, "<u2", {}},
      {NRT_DTYPE_INT16, "<i2", {}},
      {NRT_DTYPE_UINT32, "<u4", {}},
      {NRT_DTYPE_INT32, "<i4", {}},
      {NRT_DTYPE_UINT64, "<u8", {}},
      {NRT_DTYPE_INT64, "<i8", {}},
      {NRT_DTYPE_FP8_E3, "|V1", {"<V1", "|u1", "|i1"}},
      {NRT_DTYPE_FP8_E4, "|V1", {"<V1", "|u1", "|i1"}},
      {NRT_DTYPE_FP8_E5, "|V1", {"<V1", "|u1", "|i1"}},
  };
  return kTable;
}

bool takes(nrt_dtype_t dtype, const std::string& type) {
  const auto& table = type_table();
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const TypeRow& r) { return r.dtype == dtype; });
  return row == table.end() || type == row->type ||
         std::find(row->also.begin(), row->also.end(), type) != row->also.end();
}

Status check_fit(const TensorInfo& info, const Array& array) {
  if (array.shape != info.shape || !takes(info.dtype, array.type) ||
      array.data.size() != info.bytes) {
    const std::string type = numpy_type(info.dtype);
    return Status(NRT_INVALID,
                  format("input '{}': expected {} of {} bytes, found {} of {} bytes", info.name,
                         array_text(type.empty() ? "?" : type, info.shape), info.bytes,
                         array_text(array.type, array.shape), array.data.size()));
  }
  return ok_status();
}

class Matcher {
 public:
  explicit Matcher(const std::vector<TensorInfo>& tensors) : tensors_(tensors) {}

  Status take(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    const std::string path = equals == std::string::npos ? word : word.substr(equals + 1);
    ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> file, read_file(path));
    if (path.ends_with(".npz") && name.empty()) {
      auto arrays = parse_npz(file);
      if (!arrays.ok()) {
        return std::move(arrays).status().annotate(path);
      }
      for (NamedArray& named : *arrays) {
        ONRT_RETURN_IF_ERROR(put(named.first, std::move(named.second), path));
      }
      return ok_status();
    }
    auto array = parse_npy(file);
    if (!array.ok()) {
      return std::move(array).status().annotate(path);
    }
    return put(name, std::move(array).value(), path);
  }

  std::vector<Input> result() && { return std::move(inputs_); }

 private:
  // "" : the first input that has no array yet.
  Status put(const std::string& name, Array array, const std::string& path) {
    size_t index = 0;
    while (index < tensors_.size() &&
           (!tensors_[index].is_input ||
            (name.empty() ? used_.contains(index) : tensors_[index].name != name))) {
      ++index;
    }
    if (index == tensors_.size()) {
      return Status(NRT_INVALID,
                    name.empty() ? format("{}: the model has only {} inputs", path, used_.size())
                                 : format("{}: the model has no input '{}'; it has {}", path, name,
                                          input_names()));
    }
    if (!used_.insert(index).second) {
      return Status(NRT_INVALID, format("{}: input '{}' has a file already", path, name));
    }
    ONRT_RETURN_IF_ERROR(check_fit(tensors_[index], array).annotate(path));
    inputs_.push_back({index, std::move(array), path});
    return ok_status();
  }

  std::string input_names() const {
    std::string names;
    for (const TensorInfo& info : tensors_) {
      if (info.is_input) {
        names += (names.empty() ? "" : ", ") + info.name;
      }
    }
    return names.empty() ? "none" : names;
  }

  const std::vector<TensorInfo>& tensors_;
  std::set<size_t> used_;
  std::vector<Input> inputs_;
};

}  // namespace

std::string numpy_type(nrt_dtype_t dtype) {
  for (const TypeRow& row : type_table()) {
    if (row.dtype == dtype) {
      return row.type;
    }
  }
  return "";
}

Result<std::vector<Input>> read_inputs(const std::vector<std::string>& words,
                                       const std::vector<TensorInfo>& tensors) {
  Matcher matcher(tensors);
  for (const std::string& word : words) {
    ONRT_RETURN_IF_ERROR(matcher.take(word));
  }
  return std::move(matcher).result();
}

}  // namespace onrt::tools
