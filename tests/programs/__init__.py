# SPDX-License-Identifier: Apache-2.0
"""Programs that JAX users write, for tests (small) and benchmarks (large)."""

from programs.registry import Program, all_programs

__all__ = ["Program", "all_programs"]
