"""Names a set of files by what is in them: the same content, the same name, on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

KEY_LENGTH = 12


def content_key(root: Path, paths: Iterable[str], *words: str) -> str:
    """Return the key of files and folders under ``root`` and of words that matter as much.

    Raises:
        FileNotFoundError: one of the paths isn't there.
    """
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(paths):
        for file in _files(root / path):
            digest.update(f"\0{file.relative_to(root)}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:KEY_LENGTH]


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file
