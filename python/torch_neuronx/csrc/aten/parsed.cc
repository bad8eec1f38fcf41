// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/parsed.h"

#include <cmath>
#include <cstring>

#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/device.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

enum Tag : int64_t {
  kTagNone,
  kTagTensor,
  kTagEmpty,
  kTagCpuScalar,
  kTagNumber,
  kTagList,
  kTagText,
  kTagKnown
};

Number number_in(const at::Tensor& cpu_scalar) {
  const c10::Scalar item = cpu_scalar.item();
  if (item.isBoolean()) {
    return {Number::Kind::kBool, item.toBool() ? 1.0 : 0.0, item.toBool() ? 1 : 0, false};
  }
  if (item.isIntegral(false)) {
    return {Number::Kind::kInt, item.toDouble(), item.toLong(), false};
  }
  return {Number::Kind::kFloat, item.toDouble(), 0, false};
}

int64_t bits_of(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
// The type of an argument's schema, without "optional".
c10::TypeKind kind_of(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  while (type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType();
  }
  return type->kind();
}

Number plain_number(const c10::IValue& value) {
  Number number;
  if (value.isBool()) {
    number = {Number::Kind::kBool, value.toBool() ? 1.0 : 0.0, value.toBool() ? 1 : 0, true};
  } else if (value.isInt()) {
    number = {Number::Kind::kInt, static_cast<double>(value.toInt()), value.toInt(), false};
  } else {
    const double d = value.toDouble();
    // Integers that come as floats are needed as such by some rows; out of range stays 0.
    number = {Number::Kind::kFloat, d, std::abs(d) < 9e18 ? static_cast<int64_t>(d) : 0, false};
  }
  return number;
}

class Parser {
 public:
  explicit Parser(const Signature& signature) : signature_(signature) {}

  void parse(const Stack& stack, Parsed& parsed) const {
    const auto& arguments = signature_.arguments;
    const size_t begin = stack.size() - arguments.size();
    find_device(stack, begin, parsed);
    for (size_t i = 0; i < arguments.size(); ++i) {
      parse_argument(arguments[i], stack[begin + i], i, parsed);
      parsed.use_ends.push_back(parsed.uses.size());
    }
    parsed.key.push_back(parsed.device);
  }

 private:
  static void find_device(const Stack& stack, size_t begin, Parsed& parsed) {
    const auto look = [&](const at::Tensor& tensor) {
      if (parsed.device < 0 && tensor.defined() && tensor.device().type() == kDevice) {
        parsed.device = tensor.device().index();
      }
    };
    for (size_t i = begin; i < stack.size() && parsed.device < 0; ++i) {
      if (stack[i].isDevice()) {
        const c10::Device device = stack[i].toDevice();
        parsed.device = device.type() == kDevice && device.has_index() ? device.index() : -1;
      } else if (stack[i].isTensor()) {
        look(stack[i].toTensor());
      } else if (stack[i].isTensorList()) {
        for (const at::Tensor& tensor : stack[i].toTensorList()) {
          look(tensor);
        }
      }
    }
    if (parsed.device < 0) {
      parsed.device = current_device();
    }
  }

  void parse_argument(const Signature::Argument& argument, const c10::IValue& value, size_t i,
                      Parsed& parsed) const {
    Key& key = parsed.key;
    if (value.isNone()) {
      key.push_back(kTagNone);
    } else if (value.isTensor()) {
      parse_tensor(value.toTensor(), i, parsed);
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (const at::Tensor& tensor : list) {
        parse_tensor(tensor, i, parsed);
      }
    } else if (value.isOptionalTensorList()) {
      const auto list = value.toOptionalTensorList();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (const std::optional<at::Tensor>& tensor : list) {
        parse_tensor(tensor.has_value() ? *tensor : at::Tensor(), i, parsed);
      }
    } else if (value.isGenerator()) {
      parsed.generator = value.toGenerator();
      key.push_back(kTagNone);
    } else if (value.isString()) {
      const std::string& text = value.toStringRef();
      key.push_back(kTagText);
      key.push_back(static_cast<int64_t>(std::hash<std::string>{}(text)));
    } else if (value.isDevice()) {
      key.push_back(kTagNone);
    } else if (value.isIntList() || value.isBoolList()) {
      key.push_back(kTagList);
      const auto ints = ints_of(value);
      key.push_back(static_cast<int64_t>(ints.size()));
      key.insert(key.end(), ints.begin(), ints.end());
    } else if (value.isDoubleList()) {
      const auto list = value.toDoubleVector();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (size_t e = 0; e < list.size(); ++e) {
        add_number({Number::Kind::kFloat, list[e], 0, argument.known}, i, e, parsed);
      }
    } else if (value.isList()) {  // of numbers
      const auto list = value.toListRef();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (size_t e = 0; e < list.size(); ++e) {
        Number number = plain_number(c10::IValue(list[e].toScalar()));
        number.known = argument.known;
        add_number(number, i, e, parsed);
      }
    } else if (value.isComplexDouble()) {
      parsed.foreign = true;
    } else {
      add_number(number_of(argument, value), i, 0, parsed);
    }
  }

  static void add_number(const Number& number, size_t i, size_t element, Parsed& parsed) {
    if (number.known) {
      parsed.key.push_back(kTagKnown + static_cast<int64_t>(number.kind) * 16);
      parsed.key.push_back(number.kind == Number::Kind::kFloat ? bits_of(number.value)
                                                               : number.integer);
    } else {
      parsed.key.push_back(kTagNumber + static_cast<int64_t>(number.kind) * 16);
      parsed.add_scalar(i, element, number);
    }
  }

  void parse_tensor(const at::Tensor& given, size_t i, Parsed& parsed) const {
    Key& key = parsed.key;
    if (!given.defined()) {
      key.push_back(kTagNone);
      parsed.uses.push_back(-1);
      return;
    }
    const auto type = type_of(given.scalar_type());
    if (!type || given.layout() != at::kStrided || given.is_neg() || given.is_quantized()) {
      parsed.foreign = true;
      return;
    }
    at::Tensor tensor = given;
    if (given.device().type() != kDevice) {
      if (given.dim() == 0 && given.is_cpu()) {
        key.push_back(kTagCpuScalar);
        key.push_back(*type * 2 + (given.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0));
        Number number = number_in(given);
        const size_t first = i == 0 ? 0 : parsed.use_ends[i - 1];
        parsed.add_scalar(i, parsed.uses.size() - first, number);
        key.push_back(static_cast<int64_t>(number.kind));
        parsed.uses.push_back(
            -3 - (*type * 2 + (given.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0)));
        return;
      }
      TORCH_CHECK(signature_.row.own_device_indices && given.is_cpu(),
                  "Expected all tensors to be on the same device, but found at least two devices, "
                  "neuron:",
                  parsed.device, " and ", given.device(), "!");
      tensor = given.to(c10::Device(kDevice, static_cast<c10::DeviceIndex>(parsed.device)));
      parsed.held.push_back(tensor);
    }
    TORCH_CHECK(tensor.device().index() == parsed.device,
                "Expected all tensors to be on the same device, but found at least two devices, "
                "neuron:",
                parsed.device, " and ", tensor.device(), "!");
    if (tensor.numel() == 0) {
      key.push_back(kTagEmpty);
      key.push_back(*type);
      key.push_back(tensor.dim());
      key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
      parsed.uses.push_back(-2);
      return;
    }
    const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const bool seen = parsed.any_in_storage(storage, [&](size_t n) {
      const Input& other = parsed.inputs[n];
      const bool same =
          other.type == *type && other.tensor.storage_offset() == tensor.storage_offset() &&
          other.tensor.sizes() == tensor.sizes() && other.tensor.strides() == tensor.strides();
      if (same) {
        key.push_back(kTagTensor + 16);
        key.push_back(static_cast<int64_t>(n));
        parsed.uses.push_back(static_cast<int>(n));
      }
      return same;
    });
    if (seen) {
      return;
    }
    const bool contiguous = tensor.is_contiguous();
    const Flat flat = contiguous ? Flat{0, tensor.numel()} : flat_of(tensor, layout_of(tensor));
    key.push_back(kTagTensor);
    key.push_back(*type + (contiguous ? 256 : 0));
    key.push_back(tensor.dim());
    key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
    if (!contiguous) {
      key.insert(key.end(), tensor.strides().begin(), tensor.strides().end());
      key.push_back(flat.length);
      key.push_back(flat.start);
    }
    parsed.uses.push_back(static_cast<int>(parsed.inputs.size()));
    parsed.add_input({std::move(tensor), storage, *type, flat.length, flat.start});
  }

  const Signature& signature_;
};

}  // namespace

