// SPDX-License-Identifier: Apache-2.0
// One scalar operation at a time on boxed values: for the reference interpreter, constant folding,
// scatter combiners and tests. The same functions as the executors' loops.
#pragma once

#include <cstdint>
#include <span>

#include "emulator/isa/program.h"
#include "runtime/base/dtype.h"

namespace onrt::ncx {

// The register of one element: f32 bits, or the integer sign- or zero-extended to 64 bits.
using Boxed = uint64_t;

Boxed load_boxed(Dtype dtype, const void* element);
void store_boxed(Dtype dtype, Boxed value, void* element);

// The element whose bits are the low bits of `bits` (MicroOp::immediate of a constant).
Boxed box_bits(Dtype dtype, uint64_t bits);

// `operand` is the type of the operands (kSelect: of the second and third). `immediate` as in
// MicroOp; `index` is the iota's position.
Boxed evaluate(ScalarOp op, Dtype result, Dtype operand, const Boxed* operands, uint64_t immediate,
               int64_t index);

// Running values of a reduction accumulate without rounding to bf16, f16 or fp8 (reduce_order.h).
// `type` is the accumulator's; settle_boxed() rounds the total.
Boxed combine_unrounded(ScalarOp combiner, Dtype type, Boxed a, Boxed b);
Boxed settle_boxed(Dtype type, Boxed value);

// The value x for which combine(x, y) = y for every y, bit for bit.
Boxed combiner_identity(ScalarOp combiner, Dtype type);

// Runs a micro-program on one element. `registers` has room for inputs + ops values, the inputs
// first; `input_types` are theirs. `index` gives the element's position for iotas (may be null
// when there is none).
void run_micro_program(const MicroProgram& program, std::span<const Dtype> input_types,
                       Boxed* registers, const int64_t* index);

// Type of a register of a micro-program.
Dtype register_type(const MicroProgram& program, std::span<const Dtype> input_types, uint16_t reg);

}  // namespace onrt::ncx
