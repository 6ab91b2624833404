"""The `kvasir` command, also `kubectl kvasir`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from kvasir_operator.errors import SettingsError
from kvasir_operator.handlers import run
from kvasir_operator.logs import set_up_logs
from kvasir_operator.settings import Settings


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="kvasir", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    operator = commands.add_parser("operator", help="run the control plane in this process")
    where = operator.add_mutually_exclusive_group()
    where.add_argument(
        "--namespace", action="append", default=[], metavar="NAME",
        help="watch this namespace; repeat for several (default: all namespaces)",
    )  # fmt: skip
    where.add_argument("--all-namespaces", action="store_true", help="watch all namespaces")
    operator.add_argument(
        "--default-image", default=os.environ.get("KVASIR_DEFAULT_IMAGE", ""), metavar="IMAGE",
        help="engine image of services that name none (also env KVASIR_DEFAULT_IMAGE)",
    )  # fmt: skip
    operator.add_argument(
        "--health-port", type=int, default=8080, metavar="PORT",
        help="port of /healthz; 0 serves none (default: 8080)",
    )  # fmt: skip
    operator.add_argument("--workers", type=int, default=8, help="services at once (default: 8)")
    operator.add_argument("--log-format", choices=("text", "json"), default="text")
    operator.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
    return parser


def parse_settings(args: argparse.Namespace) -> Settings:
    """Settings from the parsed command line.

    Raises:
        SettingsError: when they cannot work.
    """
    return Settings(
        default_image=args.default_image,
        namespaces=tuple(dict.fromkeys(args.namespace)),
        health_port=args.health_port,
        log_format=args.log_format,
        log_level=args.log_level,
        workers=args.workers,
    )


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    args = build_parser().parse_args(argv)
    try:
        settings = parse_settings(args)
        set_up_logs(settings.log_format, settings.log_level)
        asyncio.run(run(settings))
    except SettingsError as error:
        sys.stderr.write(f"kvasir: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
