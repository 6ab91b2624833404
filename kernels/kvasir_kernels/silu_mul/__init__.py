"""The gated activation of the Llama family's feed-forward layer."""

from kvasir_kernels.silu_mul.reference import silu_mul

__all__ = ["silu_mul"]
