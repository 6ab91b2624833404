"""A real one-node Kubernetes on this machine, in one state folder, for the demo and the tests.

`Cluster` is the way in: everything else here serves it.
"""

from local_cluster.cluster import Cluster
from local_cluster.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
