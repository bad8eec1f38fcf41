# SPDX-License-Identifier: Apache-2.0
"""What clients of the Neuron compiler import: a thin layer over OpenNRT's neuronx-cc program."""

__version__ = "2.35.0"
