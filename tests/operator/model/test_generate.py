"""`make generate` and the check that fails when it was forgotten."""

from pathlib import Path

import pytest
import yaml

from kvasir_operator.model import generate
from kvasir_operator.model.crd import crd


def test_checked_in_files_are_fresh() -> None:
    assert generate.stale(generate.ROOT) == []


def test_check_names_a_stale_file_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check"]) == 1
    assert "crds/kvasir.dev_inferenceservices.yaml is stale" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_has_nothing_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_plain_file_is_the_definition() -> None:
    assert yaml.safe_load(generate.plain()) == crd()


def test_chart_template_keeps_the_definition_when_uninstalled() -> None:
    template = generate.template()
    assert "helm.sh/resource-policy: keep" in template
    assert template.startswith("{{- if .Values.crds.install }}")
