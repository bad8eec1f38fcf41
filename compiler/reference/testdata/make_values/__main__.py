# SPDX-License-Identifier: Apache-2.0
"""Writes values.txt: small HIR programs with the results that JAX's CPU backend or numpy give.

usage: python make_values > values.txt        (needs jax and numpy; results are committed)
"""

from __future__ import annotations

import arrays
import control
import elements
import layers
import order

# The order is that of values.txt, and of the random numbers that cases share.
PARTS = (
    elements.elementwise,
    elements.conversions,
    arrays.movement,
    arrays.sums,
    arrays.products,
    arrays.indexed,
    arrays.random_bits,
    control.control,
    layers.convolutions,
    layers.normalisations,
    arrays.triangles,
    order.ordered,
    order.windows,
)

for part in PARTS:
    part()
