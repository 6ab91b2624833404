"""Refuses what the engine of this version cannot run, before a pod is made for it."""

from __future__ import annotations

from collections.abc import Iterator

from kvasir_operator.model.plan import Refusal
from kvasir_operator.model.spec import Spec
from kvasir_operator.settings import Settings


def first_refusal(spec: Spec, settings: Settings) -> Refusal | None:
    """The first reason not to run `spec`, if there is one."""
    return next(_refusals(spec, settings), None)


def _refusals(spec: Spec, settings: Settings) -> Iterator[Refusal]:
    yield from _parallelism(spec)
    yield from _quantization(spec)
    if not (spec.engine.image or settings.default_image):
        yield Refusal(
            "NoEngineImage",
            "engine.image is empty and the operator has no default image: set engine.image, or "
            "start the operator with --default-image",
        )


def _parallelism(spec: Spec) -> Iterator[Refusal]:
    for field, degree in (
        ("tensor", spec.parallelism.tensor),
        ("pipeline", spec.parallelism.pipeline),
    ):
        if degree is not None and degree > 1:
            yield Refusal(
                "ParallelismUnsupported",
                f"parallelism.{field} is {degree}: this version runs a model on one device; set it "
                "to 1 or leave it out, and scale with replicas",
            )


def _quantization(spec: Spec) -> Iterator[Refusal]:
    if spec.engine.quantization not in ("auto", "none"):
        yield Refusal(
            "QuantizationUnsupported",
            f"engine.quantization is {spec.engine.quantization}: this version runs unquantized "
            "checkpoints; leave it out and use the model's float16 or bfloat16 checkpoint",
        )
