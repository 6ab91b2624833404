"""Everything that can go wrong with the local cluster, each error with what the user can do.

ClusterError
├── MissingPackage      a program of the machine is not there, and could not be installed
├── NeedsRoot           namespaces and mounts need root
├── NotEnoughDisk       the disk has less room than the work needs
├── NoFreeNetwork       no block of private addresses is free, or the cluster's own was taken
├── CommandFailed       a program ended with an error (carries its last lines)
├── BuildFailed         a Go build ended with an error (carries its log)
├── NotReady            something did not come up in its time (carries its log)
└── NotRunning          the cluster is down, and the call needs it up
"""

from pathlib import Path


class ClusterError(Exception):
    """The base: `message` says what is wrong and what to do, `log` which file says more."""

    def __init__(self, message: str, *, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class MissingPackage(ClusterError):
    """A program the cluster needs is not installed."""


class NeedsRoot(ClusterError):
    """The work needs root."""


class NotEnoughDisk(ClusterError):
    """The disk is too full for the work."""


class NoFreeNetwork(ClusterError):
    """No private address block can be used."""


class CommandFailed(ClusterError):
    """A program of the machine ended with an error."""


class BuildFailed(ClusterError):
    """A Go module did not build."""


class NotReady(ClusterError):
    """A part of the cluster did not come up in its time."""


class NotRunning(ClusterError):
    """The cluster is down."""
