"""Choosing a token a row: temperature, top-k, top-p, min-p and a seeded draw."""

from kvasir_kernels.sampling.reference import sample

__all__ = ["sample"]
