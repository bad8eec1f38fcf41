// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/gemm/finish.h"

#include "emulator/exec/gemm/element.h"

namespace onrt::gemm_detail {
namespace {

bool is_half(Dtype dtype) { return dtype == Dtype::kBF16 || dtype == Dtype::kF16; }

template <class T>
void turn(const void* sums, int64_t rows, int64_t columns, int64_t stride, void* room) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      static_cast<T*>(room)[j * rows + i] = static_cast<const T*>(sums)[i * stride + j];
    }
  }
}

}  // namespace

void Finish::tile(int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns,
                  void* sums, int64_t stride, void* room) const {
  const Dtype accumulator = gemm_accumulator(p_.c.dtype);
  const int64_t line_bytes = stride * static_cast<int64_t>(dtype_bytes(accumulator));
  auto* line = static_cast<std::byte*>(sums);
  for (int64_t i = 0; i < rows; ++i, line += line_bytes) {
    if (p_.epilogue == nullptr) {
      store_line(batch, row + i, column, columns, line);
    } else {
      round_line(line, columns);
    }
  }
  if (p_.epilogue == nullptr) {
    return;
  }
  GemmTile tile{batch, row, column, rows, columns, accumulator, sums, stride};
  if (turned_) {
    if (dtype_bytes(accumulator) == 8) {
      turn<uint64_t>(sums, rows, columns, stride, room);
    } else {
      turn<uint32_t>(sums, rows, columns, stride, room);
    }
    tile = {batch, column, row, columns, rows, accumulator, room, rows};
  }
  p_.epilogue(p_.epilogue_context, tile);
}

void Finish::round_line(void* line, int64_t columns) const {
  const Dtype dtype = p_.c.dtype;
  if (is_half(dtype)) {
    kernels_.round_half(static_cast<float*>(line), columns, static_cast<uint8_t>(dtype));
    return;
  }
  if (dtype == Dtype::kF32 || dtype == Dtype::kF64) {
    return;
  }
  for (int64_t i = 0; i < columns; ++i) {
    if (is_floating(dtype)) {
      float& value = static_cast<float*>(line)[i];
      value = round_float(value, dtype);
    } else if (gemm_accumulator(dtype) == Dtype::kS32) {
      uint32_t& value = static_cast<uint32_t*>(line)[i];
      value = static_cast<uint32_t>(wrap_integer(value, dtype));
    }
  }
}

void Finish::store_line(int64_t batch, int64_t row, int64_t column, int64_t columns,
                        const void* line) const {
  const Dtype dtype = p_.c.dtype;
  const int64_t first =
      batch * p_.c.batch_stride + row * p_.c.row_stride + column * p_.c.column_stride;
  if (is_half(dtype) && p_.c.column_stride == 1) {
    kernels_.store_half(static_cast<const float*>(line), columns, static_cast<uint8_t>(dtype),
                        static_cast<uint16_t*>(p_.c.data) + first);
    return;
  }
  const bool wide = dtype_bytes(gemm_accumulator(dtype)) == 8;
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t index = first + i * p_.c.column_stride;
    if (is_floating(dtype)) {
      store_float(p_.c.data, dtype, index, static_cast<const float*>(line)[i]);
    } else {
      store_integer(
          p_.c.data, dtype, index,
          wide ? static_cast<const uint64_t*>(line)[i] : static_cast<const uint32_t*>(line)[i]);
    }
  }
}

}  // namespace onrt::gemm_detail
