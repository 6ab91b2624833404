"""Fixtures of the tests of `hack/`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.fake_programs import FakePrograms


@pytest.fixture
def programs(tmp_path: Path) -> FakePrograms:
    """kubectl, helm and buildah that write down how they were called."""
    folder = tmp_path / "programs"
    folder.mkdir()
    fake = FakePrograms(folder, sys.executable)
    fake.add("kubectl", "helm", "buildah")
    return fake
