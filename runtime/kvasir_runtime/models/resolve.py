"""From what a user calls a model to a folder on this machine, downloading where need be."""

from __future__ import annotations

import re
from pathlib import Path

from kvasir_runtime.errors import DownloadFailedError, ModelNotFoundError

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# What an engine reads: no pickled weights, no duplicates of them in other frameworks' formats.
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


def resolve_model(model: str, revision: str | None = None) -> Path:
    """Return the folder of `model`: itself, or a snapshot of a hub repository.

    Raises ModelNotFoundError for a path or repository that isn't there, DownloadFailedError where
    the hub can't be reached or refuses.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ModelNotFoundError(f"{model} is a file", "give the model's folder")
    if not REPOSITORY.fullmatch(model) or model.startswith("."):
        raise ModelNotFoundError(
            f"there is no folder {model}",
            "check the path, and that the volume that holds the model is mounted",
        )
    return _download(model, revision)


def _download(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=WANTED))
    except GatedRepoError as error:
        raise DownloadFailedError(
            f"the hub refuses {repository}: it is gated",
            "accept its licence on the hub, and give a token that may read it (HF_TOKEN)",
        ) from error
    except RevisionNotFoundError as error:
        raise ModelNotFoundError(
            f"{repository} has no revision {revision}", "use a branch, tag or commit it has"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelNotFoundError(
            f"neither a folder nor a hub repository is called {repository}",
            "check the name; a private repository needs a token (HF_TOKEN)",
        ) from error
    except (LocalEntryNotFoundError, OSError) as error:
        raise DownloadFailedError(
            f"{repository} can't be downloaded: {type(error).__name__}: {error}",
            "check the network from this pod and HF_ENDPOINT, or mount the model instead",
        ) from error
