# SPDX-License-Identifier: Apache-2.0
"""Why samples of op_db fail on device neuron: each failure of the sweep has one of these reasons."""

import re

# Reason: expression over "operation type kind: message".
_REASONS = {
    "the sample's storage is larger than its tensor, a copy's isn't": r"^as_strided\.partial_views ",
    "sparse tensors are not held by the device": r"^(sparse\.(mm\.reduce|sampled_addmm)|to_sparse) ",
    "torch wants the indices of tensor_split on the CPU": r"^tensor_split .* tensor_split expected",
}
_COMPILED = {reason: re.compile(expression) for reason, expression in _REASONS.items()}


def reason_of(op: str, dtype: str, kind: str, text: str) -> str | None:
    line = f"{op} {dtype} {kind}: {text}"
    return next((reason for reason, e in _COMPILED.items() if e.search(line)), None)
