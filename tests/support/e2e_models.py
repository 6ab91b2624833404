"""The folder of models that end-to-end tests mount: good ones, and one of each kind of bad one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from support.tiny_models import TinyModels

WORLD_READABLE = 0o755


def fill(root: Path, demo_model: Path, tiny: TinyModels) -> None:
    """Make every model's folder under `root`, anew."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    _link(demo_model, root / "smollm2")
    for name in ("tiny-llama", "unknown-architecture", "corrupt-weights"):
        shutil.copytree(tiny.folder("llama"), root / name)
    _rename_architecture(root / "unknown-architecture" / "config.json")
    _cut(root / "corrupt-weights" / "model.safetensors")
    for path in (root, *root.rglob("*")):
        if not path.is_file() or path.stat().st_nlink == 1:  # a link's mode is the original's
            path.chmod(WORLD_READABLE)


def _link(source: Path, target: Path) -> None:
    """Hard links where the file system allows it: half a gigabyte need not be there twice."""
    target.mkdir()
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copy2(file, target / file.name)


def _rename_architecture(config: Path) -> None:
    values = json.loads(config.read_text())
    config.write_text(json.dumps({**values, "architectures": ["MysteryForCausalLM"]}))


def _cut(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-1000])