Signature::Signature(const Row& given, const c10::FunctionSchema& schema) : row(given) {
  for (const c10::Argument& argument : schema.arguments()) {
    const size_t i = arguments.size();
    const c10::TypeKind kind = kind_of(argument);
    const bool known =
        std::find(row.known.begin(), row.known.end(), static_cast<int>(i)) != row.known.end();
    const bool number = kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
    const bool small = std::find(row.changing.begin(), row.changing.end(), static_cast<int>(i)) !=
                       row.changing.end();
    arguments.push_back(
        {kind == c10::TypeKind::BoolType, known, (number && !known) || small, small});
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
      written.push_back(i);
    }
  }
}

Number number_of(const Signature::Argument& argument, const c10::IValue& value) {
  Number number = plain_number(value);
  constexpr int64_t kLarge = int64_t{1} << 31;
  const bool large = number.integer < -kLarge || number.integer >= kLarge;
  number.known =
      !argument.changing || number.kind == Number::Kind::kBool || (argument.small && large);
  return number;
}

std::vector<int64_t> ints_of(const c10::IValue& value) {
  if (value.isIntList()) {
    return value.toIntVector();
  }
  std::vector<int64_t> ints;
  for (const bool b : value.toBoolList()) {
    ints.push_back(b);
  }
  return ints;
}

void parse(const Signature& signature, const torch::jit::Stack& stack, Parsed& parsed) {
  Parser(signature).parse(stack, parsed);
}

}  // namespace tnx
