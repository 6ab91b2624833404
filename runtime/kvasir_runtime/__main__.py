"""`kvasir-runtime COMMAND …`: the data plane's command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

USAGE = """\
usage: kvasir-runtime COMMAND [options]

commands:
  serve MODEL    serve one model over the OpenAI API (serve --help lists its flags)
  bench WHAT     measure throughput or serving latency (bench --help)

options:
  -h, --help     show this
  --version      show the version"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if command in ("--version", "version"):
        print(f"kvasir-runtime {version('kvasir')}")
        return 0
    if command == "serve":
        from kvasir_runtime.server.serve import main as serve  # late: --help stays quick

        return serve(arguments[1:])
    if command == "bench":
        from kvasir_runtime.bench.command import main as bench

        return bench(arguments[1:])
    print(f"kvasir-runtime: there is no command {command!r}\n\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
