"""Defaults are filled in; what the engine cannot run is refused with what to do."""

from typing import Any

import pytest

from kvasir_operator.model.plan import Refusal, Resolved
from kvasir_operator.plan import plan
from kvasir_operator.settings import Settings
from support.objects import service

SETTINGS = Settings(default_image="engine:1")


def resolved(**spec: Any) -> Resolved:
    planned = plan(service(**spec), SETTINGS)
    assert isinstance(planned, Resolved)
    return planned


def refusal(**spec: Any) -> Refusal:
    planned = plan(service(**spec), SETTINGS)
    assert isinstance(planned, Refusal)
    return planned


def test_defaults_on_cpu() -> None:
    assert resolved() == Resolved(
        image="engine:1",
        served_name="chat",
        tensor=1,
        pipeline=1,
        dtype="float32",
        quantization="auto",
        kv_cache_gib=1.0,
        max_model_len=None,
        max_num_batched_tokens=None,
        startup_timeout_s=600,
    )


def test_on_cuda_the_checkpoint_decides_the_dtype_and_memory_the_cache() -> None:
    values = resolved(device="cuda")
    assert (values.dtype, values.kv_cache_gib) == ("auto", None)


def test_what_the_user_says_wins() -> None:
    values = resolved(
        model={"uri": "pvc://m/x", "servedName": "gpt"},
        engine={"image": "mine:2", "dtype": "bfloat16", "kvCacheGiB": 0.5, "maxModelLen": 512},
        lifecycle={"startupTimeoutSeconds": 60},
    )
    assert (values.image, values.served_name, values.dtype) == ("mine:2", "gpt", "bfloat16")
    assert (values.kv_cache_gib, values.max_model_len, values.startup_timeout_s) == (0.5, 512, 60)


@pytest.mark.parametrize(
    ("spec", "reason", "advice"),
    [
        ({"parallelism": {"tensor": 2}}, "ParallelismUnsupported", "parallelism.tensor is 2"),
        ({"parallelism": {"pipeline": 4}}, "ParallelismUnsupported", "leave it out"),
        ({"engine": {"quantization": "awq"}}, "QuantizationUnsupported", "unquantized"),
    ],
)
def test_what_the_engine_cannot_run_is_refused(
    spec: dict[str, Any], reason: str, advice: str
) -> None:
    said = refusal(**spec)
    assert said.reason == reason
    assert advice in said.message


@pytest.mark.parametrize("quantization", ["auto", "none"])
def test_unquantized_checkpoints_are_accepted(quantization: str) -> None:
    assert resolved(engine={"quantization": quantization}).quantization == quantization


def test_without_any_image_it_says_where_to_name_one() -> None:
    said = plan(service(), Settings(default_image=""))
    assert isinstance(said, Refusal)
    assert said.reason == "NoEngineImage"
    assert "--default-image" in said.message
