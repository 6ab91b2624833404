"""The engine's and the server's settings: one definition for Python keywords and for flags.

Each dataclass field carries its flag's help in its metadata; `add_flags` turns fields into
argparse options and `from_args` reads them back, so `LLM(max_num_seqs=8)` and `--max-num-seqs 8`
can't drift.
Values are checked once, frozen, and passed down.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from dataclasses import MISSING, dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from kvasir_runtime.errors import InvalidConfigError, UnsupportedFeatureError

GIB = 1024**3

DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
KV_CACHE_DTYPES = ("auto", "fp8", "fp8_e4m3")
QUANTIZATIONS = (
    "auto", "none", "awq", "awq_marlin", "gptq", "gptq_marlin", "int8", "fp8", "compressed-tensors",
)  # fmt: skip

ConfigT = TypeVar("ConfigT", bound="EngineConfig | ServerConfig")


def option(default: Any, help_text: str, **extra: Any) -> Any:
    """Declare a setting: its default, its help and what argparse needs beyond its type."""
    return dataclasses.field(default=default, metadata={"help": help_text, **extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything the engine can be told; the defaults are vLLM's where they make sense."""

    model: str = option(
        MISSING, "a model folder, or a repository of the Hugging Face hub (ORG/NAME)"
    )
    revision: str | None = option(None, "the repository's branch, tag or commit")
    tokenizer: str | None = option(None, "another folder for the tokenizer")
    skip_tokenizer_init: bool = option(
        False, "load no tokenizer: prompts are token ids, answers have no text (offline only)"
    )
    load_format: Literal["auto", "dummy"] = option(
        "auto", "dummy: random weights for the model's config.json, to measure speed"
    )
    trust_remote_code: bool = option(False, "let the tokenizer run code that comes with the model")
    device: Literal["auto", "cuda", "cpu"] = option("auto", "auto: cuda where there is one")
    dtype: str = option(
        "auto", "weights and activations; auto: the checkpoint's, on a CPU float32", choices=DTYPES
    )
    quantization: str = option(
        "auto", "auto: what the checkpoint says; none asserts there is none",
        choices=QUANTIZATIONS, short="-q",
    )  # fmt: skip
    seed: int = option(0, "seed of sampling for requests that bring none")
    max_model_len: int | None = option(
        None, "the longest prompt plus output, in tokens; default: the model's maximum"
    )
    tensor_parallel_size: int = option(1, "GPUs one layer is split over", short="-tp")
    pipeline_parallel_size: int = option(
        1, "groups of layers, each on GPUs of its own", short="-pp"
    )
    block_size: int = option(16, "tokens in a block of the KV cache")
    gpu_memory_utilization: float = option(0.90, "share of the GPU's memory the engine may use")
    kv_cache_gib: float = option(1.0, "the KV cache's size with --device cpu, in GiB")
    num_gpu_blocks_override: int | None = option(
        None, "exactly so many KV blocks, whatever the memory"
    )
    kv_cache_dtype: str = option(
        "auto", "auto: the model's own dtype; fp8, fp8_e4m3: one byte a number, with the "
        "checkpoint's scales", choices=KV_CACHE_DTYPES,
    )  # fmt: skip
    swap_space: float = option(4.0, "host memory for preempted requests, in GiB per GPU")
    enable_prefix_caching: bool = option(True, "share KV blocks between requests that begin alike")
    max_num_seqs: int = option(256, "requests that run at once")
    max_num_batched_tokens: int | None = option(
        None, "tokens of one step, prefill and decode together; default 2048"
    )
    scheduling_policy: Literal["fcfs", "priority"] = option(
        "fcfs", "priority: smaller `priority` first, then who came first"
    )
    preemption_mode: Literal["auto", "swap", "recompute"] = option(
        "auto",
        "what becomes of a request that must make room; auto: the cheaper as measured, on a CPU "
        "recompute",
    )
    async_scheduling: bool | None = option(
        None, "prepare the next step while one runs; default: on a GPU"
    )
    enforce_eager: bool = option(False, "run without CUDA graphs")

    def __post_init__(self) -> None:
        """Refuse values that no later stage could serve, with the numbers."""
        self._require_positive(
            "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_gib",
            "num_gpu_blocks_override", "tensor_parallel_size", "pipeline_parallel_size",
        )  # fmt: skip
        _require_choice("dtype", self.dtype, DTYPES)
        _require_choice("device", self.device, ("auto", "cuda", "cpu"))
        _require_choice("quantization", self.quantization, QUANTIZATIONS)
        _require_choice("kv_cache_dtype", self.kv_cache_dtype, KV_CACHE_DTYPES)
        if self.block_size not in (8, 16, 32, 64, 128):
            raise InvalidConfigError(
                f"block_size is {self.block_size}", "use 8, 16, 32, 64 or 128 (16 is a good choice)"
            )
        if not 0.0 < self.gpu_memory_utilization <= 1.0:
            raise InvalidConfigError(
                f"gpu_memory_utilization is {self.gpu_memory_utilization}",
                "it is a share: above 0 and at most 1",
            )
        if self.swap_space < 0:
            raise InvalidConfigError(f"swap_space is {self.swap_space} GiB", "use 0 or more")
        if (self.max_num_batched_tokens or self.block_size) < self.block_size:
            raise InvalidConfigError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, a block has "
                f"{self.block_size} tokens",
                "a step must hold at least one block: raise it",
            )
        self._require_supported()

    def _require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidConfigError(f"{name} is {value}", "it must be above 0")

    def _require_supported(self) -> None:
        """Say plainly what this version doesn't run, before anything is loaded."""
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            if getattr(self, name) > 1:
                raise UnsupportedFeatureError(
                    f"{name} is {getattr(self, name)}",
                    "this version runs one device a replica: set it to 1",
                )
        if self.quantization not in ("auto", "none"):
            raise UnsupportedFeatureError(
                f"quantization is {self.quantization}",
                "this version runs unquantized checkpoints alone: leave it at auto",
            )

    @property
    def batched_tokens(self) -> int:
        """Return the token budget of a step: as given, or 2,048, never below max_num_seqs."""
        return max(self.max_num_batched_tokens or 2048, self.max_num_seqs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What the HTTP server can be told beyond the engine's settings."""

    host: str = option("0.0.0.0", "address to listen on")
    port: int = option(8000, "port to listen on")
    served_model_name: tuple[str, ...] = option(
        (), "names clients may use in `model`, the first is reported; default: --model",
        nargs="+",
    )  # fmt: skip
    api_key: tuple[str, ...] = option(
        (), "keys clients must send as `Authorization: Bearer KEY`; also VLLM_API_KEY",
        nargs="+",
    )  # fmt: skip
    chat_template: str | None = option(None, "a Jinja file (or text) instead of the model's")
    drain_seconds: float = option(120.0, "after SIGTERM, how long running requests may go on")
    step_timeout_seconds: float = option(300.0, "a step that runs longer fails /live and ends it")
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", "least severe line to log", aliases=("--uvicorn-log-level",)
    )
    log_format: Literal["text", "json"] = option("text", "how log lines look")

    def __post_init__(self) -> None:
        """Refuse ports and times that can't be."""
        if not 0 <= self.port <= 65535:
            raise InvalidConfigError(f"port is {self.port}", "use 0 to 65535")
        for name in ("drain_seconds", "step_timeout_seconds"):
            if getattr(self, name) < 0:
                raise InvalidConfigError(f"{name} is {getattr(self, name)}", "use 0 or more")


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidConfigError(f"{name} is {value!r}", f"use one of {', '.join(choices)}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `kvasir-runtime serve`: vLLM's flag names, grouped by concern."""
    parser = argparse.ArgumentParser(
        prog="kvasir-runtime serve",
        description="Serve one model over the OpenAI API.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_engine_flags(parser)
    add_flags(parser.add_argument_group("server"), ServerConfig)
    parser.add_argument(
        "--disable-log-requests", action="store_true",
        help="accepted for older manifests: requests are not logged anyway",
    )  # fmt: skip
    return parser


def parse_args(argv: list[str] | None = None) -> tuple[EngineConfig, ServerConfig]:
    """Read `serve`'s command line; raises InvalidConfigError, or exits with 2."""
    parser = build_parser()
    args = parser.parse_args(argv)
    settle_model(parser, args)
    if not args.api_key and os.environ.get("VLLM_API_KEY"):
        args.api_key = [os.environ["VLLM_API_KEY"]]
    if args.skip_tokenizer_init:
        raise InvalidConfigError(
            "skip_tokenizer_init is set", "a server needs its tokenizer: leave the flag out"
        )
    return from_args(args, EngineConfig), from_args(args, ServerConfig)


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add EngineConfig's flags, and the model as an argument; `settle_model` joins both."""
    parser.add_argument("model_positional", nargs="?", metavar="MODEL", help="the same as --model")
    add_flags(parser.add_argument_group("engine"), EngineConfig)


def settle_model(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Set `args.model` from either way of giving it; exits with 2 for none, or for two."""
    if args.model_positional and args.model and args.model_positional != args.model:
        parser.error(f"two models: {args.model_positional} and --model {args.model}")
    args.model = args.model or args.model_positional
    if not args.model:
        parser.error("no model: give a folder or ORG/NAME, as an argument or with --model")


def add_flags(group: argparse._ArgumentGroup, config: type[EngineConfig | ServerConfig]) -> None:
    """Add one flag for each field of `config`, from its type, default and metadata."""
    hints = get_type_hints(config)
    for field in dataclasses.fields(config):
        names = [*_as_tuple(field.metadata.get("short")), "--" + field.name.replace("_", "-")]
        names += field.metadata.get("aliases", ())
        default = None if field.default is MISSING else field.default
        options: dict[str, Any] = {
            "dest": field.name, "default": default, "help": field.metadata["help"],
        }  # fmt: skip
        options |= _value_options(hints[field.name], dict(field.metadata))
        group.add_argument(*names, **options)


def _value_options(hint: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return how argparse reads one value: a switch, a choice, a list or a number."""
    if bool in (hint, *get_args(hint)):
        return {"action": argparse.BooleanOptionalAction}
    choices = metadata.get("choices") or (get_args(hint) if get_origin(hint) is Literal else None)
    if choices:
        return {"choices": choices}
    if "nargs" in metadata:
        return {"nargs": metadata["nargs"]}
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return {"type": kinds[0]}


def from_args(args: argparse.Namespace, config: type[ConfigT]) -> ConfigT:
    """Build `config` from parsed flags; lists become tuples, as frozen values want."""
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(config)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return config(**values)


def _as_tuple(value: str | None) -> tuple[str, ...]:
    return (value,) if value else ()
