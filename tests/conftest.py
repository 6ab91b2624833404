"""Fixtures every suite may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.tiny_models import TinyModels


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The folder of SmolLM2-135M-Instruct, as `make model` builds it."""
    cache = Path(os.environ.get("KVASIR_CACHE", "~/.cache/kvasir")).expanduser()
    folder = cache / "models" / "smollm2-135m-instruct"
    if not (folder / "config.json").is_file():
        pytest.fail(f"{folder} is missing: run `make model` first")
    return folder


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Random checkpoints of every family, made once."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))
