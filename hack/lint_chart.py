"""Lint the Helm chart, and check what it renders against Kubernetes' own API description.

Where a program is not built yet (`make cluster-up` builds them), its check is left out aloud.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml
from local_cluster import binaries
from local_cluster.errors import ClusterError
from local_cluster.shell import run

from kubernetes_schemas import LOCATION, write_schemas

CHECKOUT = Path(__file__).resolve().parent.parent
CHART = CHECKOUT / "charts" / "kvasir"
KUBERNETES_MODULE = CHECKOUT / "hack" / "local-cluster" / "modules" / "kubernetes"
# The chart with its defaults, and with what changes which objects there are.
VALUES: tuple[list[str], ...] = (
    [],
    ["--set", "watchNamespaces={team-a,team-b}"],
    ["--set", "crds.keep=false"],
)


def main() -> int:
    """Run both checks; return the exit code."""
    programs = binaries.folder()
    try:
        said = check_all(programs)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    print(said)
    return 0


def check_all(programs: Path) -> str:
    """Run what can be run, and say how far it went; raise `ClusterError` for what is wrong."""
    if not (programs / "helm").exists():
        return "the chart is not linted: helm is not built yet (make cluster-up)"
    lint(programs)
    if not (programs / "kubeconform").exists() or shutil.which("go", path=go_path()) is None:
        return "the chart's render is not checked: that needs kubeconform and go"
    description = swagger()
    for values in VALUES:
        check_render(programs, values, description)
    return "the chart is well-formed, and so is what it renders"


def lint(programs: Path) -> None:
    """Run helm's own linter."""
    run([programs / "helm", "lint", "--strict", "--quiet", CHART])


def check_render(programs: Path, values: Iterable[str], description: Path) -> None:
    """Render the chart and check every object, unknown fields included."""
    rendered = run([programs / "helm", "template", "kvasir", CHART, *values])
    kinds = {str(item["kind"]).lower() for item in yaml.safe_load_all(rendered) if item}
    with tempfile.TemporaryDirectory() as folder:
        write_schemas(description, Path(folder), kinds)
        location = f"{folder}/{LOCATION}"
        run([programs / "kubeconform", "-schema-location", location, "-"], input_text=rendered)


def go_path() -> str:
    """Return PATH with the folder where Go's own installer puts it."""
    return f"{os.environ.get('PATH', '')}:{binaries.GO_FOLDER}"


def swagger() -> Path:
    """Return the API description that lies in the source of the cluster's Kubernetes."""
    command = ["env", f"--chdir={KUBERNETES_MODULE}", f"PATH={go_path()}"]
    command += ["go", "mod", "download", "-json", "k8s.io/kubernetes"]
    module = json.loads(run(command, timeout_s=600))
    return Path(module["Dir"]) / "api" / "openapi-spec" / "swagger.json"


if __name__ == "__main__":
    sys.exit(main())
