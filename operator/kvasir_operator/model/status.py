"""`status` of an InferenceService: the schema of what the operator writes.

Only the schema is made from it; on the hot path status is a plain dict, and a test holds the two
together.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kvasir_operator.model.base import Fields

Text = Annotated[str, Field(max_length=4096)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

PHASES = (
    "Pending", "Planning", "Blocked", "Downloading", "Starting",
    "Ready", "Degraded", "Updating", "Paused", "Failed",
)  # fmt: skip
Phase = Literal[
    "Pending", "Planning", "Blocked", "Downloading", "Starting",
    "Ready", "Degraded", "Updating", "Paused", "Failed",
]  # fmt: skip


class Condition(Fields):
    """One aspect of the state: Ready, Accepted, Scheduled, Available or Progressing."""

    type: Annotated[str, Field(max_length=64)]
    """The aspect."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=128)]
    """Why, in one CamelCase word."""
    message: Text
    """Why, in a sentence."""
    observed_generation: int
    """The metadata.generation this was said about."""
    last_transition_time: Time
    """When status last changed from one value to another."""


class Resolved(Fields):
    """The values in use after defaults and planning."""

    tensor: int | None = None
    """Devices that share each layer."""
    pipeline: int | None = None
    """Stages that share the stack of layers."""
    max_model_len: int | None = None
    """Most tokens of a prompt and its answer; absent while the engine works it out."""
    max_num_batched_tokens: int | None = None
    """Most tokens in one step; absent while the engine works it out."""
    quantization: str | None = None
    """How the weights are quantized."""
    dtype: str | None = None
    """Type of weights and activations."""


class Startup(Fields):
    """The start-up of the pods."""

    budget_seconds: int | None = None
    """Time a pod may take until it is ready."""


class LastFailure(Fields):
    """The last thing that kept a pod from serving. A container's end stays here as a record after
    recovery; what is only a wait (no node, no image, no volume) goes once it is over."""

    pod: str | None = None
    """Name of the pod."""
    container: str | None = None
    """The container in it."""
    reason: str | None = None
    """What happened, in one CamelCase word."""
    exit_code: int | None = None
    """The exit code of the container, if it ended."""
    message: Text | None = None
    """What happened, in its own words."""
    hint: Text | None = None
    """What to do about it."""
    time: Time | None = None
    """When it happened."""


class Status(Fields):
    """What the operator knows, written by it alone."""

    observed_generation: int | None = None
    """The metadata.generation this status is about."""
    phase: Phase | None = None
    """The state in one word."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Why it is not Ready, in one CamelCase word; empty when it is."""
    replicas: int | None = None
    """Pods that exist, of any generation."""
    ready_replicas: int | None = None
    """Pods that answer, of any generation."""
    updated_replicas: int | None = None
    """Pods of the current template."""
    replica_summary: str | None = None
    """Pods of the current template that answer / pods wanted."""
    selector: str | None = None
    """Label selector of the pods, for the scale subresource."""
    url: str | None = None
    """Where clients inside the cluster reach the model."""
    resolved: Resolved | None = None
    """The values in use after defaults and planning."""
    startup: Startup | None = None
    """The start-up of the pods."""
    last_failure: LastFailure | None = None
    """The last thing that kept a pod from serving."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Ready, Accepted, Scheduled, Available, Progressing. `kubectl wait --for=condition=Ready`
    returns once the current generation is fully rolled out and a pod answers."""
