"""Which cluster the operator talks to."""

from pathlib import Path

import pytest
import yaml

from kvasir_operator.cluster import connect
from kvasir_operator.errors import SettingsError


def kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig for a server that nothing listens at."""
    entry = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [entry],
                "clusters": [{"name": "x", "cluster": {"server": server}}],
                "users": [{"name": "x", "user": {"token": "t"}}],
            }
        )
    )
    return path


@pytest.fixture(autouse=True)
def outside_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster of this machine is reachable by chance."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


async def test_kubeconfig_is_the_one_that_is_named_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = "https://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server)))
    api = await connect()
    await api.close()
    assert api.configuration.host == server


async def test_missing_kubeconfig_never_falls_back_to_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(SettingsError, match="set KUBECONFIG"):
        await connect()
