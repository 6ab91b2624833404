"""Downloads from a hub on this machine; in processes: the endpoint is read at import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.model_hub import model_hub

RESOLVE = """
import sys
from kvasir_runtime.errors import StartupError
from kvasir_runtime.models.resolve import resolve_model
try:
    print(resolve_model(sys.argv[1], sys.argv[2] or None))
except StartupError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def resolve(tiny_models, tmp_path):
    """Resolve a repository (and revision) as a new process does."""

    def run(repository, revision="", endpoint=None):
        with model_hub(tiny_models.folder("llama")) as hub:
            env = os.environ | {"HF_ENDPOINT": endpoint or hub, "HF_HOME": str(tmp_path / "hf")}
            arguments = [sys.executable, "-c", RESOLVE, repository, revision]
            done = subprocess.run(
                arguments, env=env, capture_output=True, text=True, timeout=120, check=True
            )
        return done.stdout.strip()

    return run


def test_a_repository_becomes_a_folder_with_its_files(resolve, tiny_models, tmp_path):
    folder = Path(resolve("org/tiny"))
    assert folder.is_relative_to(tmp_path)
    source = tiny_models.folder("llama")
    assert (folder / "model.safetensors").read_bytes() == (
        source / "model.safetensors"
    ).read_bytes()
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("repository", "revision", "said"),
    [
        ("org/absent", "", "ModelNotFoundError neither a folder nor a hub repository"),
        ("org/gated", "", "DownloadFailedError the hub refuses org/gated: it is gated"),
        ("org/tiny", "v9", "ModelNotFoundError org/tiny has no revision v9"),
    ],
)
def test_what_the_hub_refuses_is_said_with_what_to_do(resolve, repository, revision, said):
    assert resolve(repository, revision).startswith(said)


def test_a_hub_that_cant_be_reached_is_named_as_such(resolve):
    said = resolve("org/tiny", endpoint="http://127.0.0.1:9")
    assert said.startswith("DownloadFailedError org/tiny can't be downloaded")
    assert "HF_ENDPOINT" in said
