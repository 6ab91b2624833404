"""Writing a step's keys and values into their slots of the paged KV cache."""

from kvasir_kernels.kv_write.reference import write_kv

__all__ = ["write_kv"]
