"""Lets `python -m kvasir_runtime.server …` be `kvasir-runtime serve …`."""

from __future__ import annotations

import sys

from kvasir_runtime.server.serve import main

if __name__ == "__main__":
    sys.exit(main())
