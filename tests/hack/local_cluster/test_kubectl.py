from pathlib import Path

import pytest
from local_cluster.errors import CommandFailed
from local_cluster.kubectl import Kubectl, moment, without_proxies


def fake_kubectl(tmp_path: Path, script: str) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Kubectl(program, tmp_path / "kubeconfig")


def test_a_users_proxy_does_not_see_the_clusters_requests() -> None:
    given = {"HTTPS_PROXY": "http://p", "http_proxy": "http://p", "ALL_PROXY": "x", "HOME": "/h"}
    assert without_proxies(given) == {"HOME": "/h"}


def test_an_error_carries_kubectls_own_words(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="not found"):
        fake_kubectl(tmp_path, 'echo "pods not found" >&2; exit 1')("get", "pods")


def test_a_node_that_was_ready_before_is_not_ready_now(tmp_path: Path) -> None:
    kubectl = fake_kubectl(tmp_path, "echo True 2026-01-01T10:00:00Z")
    assert kubectl.node_is_ready("local", moment("2026-01-01T10:00:00Z"))
    assert not kubectl.node_is_ready("local", moment("2026-01-01T10:00:01Z"))


def test_a_server_that_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    kubectl = fake_kubectl(tmp_path, "exit 1")
    assert not kubectl.api_is_ready()
    assert not kubectl.node_is_ready("local")


def test_pods_that_claim_to_run_since_before_are_stale(tmp_path: Path) -> None:
    pods = (
        '{"items": [{"status": {"phase": "Pending"}}, {"status": {"containerStatuses": '
        '[{"state": {"running": {"startedAt": "2026-01-01T10:00:00Z"}}}]}}]}'
    )
    kubectl = fake_kubectl(tmp_path, f"echo '{pods}'")
    assert kubectl.pods_are_of_this_start(moment("2026-01-01T10:00:00Z"))
    assert not kubectl.pods_are_of_this_start(moment("2026-01-01T10:00:01Z"))
