"""The command line of `kvasir-runtime bench serving`, read into what is to be run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kvasir_runtime.bench.arrivals import Arrival, mean_rate, poisson, read_arrivals
from kvasir_runtime.bench.openai_server import ServerAddress
from kvasir_runtime.bench.plot import require_plotting
from kvasir_runtime.config import EngineConfig, add_engine_flags, from_args, settle_model
from kvasir_runtime.errors import InvalidConfigError

DEFAULT_REQUESTS = 1000  # fewer make a p99 out of less than ten requests


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of one run: their mean rate a second, and where the arrivals came from."""

    rate: float
    source: str
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """One call of the command."""

    loads: tuple[Load, ...]
    target: EngineConfig | ServerAddress
    prompt_type: Literal["ids", "words"]
    vocab_size: int
    seed: int
    json_file: str | None
    plot_file: Path | None


def build_parser() -> argparse.ArgumentParser:
    """Return the parser: the load's options, the server's, and the engine's."""
    parser = argparse.ArgumentParser(
        prog="kvasir-runtime bench serving",
        description="Measure latency under requests that arrive over time: of the server at "
        "--base-url, or of the engine MODEL without HTTP. --seed draws arrivals and prompts, too.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_load_flags(parser)
    _add_server_flags(parser)
    add_engine_flags(parser)
    parser.set_defaults(skip_tokenizer_init=True, enable_prefix_caching=False)
    return parser


def _add_load_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    when = group.add_mutually_exclusive_group(required=True)
    when.add_argument("--rates", metavar="R,R,…", help="Poisson arrivals, requests a second")
    when.add_argument(
        "--arrivals", metavar="FILE",
        help="given arrivals: an offset in seconds a line, or JSON lines with offset_s, input_len "
        "and output_len",
    )  # fmt: skip
    count = group.add_mutually_exclusive_group()
    count.add_argument(
        "--requests", type=int, help=f"requests at each rate; {DEFAULT_REQUESTS} if not said"
    )
    count.add_argument("--seconds", type=float, help="as many requests as this long brings")
    group.add_argument("--input-len", type=int, default=512, help="tokens of a prompt")
    group.add_argument("--output-len", type=int, default=256, help="tokens of an answer")
    group.add_argument("--json", metavar="FILE", help="write the JSON lines there as well")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw TTFT and TPOT: .png or .svg")


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--base-url", help="an OpenAI-compatible server, as http://HOST:PORT/v1")
    group.add_argument("--served-model-name", help="default: the first the server lists")
    group.add_argument("--api-key", help="also OPENAI_API_KEY")
    group.add_argument("--timeout-s", type=float, default=600.0, help="longest silence of a stream")
    group.add_argument(
        "--prompt-type", choices=("ids", "words"), default="ids",
        help="words: for servers that take no token ids; lengths are then about right",
    )  # fmt: skip
    group.add_argument(
        "--vocab-size", type=int, default=32_000,
        help="a server's prompts are drawn from ids below this",
    )  # fmt: skip
    group.add_argument(
        "--ignore-eos", action=argparse.BooleanOptionalAction, default=True,
        help="answers of the full length, a field beyond OpenAI's own",
    )  # fmt: skip


def parse_options(argv: Sequence[str]) -> ServingOptions:
    """Read the command line; raises InvalidConfigError, or exits with 2."""
    parser = build_parser()
    args = parser.parse_args(argv)
    for name in ("requests", "seconds", "input_len", "output_len", "vocab_size", "timeout_s"):
        value = getattr(args, name)
        if value is not None and not value > 0:
            raise InvalidConfigError(f"{name} is {value}", "it must be above 0")
    if args.plot is not None:
        require_plotting(args.plot)
    return ServingOptions(
        target=_target(parser, args),
        loads=_given_load(args) if args.arrivals else _poisson_loads(args),
        prompt_type=args.prompt_type if args.base_url else "ids",
        vocab_size=args.vocab_size,
        seed=args.seed,
        json_file=args.json,
        plot_file=args.plot,
    )


def _target(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> EngineConfig | ServerAddress:
    if not args.base_url:
        settle_model(parser, args)
        return from_args(args, EngineConfig)
    if args.model or args.model_positional:
        parser.error("a model and --base-url: the engine is measured, or a server")
    return ServerAddress(
        base_url=args.base_url,
        model=args.served_model_name,
        api_key=args.api_key or os.environ.get("OPENAI_API_KEY"),
        ignore_eos=args.ignore_eos,
        timeout_s=args.timeout_s,
    )


def _poisson_loads(args: argparse.Namespace) -> tuple[Load, ...]:
    lengths: dict[str, Any] = {"input_len": args.input_len, "output_len": args.output_len}
    loads = []
    for rate in _rates(args.rates):
        by_time = args.seconds and max(1, int(rate * args.seconds))
        count = by_time or args.requests or DEFAULT_REQUESTS
        loads.append(Load(rate, "poisson", tuple(poisson(rate, count, args.seed, **lengths))))
    return tuple(loads)


def _rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise InvalidConfigError(f"--rates is {text!r}", "write requests a second, as in 4,16")
    return rates


def _given_load(args: argparse.Namespace) -> tuple[Load, ...]:
    path = Path(args.arrivals)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(f"--arrivals is {path}: {error}", "give a text file") from error
    read = read_arrivals(lines, input_len=args.input_len, output_len=args.output_len)
    wanted = [a for a in read if args.seconds is None or a.offset_s < args.seconds]
    wanted = wanted[: args.requests]
    if not wanted:
        raise InvalidConfigError(
            f"none of the {len(read)} arrivals comes within {args.seconds} s", "raise --seconds"
        )
    return (Load(mean_rate(wanted), path.name, tuple(wanted)),)
