"""Root-mean-square normalisation, alone and fused with the residual addition before it."""

from kvasir_kernels.rms_norm.reference import add_rms_norm, rms_norm

__all__ = ["add_rms_norm", "rms_norm"]
