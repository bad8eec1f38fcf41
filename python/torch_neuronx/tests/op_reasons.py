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
    "the CPU leaves parts of out= as they were": r"^fft\.ihfft(n|2) \w+ out: ",
    "out= that overlaps an input gets what it would get apart from it": (
        r"^(kthvalue|masked_select|gather|take|cat) f32 raises: no error, .*single memory location"
    ),
    "the type of out= is cast to, where the CPU has one more rule": (
        r"^aminmax f32 raises: no error, .*Expected out tensor to have dtype"
    ),
    "torch's meta kernel has another shape for no elements": (
        r"^nn\.functional\.pixel_unshuffle \w+ empty: .*do not match"
    ),
    # float64 says: both are as far from the right value, or the device (addbmm) is nearer.
    "16-bit sums are rounded at other places": (
        r"^(addbmm|nn\.functional\.(normalize|interpolate\.bilinear)) bf16 (out|plain|strided): "
        r"Tensor-likes are not close"
    ),
    "float64 is computed in float32": (
        r"^(logcumsumexp|linalg\.pinv\.singular) f64 (plain|strided): "
    ),
    "the CPU forgets the type of weights where there is nothing to count": (
        r"^bincount i64 empty: .*dtype"
    ),
    "torch's own formula in Python asks for numbers": r"^gradient f32 raises: NotImplementedError",
}
_COMPILED = {reason: re.compile(expression) for reason, expression in _REASONS.items()}


def reason_of(op: str, dtype: str, kind: str, text: str) -> str | None:
    line = f"{op} {dtype} {kind}: {text}"
    return next((reason for reason, e in _COMPILED.items() if e.search(line)), None)
