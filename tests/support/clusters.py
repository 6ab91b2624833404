"""The cluster that end-to-end tests run on: their own, so that a running demo is never touched."""

import os
from pathlib import Path

from local_cluster import Cluster
from local_cluster.progress import Steps

CHECKOUT = Path(__file__).parents[2]
STATE_VARIABLE = "KVASIR_TEST_CLUSTER"


def state_folder() -> Path:
    """The tests' state folder; `KVASIR_TEST_CLUSTER` names another."""
    return Path(os.environ.get(STATE_VARIABLE) or CHECKOUT / ".kvasir" / "test-cluster")


def running_cluster() -> Cluster:
    """The tests' cluster, started where it isn't up."""
    cluster = Cluster(state_folder())
    cluster.up(Steps())
    return cluster
