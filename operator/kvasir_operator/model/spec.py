"""`spec` of an InferenceService, whole: what a user may write."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvasir_operator.model.base import Fields, ObjectName, rules
from kvasir_operator.model.engine import EngineSpec
from kvasir_operator.model.pod import (
    LABEL_RULES,
    AnnotationValue,
    LabelValue,
    LifecycleSpec,
    LocalRef,
    ParallelismSpec,
    ResourcesSpec,
    TolerationSpec,
)
from kvasir_operator.model.source import ModelSpec

SPEC_RULES = rules(
    (
        "!has(self.engine) || !has(self.engine.kvCacheGiB) || self.device == 'cpu'",
        "engine.kvCacheGiB is for device: cpu; on cuda the KV cache follows from "
        "engine.gpuMemoryUtilization",
    ),
)

ATOMIC = {"x-kubernetes-list-type": "atomic"}


class Spec(Fields):
    """What should be served, and how. Only model.uri is required."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": SPEC_RULES})

    model: ModelSpec
    """The model to serve."""
    device: Annotated[
        Literal["cuda", "cpu"], Field(json_schema_extra={"x-kvasir-default": True})
    ] = "cuda"
    """What computes: cuda (NVIDIA GPUs, nvidia.com/gpu) or cpu (small models, trials, tests)."""
    engine: EngineSpec = EngineSpec()
    """How the engine in each pod runs. Everything has a default."""
    parallelism: ParallelismSpec = ParallelismSpec()
    """How one replica is spread over devices."""
    replicas: Annotated[int, Field(ge=0, le=1000, json_schema_extra={"x-kvasir-default": True})] = 1
    """Number of pods, each a whole copy of the model. `kubectl scale` sets it. With 0 nothing
    serves. A change restarts no running pod."""
    resources: ResourcesSpec = ResourcesSpec()
    """What a pod asks of its node besides GPUs."""
    lifecycle: LifecycleSpec = LifecycleSpec()
    """How long starting and stopping may take."""
    paused: bool = False
    """Leave everything that runs as it is: while true no child is created or changed, also not by
    a new spec or scale. Status goes on being written. Deleting still deletes."""
    node_selector: dict[str, LabelValue] = Field(default={}, max_length=32)
    """Labels a node must have to run the pods."""
    tolerations: Annotated[
        tuple[TolerationSpec, ...], Field(max_length=32, json_schema_extra=dict(ATOMIC))
    ] = ()
    """Taints that the pods tolerate."""
    image_pull_secrets: Annotated[
        tuple[LocalRef, ...], Field(max_length=16, json_schema_extra=dict(ATOMIC))
    ] = ()
    """Secrets with the credentials of private image registries."""
    service_account_name: ObjectName | None = None
    """ServiceAccount of the pods; its token is not mounted. The namespace's default when
    omitted."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods."""
    pod_labels: dict[str, LabelValue] = Field(
        default={}, max_length=32, json_schema_extra={"x-kubernetes-validations": LABEL_RULES}
    )
    """Further labels of the pods."""
    pod_annotations: dict[str, AnnotationValue] = Field(default={}, max_length=32)
    """Further annotations of the pods."""
