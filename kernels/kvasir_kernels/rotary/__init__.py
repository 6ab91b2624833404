"""Rotary position embedding of queries and keys."""

from kvasir_kernels.rotary.reference import apply_rotary

__all__ = ["apply_rotary"]
