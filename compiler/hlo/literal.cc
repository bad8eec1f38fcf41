// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/literal.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "compiler/hlo/location.h"
#include "compiler/hlo/shape.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/format.h"

namespace onrt::hlo {
namespace {

static_assert(std::endian::native == std::endian::little, "literals are used in place");
static_assert(sizeof(bool) == 1);

template <class Elements>
std::span<const std::byte> bytes_of(const Elements& elements) {
  return std::as_bytes(std::span(elements.data(), static_cast<size_t>(std::size(elements))));
}

// The field of the literal that holds elements of this type; empty for a type nrtcc lacks.
std::span<const std::byte> stored_bytes(const opennrt::hlo::Literal& literal, uint32_t type) {
  switch (type) {
    case NRTCC_PRED:
      return bytes_of(literal.preds());
    case NRTCC_S8:
      return bytes_of(literal.s8s());
    case NRTCC_S16:
      return bytes_of(literal.s16s());
    case NRTCC_S32:
      return bytes_of(literal.s32s());
    case NRTCC_S64:
      return bytes_of(literal.s64s());
    case NRTCC_U8:
      return bytes_of(literal.u8s());
    case NRTCC_U16:
      return bytes_of(literal.u16s());
    case NRTCC_U32:
      return bytes_of(literal.u32s());
    case NRTCC_U64:
      return bytes_of(literal.u64s());
    case NRTCC_F16:
      return bytes_of(literal.f16s());
    case NRTCC_BF16:
      return bytes_of(literal.bf16s());
    case NRTCC_F32:
      return bytes_of(literal.f32s());
    case NRTCC_F64:
      return bytes_of(literal.f64s());
    case NRTCC_F8E5M2:
      return bytes_of(literal.f8e5m2s());
    case NRTCC_F8E4M3FN:
      return bytes_of(literal.f8e4m3fns());
    case NRTCC_F8E4M3:
      return bytes_of(literal.f8e4m3s());
    default:
      return {};
  }
}

bool same_array(const opennrt::hlo::Shape& a, const opennrt::hlo::Shape& b) {
  return a.element_type() == b.element_type() &&
         std::equal(a.dimensions().begin(), a.dimensions().end(), b.dimensions().begin(),
                    b.dimensions().end());
}

// Copies elements stored in the order of `shape`'s layout to row-major order.
std::vector<std::byte> to_row_major(std::span<const std::byte> stored,
                                    const opennrt::hlo::Shape& shape) {
  const size_t rank = static_cast<size_t>(shape.dimensions_size());
  const size_t element = static_cast<size_t>(element_bytes(shape));
  std::vector<size_t> stride(rank);
  size_t next = element;
  for (const int64_t dimension : shape.layout().minor_to_major()) {
    stride[static_cast<size_t>(dimension)] = next;
    next *= static_cast<size_t>(shape.dimensions(static_cast<int>(dimension)));
  }
  std::vector<std::byte> result(stored.size());
  std::vector<int64_t> index(rank);
  size_t from = 0;
  for (size_t to = 0; to < result.size(); to += element) {
    std::memcpy(result.data() + to, stored.data() + from, element);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape.dimensions(static_cast<int>(d))) {
        break;
      }
      from -= stride[d] * static_cast<size_t>(index[d]);
      index[d] = 0;
    }
  }
  return result;
}

template <class Element, class Field>
void append(std::span<const std::byte> data, Field* field) {
  const size_t count = data.size() / sizeof(Element);
  field->Reserve(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, data.data() + i * sizeof(Element), sizeof(Element));
    field->Add(element);
  }
}

std::string text_of(std::span<const std::byte> data) {
  return std::string(reinterpret_cast<const char*>(data.data()), data.size());
}

}  // namespace

Result<LiteralBytes> read_literal(const opennrt::hlo::Literal& literal,
                                  const opennrt::hlo::Shape& shape) {
  if (element_bytes(shape) == 0) {
    return unsupported(format("constant of shape {} is not supported", shape_text(shape)));
  }
  if (!same_array(literal.shape(), shape)) {
    return malformed(format("literal has shape {}, the instruction has {}",
                            shape_text(literal.shape()), shape_text(shape)));
  }
  LiteralBytes result;
  result.data = stored_bytes(literal, shape.element_type());
  const auto expected = static_cast<uint64_t>(element_count(shape) * element_bytes(shape));
  if (result.data.size() != expected) {
    return malformed(format("literal of shape {} needs {} bytes of elements, found {}",
                            shape_text(shape), expected, result.data.size()));
  }
  // The literal's own layout orders its elements, so it is checked like the instruction's.
  ONRT_ASSIGN_OR_RETURN(const ShapeView checked, ShapeView::create(literal.shape()));
  if (checked.get()->rank > 1 && !is_row_major(literal.shape())) {
    result.owned = to_row_major(result.data, literal.shape());
    result.data = result.owned;
  }
  return result;
}

Status write_literal(std::span<const std::byte> data, const opennrt::hlo::Shape& shape,
                     opennrt::hlo::Literal& literal) {
  *literal.mutable_shape() = shape;
  switch (shape.element_type()) {
    case NRTCC_PRED:
      append<uint8_t>(data, literal.mutable_preds());
      break;
    case NRTCC_S8:
      literal.set_s8s(text_of(data));
      break;
    case NRTCC_S16:
      literal.set_s16s(text_of(data));
      break;
    case NRTCC_S32:
      append<int32_t>(data, literal.mutable_s32s());
      break;
    case NRTCC_S64:
      append<int64_t>(data, literal.mutable_s64s());
      break;
    case NRTCC_U8:
      literal.set_u8s(text_of(data));
      break;
    case NRTCC_U16:
      literal.set_u16s(text_of(data));
      break;
    case NRTCC_U32:
      append<uint32_t>(data, literal.mutable_u32s());
      break;
    case NRTCC_U64:
      append<uint64_t>(data, literal.mutable_u64s());
      break;
    case NRTCC_F16:
      literal.set_f16s(text_of(data));
      break;
    case NRTCC_BF16:
      literal.set_bf16s(text_of(data));
      break;
    case NRTCC_F32:
      append<float>(data, literal.mutable_f32s());
      break;
    case NRTCC_F64:
      append<double>(data, literal.mutable_f64s());
      break;
    case NRTCC_F8E5M2:
      literal.set_f8e5m2s(text_of(data));
      break;
    case NRTCC_F8E4M3FN:
      literal.set_f8e4m3fns(text_of(data));
      break;
    case NRTCC_F8E4M3:
      literal.set_f8e4m3s(text_of(data));
      break;
    default:
      return unsupported(format("constant of shape {} is not supported", shape_text(shape)));
  }
  return ok_status();
}

}  // namespace onrt::hlo
