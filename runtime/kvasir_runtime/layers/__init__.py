"""Building blocks of the models: each a small module over the kernels."""
