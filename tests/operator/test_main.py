"""The command line becomes settings, or a sentence and exit code 2."""

import json
import logging
from pathlib import Path

import pytest

from kvasir_operator.__main__ import build_parser, main, parse_settings
from kvasir_operator.logs import JsonFormatter
from kvasir_operator.settings import Settings


def parsed(*argv: str) -> Settings:
    return parse_settings(build_parser().parse_args(["operator", *argv]))


def test_defaults_watch_all_namespaces() -> None:
    assert parsed("--default-image", "engine:1") == Settings(default_image="engine:1")
    assert parsed("--all-namespaces").namespaces == ()


def test_namespaces_can_be_repeated() -> None:
    assert parsed("--namespace", "a", "--namespace=b", "--namespace", "a").namespaces == ("a", "b")


def test_default_image_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVASIR_DEFAULT_IMAGE", "engine:9")
    assert parsed().default_image == "engine:9"


@pytest.mark.parametrize(
    ("argv", "flag"),
    [(["--health-port", "70000"], "--health-port"), (["--workers", "0"], "--workers")],
)
def test_settings_that_cannot_work_name_the_flag(
    argv: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["operator", *argv]) == 2
    assert flag in capsys.readouterr().err


def test_without_a_cluster_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["operator"]) == 2
    assert "set KUBECONFIG" in capsys.readouterr().err


def test_namespace_and_all_namespaces_exclude_each_other() -> None:
    with pytest.raises(SystemExit):
        parsed("--namespace", "a", "--all-namespaces")


def test_json_log_lines_are_json() -> None:
    record = logging.LogRecord("kvasir", logging.INFO, "", 0, "hello %s", ("you",), None)
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["message"]) == ("info", "hello you")
