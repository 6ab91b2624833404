"""The typed share of a pod that users set: resources, scheduling, life cycle. Not a PodSpec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvasir_operator.model.base import Fields, ObjectName, Quantity, rules

TOLERATION_RULES = rules(
    (
        "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
        "a toleration without a key needs operator: Exists",
    ),
    (
        "!has(self.value) || !has(self.operator) || self.operator == 'Equal'",
        "a toleration with operator: Exists takes no value",
    ),
)

LABEL_RULES = rules(
    (
        "self.all(k, !k.startsWith('kvasir.dev/') && "
        "!(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', "
        "'app.kubernetes.io/managed-by']))",
        "kvasir.dev/* and app.kubernetes.io/{name,instance,managed-by} are set by the operator: "
        "choose other keys",
    ),
)

LabelValue = Annotated[str, Field(max_length=63)]
AnnotationValue = Annotated[str, Field(max_length=4096)]


class ParallelismSpec(Fields):
    """How one replica is spread over devices."""

    tensor: Annotated[int, Field(ge=1, le=16)] | None = None
    """Devices that share each layer. Worked out when omitted; this version runs 1."""
    pipeline: Annotated[int, Field(ge=1, le=16)] | None = None
    """Stages that share the stack of layers. Worked out when omitted; this version runs 1."""


class ResourcesSpec(Fields):
    """What a pod asks of its node besides GPUs, which follow from device and parallelism."""

    cpu: Quantity | None = None
    """CPU cores requested (no limit is set: a throttled engine stalls every stream). When omitted
    500m on cpu and 2 a GPU on cuda."""
    memory: Quantity | None = None
    """Memory requested, and the limit. When omitted no limit is set and the request is 2Gi plus
    the KV cache on cpu, and 4Gi plus the swap space a GPU on cuda. /dev/shm counts as memory."""
    shm_size: Quantity | None = None
    """Size of the memory-backed /dev/shm. 1Gi when omitted."""


class TolerationSpec(Fields):
    """A taint that the pods tolerate, as in a pod."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": TOLERATION_RULES})

    key: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """The taint's key; every key when omitted (operator: Exists)."""
    operator: Literal["Exists", "Equal"] | None = None
    """Equal (the default) or Exists."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; every effect when omitted."""
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """How long a NoExecute taint is tolerated; forever when omitted."""


class LocalRef(Fields):
    """The name of an object in the same namespace."""

    name: ObjectName
    """The object's name."""


class LifecycleSpec(Fields):
    """How long starting and stopping may take."""

    startup_timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] | None = None
    """Time a pod may take until it is ready: fetching the weights, loading, warming up. After that
    it is restarted. 600 when omitted."""
    pre_stop_seconds: Annotated[int, Field(ge=0, le=300)] = 15
    """Time between the pod leaving the Service and its being told to stop, so that every client
    has noticed."""
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 120
    """Time running streams get to finish after that; what is left gets an error event."""
