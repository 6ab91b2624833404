"""The Helm chart: it lints, its render is valid, an upgrade brings the new CRD."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import Cluster
from local_cluster.errors import CommandFailed

from kube import Kube
from support.clusters import CHECKOUT
from support.openapi_schemas import write_schemas

CHART = CHECKOUT / "charts" / "kvasir"
SYSTEM = "kvasir-system"
CRD = "customresourcedefinition/inferenceservices.kvasir.dev"
VARIANTS = {
    "defaults": [],
    "namespaces": ["--set=watchNamespaces={team-a,team-b}"],
    "no-crd": ["--set=crds.install=false", "--set=serviceAccount.create=false"],
    "everything": [
        "--set=operator.nodeSelector.a=b",
        "--set=operator.tolerations[0].operator=Exists",
        "--set=operator.podLabels.a=b",
        "--set=operator.podAnnotations.a=b",
        "--set=operator.priorityClassName=high",
        "--set=imagePullSecrets[0].name=registry",
        "--set=serviceAccount.annotations.a=b",
    ],
}


def render(kube: Kube, *words: str) -> str:
    return kube.helm("template", "kvasir", str(CHART), f"--namespace={SYSTEM}", *words)


def objects(rendered: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(rendered) if document]


def test_chart_lints(kube: Kube) -> None:
    assert "0 chart(s) failed" in kube.helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("variant", VARIANTS)
def test_render_is_valid(
    kube: Kube, cluster: Cluster, openapi: dict[str, Any], tmp_path: Path, variant: str
) -> None:
    rendered = render(kube, *VARIANTS[variant])
    kinds = {entry["kind"] for entry in objects(rendered)}
    location = write_schemas(openapi, kinds, tmp_path)
    program = str(cluster.bin / "kubeconform")
    checked = subprocess.run(
        [program, "-strict", "-output=json", "-schema-location", location],
        input=rendered,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["resources"] == []


def test_unknown_value_is_refused(kube: Kube) -> None:
    with pytest.raises(CommandFailed, match="replicas"):
        render(kube, "--set=operator.replicas=3")


def test_rights_end_at_the_watched_namespaces(kube: Kube) -> None:
    rendered = objects(render(kube, "--set=watchNamespaces={team-a,team-b}"))
    kinds = [entry["kind"] for entry in rendered]
    assert not {"ClusterRole", "ClusterRoleBinding"} & set(kinds)
    roles = [entry for entry in rendered if entry["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    [deployment] = [entry for entry in rendered if entry["kind"] == "Deployment"]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--namespace=team-a", "--namespace=team-b"} <= set(args)


def test_no_right_is_a_wildcard(kube: Kube) -> None:
    [role] = [entry for entry in objects(render(kube)) if entry["kind"] == "ClusterRole"]
    for rule in role["rules"]:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "secrets" not in rule["resources"]


def test_crd_is_kept_when_the_chart_is_uninstalled(kube: Kube) -> None:
    [crd] = [e for e in objects(render(kube)) if e["kind"] == "CustomResourceDefinition"]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_upgrade_brings_the_new_crd(
    kube: Kube, operator: str, chart_values: list[str], tmp_path: Path
) -> None:
    newer = Path(shutil.copytree(CHART, tmp_path / "kvasir"))
    template = newer / "templates" / "crd.yaml"
    text = template.read_text()
    assert "    - kvs\n" in text
    template.write_text(text.replace("    - kvs\n", "    - kvs\n    - newer\n"))
    assert short_names(kube) == ["kvs"]
    upgrade(kube, newer, chart_values)
    assert short_names(kube) == ["kvs", "newer"]
    upgrade(kube, CHART, chart_values)
    assert short_names(kube) == ["kvs"]


def upgrade(kube: Kube, chart: Path, values: list[str]) -> None:
    kube.helm("upgrade", "kvasir", str(chart), f"--namespace={SYSTEM}", "--wait", *values)


def short_names(kube: Kube) -> list[str]:
    found: dict[str, Any] = json.loads(kube.kubectl("get", CRD, "--output=json"))
    names: list[str] = found["spec"]["names"]["shortNames"]
    return names
