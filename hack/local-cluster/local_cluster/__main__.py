"""The command line: `python -m local_cluster up|down|status|binaries [--state DIR]`."""

import argparse
import sys
from pathlib import Path

from local_cluster import binaries
from local_cluster.cluster import Cluster, report
from local_cluster.errors import ClusterError
from local_cluster.progress import Steps

DEFAULT_STATE = Path(__file__).parents[3] / ".kvasir" / "cluster"


def main() -> int:
    """Runs one command; a failure ends with its message and code 1."""
    arguments = _parser().parse_args()
    try:
        return _run(arguments, Steps())
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next `up` clears what is left", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="local_cluster", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status", "binaries"])
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="the cluster's folder")
    parser.add_argument(
        "--delete", action="store_true", help="with `down`: remove the state folder too"
    )
    return parser


def _run(arguments: argparse.Namespace, steps: Steps) -> int:
    cluster = Cluster(arguments.state)
    if arguments.command == "binaries":
        print(binaries.ensure(steps))
        return 0
    if arguments.command == "status":
        up = cluster.is_up()
        print(f"{'up' if up else 'down'}: {cluster.state}")
        return 0 if up else 3
    if arguments.command == "down":
        _down(cluster, delete=arguments.delete)
        return 0
    cluster.up(steps)
    report(cluster, steps)
    return 0


def _down(cluster: Cluster, *, delete: bool) -> None:
    if delete:
        cluster.destroy()
    else:
        cluster.down()


if __name__ == "__main__":
    sys.exit(main())
