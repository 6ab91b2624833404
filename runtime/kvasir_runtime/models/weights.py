"""From safetensors files to a model's parameters, one tensor in memory at a time.

Every tensor of the checkpoint has one place, every place must be filled exactly once, and shapes
must agree: a file cut short or of another model is found here, by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from kvasir_runtime.errors import CorruptWeightsError, ModelNotFoundError
from kvasir_runtime.layers.linear import StackedLinear
from kvasir_runtime.models.decoder import Decoder
from kvasir_runtime.models.kv_scales import take_kv_scale

INDEX = "model.safetensors.index.json"
# Buffers that older checkpoints saved beside their weights; they are computed here.
IGNORED_SUFFIXES = (".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached")


def load_weights(
    model: Decoder, folder: Path, on_progress: Callable[[int], None] = lambda _percent: None
) -> int:
    """Fill `model` from the safetensors files of `folder`; return the bytes of its parameters.

    `on_progress` is told the share done, in percent. Raises ModelNotFoundError where there are no
    safetensors, CorruptWeightsError where they are unreadable or don't match the architecture.
    """
    targets = _targets(model)
    missing = set(targets)
    files = weight_files(folder)
    total = sum(file.stat().st_size for file in files)
    done = 0
    for file in files:
        for name, tensor in _tensors(file):
            if name.endswith(IGNORED_SUFFIXES):
                continue
            if name == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            if take_kv_scale(model, name, tensor):
                continue
            _fill(targets, name, tensor, file)
            missing.discard(name)
            done += tensor.nbytes
            on_progress(min(99, 100 * done // max(total, 1)))
    if missing:
        raise CorruptWeightsError(
            f"{folder} lacks {len(missing)} of {len(targets)} tensors, first {min(missing)}",
            "the checkpoint is incomplete: fetch it again",
        )
    return sum(parameter.nbytes for parameter in model.parameters())


def randomise_weights(model: Decoder) -> int:
    """Fill `model` with small random numbers, the same at each call; return the bytes."""
    for number, parameter in enumerate(model.parameters()):
        generator = torch.Generator(parameter.device).manual_seed(number)
        parameter.data.normal_(std=0.02, generator=generator)
        if parameter.ndim == 1:
            parameter.data.add_(1.0)  # the norms' scales
    return sum(parameter.nbytes for parameter in model.parameters())


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a checkpoint, those its index names where it has one."""
    index = folder / INDEX
    if not index.is_file():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelNotFoundError(
                f"{folder} has no *.safetensors files", "convert the checkpoint to safetensors"
            )
        return files
    try:
        names = set(json.loads(index.read_text())["weight_map"].values())
    except (ValueError, KeyError, AttributeError) as error:
        raise CorruptWeightsError(f"{index} can't be read", "fetch it again") from error
    absent = sorted(name for name in names if not (folder / name).is_file())
    if absent:
        raise CorruptWeightsError(
            f"{len(absent)} of {len(names)} weight files are missing, first {absent[0]}",
            f"fetch the checkpoint again into {folder}",
        )
    return sorted(folder / name for name in names)


def _tensors(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    try:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (safe_open is no mapping)
                yield name, tensors.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise CorruptWeightsError(
            f"{file} is damaged ({file.stat().st_size} bytes): {error}",
            "fetch this file again; its size shows whether it was cut short",
        ) from error


def _fill(targets: dict[str, torch.Tensor], name: str, tensor: torch.Tensor, file: Path) -> None:
    target = targets.get(name)
    if target is None:
        raise CorruptWeightsError(
            f"{file.name} holds {name}, which this architecture doesn't have",
            "config.json and the weights are of different models: fetch both again",
        )
    if target.shape != tensor.shape:
        raise CorruptWeightsError(
            f"{name} in {file.name} is {list(tensor.shape)}, config.json asks for "
            f"{list(target.shape)}",
            "config.json and the weights are of different models: fetch both again",
        )
    target.copy_(tensor)


def _targets(model: Decoder) -> dict[str, torch.Tensor]:
    """Return each checkpoint tensor's place: a parameter, or some rows of a stacked one."""
    targets: dict[str, torch.Tensor] = {"model.embed_tokens.weight": model.embed_tokens.data}
    if not model.config.tie_word_embeddings:
        targets["lm_head.weight"] = model.lm_head.data
    for path, module in model.named_modules():
        name = f"model.{path}"
        if isinstance(module, StackedLinear):
            stem = name.rpartition(".")[0]
            for part, rows in module.rows.items():
                prefix = f"{stem}.{part}" if part else name
                targets[f"{prefix}.weight"] = module.weight.data[rows]
                if module.bias is not None:
                    targets[f"{prefix}.bias"] = module.bias.data[rows]
        elif hasattr(module, "weight") and isinstance(module.weight, torch.nn.Parameter):
            targets[f"{name}.weight"] = module.weight.data
    return targets
