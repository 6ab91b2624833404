"""Kubeconfig files: one for people, with everything inside, and one for each daemon."""

import base64
from pathlib import Path
from typing import Any

import yaml

from local_cluster.layout import Layout

NAME = "kvasir-local"


def write_all(layout: Layout, server: str) -> None:
    """Writes the administrator's kubeconfig and the daemons'."""
    for user in ("controller-manager", "scheduler", "proxy", "kubelet"):
        _write(layout.config / f"{user}.kubeconfig", _render(layout.pki, user, server))
    _write(layout.kubeconfig, _render(layout.pki, "admin", server))


def _render(pki: Path, user: str, server: str) -> dict[str, Any]:
    def encoded(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": encoded("ca.crt")}
    key = {
        "client-certificate-data": encoded(f"{user}.crt"),
        "client-key-data": encoded(f"{user}.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": user, "user": key}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": user}}],
        "current-context": NAME,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
