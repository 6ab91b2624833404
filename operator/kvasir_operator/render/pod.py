"""The pod template: one engine container under the restricted pod security standard."""

from __future__ import annotations

import math
from typing import Any

from kvasir_operator import names
from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.service import InferenceService
from kvasir_operator.model.spec import Spec
from kvasir_operator.render.arguments import arguments
from kvasir_operator.render.environment import environment
from kvasir_operator.render.resources import resources
from kvasir_operator.render.storage import mounts, volumes

USER_ID = 65532
STARTUP_PERIOD_S = 2
GRACE_MARGIN_S = 10

Part = dict[str, Any]


def pod_template(service: InferenceService, resolved: Resolved) -> Part:
    """`spec.template` of the Deployment. It depends on the template-affecting fields alone."""
    spec = service.spec
    labels = {
        **spec.pod_labels,
        **names.labels(service.ref.name),
        names.LABEL_REVISION: service.revision,
    }
    meta: Part = {"labels": labels}
    if spec.pod_annotations:
        meta["annotations"] = dict(spec.pod_annotations)
    return {"metadata": meta, "spec": _pod(spec, resolved)}


def _pod(spec: Spec, resolved: Resolved) -> Part:
    lifecycle = spec.lifecycle
    grace = lifecycle.pre_stop_seconds + lifecycle.drain_seconds + GRACE_MARGIN_S
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec, resolved)],
        "volumes": volumes(spec),
        **_placement(spec),
    }


def _container(spec: Spec, resolved: Resolved) -> Part:
    container: Part = {
        "name": names.CONTAINER,
        "image": resolved.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(spec, resolved),
        "env": environment(spec),
        "ports": [{"name": names.PORT_NAME, "containerPort": names.PORT, "protocol": "TCP"}],
        "resources": resources(spec, resolved),
        "volumeMounts": mounts(spec),
        **_probes(resolved.startup_timeout_s),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if spec.lifecycle.pre_stop_seconds:
        sleep = {"seconds": spec.lifecycle.pre_stop_seconds}
        container["lifecycle"] = {"preStop": {"sleep": sleep}}
    return container


def _probes(startup_timeout_s: int) -> Part:
    """A short start-up period, so that a pod serves soon after it could; liveness is patient."""
    return {
        "startupProbe": {
            "httpGet": _get("/ready"),
            "periodSeconds": STARTUP_PERIOD_S,
            "timeoutSeconds": 2,
            "failureThreshold": math.ceil(startup_timeout_s / STARTUP_PERIOD_S),
        },
        "readinessProbe": {
            "httpGet": _get("/ready"),
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 2,
        },
        "livenessProbe": {
            "httpGet": _get("/live"),
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
    }


def _get(path: str) -> Part:
    return {"path": path, "port": names.PORT_NAME, "scheme": "HTTP"}


def _placement(spec: Spec) -> Part:
    """The fields that only exist when the user set them."""
    dumped = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    keys = (
        "nodeSelector",
        "tolerations",
        "imagePullSecrets",
        "serviceAccountName",
        "priorityClassName",
    )
    return {key: dumped[key] for key in keys if dumped.get(key)}
