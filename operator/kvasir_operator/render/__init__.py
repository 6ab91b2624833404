"""Rendering: a service and its resolved values in; the objects to apply, as plain dicts, out.

Pure: no client, no clock; the same input gives the same bytes (golden files hold it).
"""

from __future__ import annotations

from kvasir_operator.render.deployment import deployment
from kvasir_operator.render.event import event
from kvasir_operator.render.pod import pod_template
from kvasir_operator.render.revision import controller_revision
from kvasir_operator.render.service import service

__all__ = ["controller_revision", "deployment", "event", "pod_template", "service"]
