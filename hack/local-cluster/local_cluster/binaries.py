"""Builds the cluster's programs from Go source, once, into the cache; leaves one folder for PATH.

Each module's build lies in a folder keyed by its version and content, and one folder of links
holds all programs. A build is written beside its place and moved there whole, so that an
interrupted one is never taken for a finished one. `KVASIR_BIN` names a folder with ready
programs instead, `KVASIR_CACHE` moves the cache.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local_cluster import disk
from local_cluster.errors import BuildFailed, MissingPackage
from local_cluster.go_modules import GO_MODULES, PROGRAMS, GoModule
from local_cluster.locks import locked
from local_cluster.progress import Step, Steps

GO_FOLDER = Path("/usr/local/go/bin")  # where Go's own installer puts it, often off root's PATH
BUILD_GIB = 9.0  # module sources, the compiler's cache, and the programs


def cache_root() -> Path:
    """The folder of everything that can be made again."""
    return Path(os.environ.get("KVASIR_CACHE") or Path.home() / ".cache" / "kvasir").absolute()


def ensure(steps: Steps) -> Path:
    """The folder with every program, built now where it is missing."""
    given = os.environ.get("KVASIR_BIN")
    if given:
        return _ready_folder(Path(given).absolute())
    root = cache_root() / "bin"
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / ".lock"):
        missing = [module for module in GO_MODULES if not (root / module.key).is_dir()]
        if missing:
            _require_go()
            steps.info(disk.require(root, BUILD_GIB, "Building the cluster's programs"))
        for module in missing:
            _build(module, root, steps)
        return _link_all(root)


def folder() -> Path:
    """Where `ensure` puts the programs, whether they are there or not."""
    given = os.environ.get("KVASIR_BIN")
    return Path(given).absolute() if given else cache_root() / "bin" / _all_key(GO_MODULES)


def build_command(module: GoModule, out: Path) -> list[str]:
    """The compiler's command line for all programs of a module."""
    target = out if len(module.packages) > 1 else out / next(iter(module.packages))
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", module.ldflags]
    place = f"{out}/" if target == out else str(target)
    return ["go", "build", *flags, "-o", place, *module.packages.values()]


def _ready_folder(given: Path) -> Path:
    missing = [name for name in PROGRAMS if not os.access(given / name, os.X_OK)]
    if missing:
        raise MissingPackage(
            f"KVASIR_BIN={given} lacks {', '.join(missing)}: "
            "put them there, or unset KVASIR_BIN to have them built"
        )
    return given


def _require_go() -> None:
    if shutil.which("go") is None and not (GO_FOLDER / "go").exists():
        raise MissingPackage(
            "the cluster's programs are built from source, and `go` is not on PATH: "
            "install Go 1.26 (https://go.dev/dl), or set KVASIR_BIN to a folder with "
            + ", ".join(PROGRAMS)
        )


def _build(module: GoModule, root: Path, steps: Steps) -> None:
    log = root / f"{module.key}.log"
    with (
        steps.step(f"Build {module.name} {module.version}", log=log) as step,
        _moved_when_whole(root / module.key) as out,
    ):
        _run_build(module, out, log, step)


def _run_build(module: GoModule, out: Path, log: Path, step: Step) -> None:
    path = f"{os.environ.get('PATH', '')}:{GO_FOLDER}"
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "PATH": path}
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["env", *build_command(module, out)],  # `env` looks on the new PATH
            cwd=module.folder,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        with _killed_on_error(process):
            while process.poll() is None:
                _wait(process)
                step.advance_to(time.monotonic() - started, module.build_s)
    if process.returncode != 0:
        raise BuildFailed(f"{module.name} {module.version} does not build", log=log)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return


@contextmanager
def _killed_on_error(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.kill()
        process.wait()
        raise


@contextmanager
def _moved_when_whole(target: Path) -> Iterator[Path]:
    for stale in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(stale)
    out = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield out
        out.chmod(0o755)
        out.rename(target)
    finally:
        if out.exists():
            shutil.rmtree(out)


def _link_all(root: Path) -> Path:
    target = root / _all_key(GO_MODULES)
    if not target.is_dir():
        with _moved_when_whole(target) as out:
            for module in GO_MODULES:
                for program in module.packages:
                    (out / program).symlink_to(Path("..") / module.key / program)
    return target


def _all_key(modules: Sequence[GoModule]) -> str:
    digest = hashlib.sha256("\n".join(module.key for module in modules).encode())
    return f"all-{digest.hexdigest()[:10]}"
