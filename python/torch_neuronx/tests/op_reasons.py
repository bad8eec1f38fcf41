# SPDX-License-Identifier: Apache-2.0
"""Why samples of op_db fail on device neuron: each failure of the sweep has one of these."""

import re

# Reason: expression over "operation type kind: message".
_REASONS = {
    "the sample's storage is larger than its tensor, a copy's isn't": (
        r"^as_strided\.partial_views "
    ),
    "sparse tensors are not held by the device": (
        r"^(sparse\.(mm\.reduce|sampled_addmm)|to_sparse) "
    ),
    "torch wants the indices of tensor_split on the CPU": r"^tensor_split .* to be on cpu",
    "saved statistics of norms are float32 for 16-bit inputs, as on GPUs": (
        r"norm\w* (bf16|f16) .*float32 != torch\.(bfloat16|float16)"
    ),
    "torch doesn't promise which of equal elements comes first": (
        r"^(sort|argsort|topk|kthvalue|median|nanmedian|mode|msort)\b.* Tensor-likes are not equal"
    ),
    "the CPU lets addbmm_ grow self": r"^addbmm \w+ inplace: .*broadcast shape",
    "the gradient of a singular matrix": r"^(logdet|linalg\.(det|slogdet)) \w+ (plain|strided): ",
    "the CPU leaves parts of out= as they were": r"^fft\.ihfftn \w+ out: ",
    "torch's own formula in Python asks for numbers": r"^gradient f32 raises: NotImplementedError",
}
_COMPILED = {reason: re.compile(expression) for reason, expression in _REASONS.items()}


def reason_of(op: str, dtype: str, kind: str, text: str) -> str | None:
    line = f"{op} {dtype} {kind}: {text}"
    return next((reason for reason, e in _COMPILED.items() if e.search(line)), None)
