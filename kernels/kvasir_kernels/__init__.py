"""Kvasir's kernels: one folder an operation, a torch reference and a Triton kernel in each."""
