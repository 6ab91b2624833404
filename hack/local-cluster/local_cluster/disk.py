"""Says before a piece of work starts what room it needs, rather than fail in its midst."""

import shutil
from pathlib import Path

from local_cluster.errors import NotEnoughDisk

GIB = 2**30


def free_gib(path: Path) -> float:
    """The free room of the disk that holds `path`, or would."""
    existing = next(one for one in (path, *path.parents) if one.exists())
    return shutil.disk_usage(existing).free / GIB


def require(path: Path, needed_gib: float, what: str) -> str:
    """Says what `what` needs and what there is; raises `NotEnoughDisk` where that is less."""
    free = free_gib(path)
    if free < needed_gib:
        raise NotEnoughDisk(
            f"{what} needs {needed_gib:.1f} GiB under {path}, and {free:.1f} GiB are free: "
            "make room, or set KVASIR_CACHE to a folder on a larger disk"
        )
    return f"{what} needs up to {needed_gib:.1f} GiB of disk; {free:.1f} GiB are free"
