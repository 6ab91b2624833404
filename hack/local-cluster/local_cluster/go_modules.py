"""What is built from Go source: each module's folder, its packages and what is linked into it.

The version is read from the module's `go.mod`, so that it is written down once.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent.parent / "modules"
BUILD_RECIPE = "1"  # raised when the way of building changes: everything is built anew

KUBERNETES_MAJOR, KUBERNETES_MINOR = "1", "35"


@dataclass(frozen=True, slots=True)
class GoModule:
    """One folder under `modules/`, and the programs that come out of it."""

    name: str
    path: str | None  # the Go module whose version counts; None for our own source
    packages: dict[str, str]  # program -> package
    stamps: tuple[str, ...] = ()  # `-X` values, {version} filled in
    build_s: int = 60  # on two cores with nothing cached, for the bar

    @property
    def folder(self) -> Path:
        """Where its `go.mod` lies."""
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The version its `go.mod` asks for."""
        if self.path is None:
            return "v1"
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require)?\s*{re.escape(self.path)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.folder}/go.mod does not require {self.path}")
        return found[1]

    @property
    def key(self) -> str:
        """Names the build: another version, requirement, source or flag is another key."""
        digest = hashlib.sha256(f"{BUILD_RECIPE}\n{self.ldflags}\n".encode())
        for file in sorted(self.folder.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:10]}"

    @property
    def ldflags(self) -> str:
        """The linker's flags: no debug tables, and the stamps."""
        stamps = [f"-X {stamp.format(version=self.version)}" for stamp in self.stamps]
        return " ".join(["-s", "-w", *stamps])


def _kubernetes_stamps() -> tuple[str, ...]:
    values = {
        "gitVersion": "{version}",
        "gitMajor": KUBERNETES_MAJOR,
        "gitMinor": KUBERNETES_MINOR,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple(
        f"{package}.{key}={value}" for package in packages for key, value in values.items()
    )


def _helm_stamps() -> tuple[str, ...]:
    helm = "helm.sh/helm/v3"
    stamps = [f"{helm}/internal/version.version={{version}}"]
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        stamps.append(f"{helm}/{package}.k8sVersionMajor={KUBERNETES_MAJOR}")
        stamps.append(f"{helm}/{package}.k8sVersionMinor={KUBERNETES_MINOR}")
    return tuple(stamps)


KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)

GO_MODULES = (
    GoModule(
        "kubernetes",
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS},
        stamps=_kubernetes_stamps(),
        build_s=330,
    ),
    GoModule(
        "etcd",
        "go.etcd.io/etcd/server/v3",
        {"etcd": "go.etcd.io/etcd/server/v3"},
        build_s=35,
    ),
    GoModule("coredns", "github.com/coredns/coredns", {"coredns": "."}, build_s=90),
    GoModule(
        "helm",
        "helm.sh/helm/v3",
        {"helm": "helm.sh/helm/v3/cmd/helm"},
        stamps=_helm_stamps(),
        build_s=80,
    ),
    GoModule("pause", None, {"pause": "."}, build_s=5),
    GoModule(
        "kubeconform",
        "github.com/yannh/kubeconform",
        {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
        build_s=10,
    ),
)

PROGRAMS = tuple(program for module in GO_MODULES for program in module.packages)
