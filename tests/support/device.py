"""Where engine tests run: on the CPU, or with KVASIR_TEST_DEVICE=cuda on a GPU."""

import os

DEVICE = os.environ.get("KVASIR_TEST_DEVICE", "cpu")
# The same float32 arithmetic and a small pool everywhere, however large the device is.
SMALL = {"device": DEVICE, "dtype": "float32", "num_gpu_blocks_override": 256}
