"""`kvasir-runtime bench WHAT …`: picks what is measured, and says what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kvasir_runtime.errors import KvasirError

USAGE = """\
usage: kvasir-runtime bench WHAT [options]

what to measure:
  throughput MODEL   tokens a second of the engine in this process, on batches of requests
  serving            latency under requests that arrive over time: of any OpenAI-compatible
                     server (--base-url URL), or of the engine without HTTP (MODEL)

`kvasir-runtime bench WHAT --help` lists the options."""


def main(argv: Sequence[str]) -> int:
    """Run one benchmark; return 1 when it can't be done, 2 for a command line that is wrong."""
    what = argv[0] if argv else "--help"
    if what in ("-h", "--help", "help"):
        sys.stdout.write(USAGE + "\n")
        return 0
    try:
        if what == "throughput":
            from kvasir_runtime.bench.throughput import main as throughput  # late: it loads torch

            return throughput(argv[1:])
        if what == "serving":
            from kvasir_runtime.bench.serving import main as serving

            return serving(argv[1:])
    except KvasirError as error:
        sys.stderr.write(f"kvasir-runtime bench: {error.reason}: {error}\n")
        return 1
    sys.stderr.write(f"kvasir-runtime bench: there is nothing called {what!r}\n\n{USAGE}\n")
    return 2
