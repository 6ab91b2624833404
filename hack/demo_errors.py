"""What can go wrong with the demo, beside the cluster itself.

ClusterError
└── DemoFailed          the service did not become Ready, or did not answer
"""

from __future__ import annotations

from local_cluster.errors import ClusterError


class DemoFailed(ClusterError):
    """The demo's service is not what it should be; the message says why and what to read."""
