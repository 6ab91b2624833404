"""Every error that ends the runtime reaches the user's status as the runtime said it."""

import inspect
from typing import Any

import pytest

from kvasir_operator.diagnose import find_failure
from kvasir_operator.model.observed import Observed
from kvasir_runtime import errors
from kvasir_runtime.server.termination import termination_message
from support.objects import container, pod

ENDING = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.StartupError | errors.EngineError)
    and kind not in (errors.StartupError, errors.EngineError)
]


def diagnosed(message: str) -> Any:
    ended = {"terminated": {"reason": "Error", "exitCode": 1, "message": message}}
    crashed = pod(containerStatuses=container(state=ended))
    return find_failure(Observed(pods=(crashed,)), "r1")


@pytest.mark.parametrize("kind", ENDING)
def test_error_of_the_runtime_is_understood(kind: type[errors.KvasirError]) -> None:
    failure = diagnosed(termination_message(kind("what is wrong", "what to do")))
    assert (failure.reason, failure.message) == (kind.reason, "what is wrong")
    assert failure.hint == "what to do"


def test_error_without_a_hint_gets_one() -> None:
    assert diagnosed(termination_message(errors.EngineDiedError("the engine died"))).hint


def test_message_that_was_cut_is_still_understood() -> None:
    failure = diagnosed(termination_message(errors.CorruptWeightsError("x" * 9000, "copy it")))
    assert (failure.reason, failure.hint) == ("CorruptWeights", "copy it")
