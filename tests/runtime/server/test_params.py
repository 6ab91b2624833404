import dataclasses
import json

import pytest

from kvasir_runtime.errors import InvalidConfigError, KvasirError
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.server.completion_request import CompletionRequest
from kvasir_runtime.server.params import load_sampling_defaults, sampling_params


def write(folder, text):
    (folder / "generation_config.json").write_text(text)
    return folder


def test_a_request_can_set_every_sampling_parameter():
    names = {field.name for field in dataclasses.fields(SamplingParams) if field.init}
    # Prompt log-probabilities are not served yet; bad words come as texts.
    assert names - {"prompt_logprobs", "bad_word_ids"} <= CompletionRequest.model_fields.keys()


def test_logit_bias_comes_with_texts_as_keys():
    request = CompletionRequest(prompt="x", logit_bias={"5": -3.5})
    assert sampling_params(request, {}).logit_bias == {5: -3.5}


@pytest.mark.parametrize("bias", [{"x": 1.0}, {"-1": 1.0}, {"5": 101.0}])
def test_a_wrong_logit_bias_is_refused_by_name(bias):
    with pytest.raises(KvasirError, match="logit_bias") as caught:
        sampling_params(CompletionRequest(prompt="x", logit_bias=bias), {})
    assert caught.value.param == "logit_bias"


def test_the_request_wins_over_the_model_and_the_model_over_openai():
    request = CompletionRequest(prompt="x", temperature=0.2)
    params = sampling_params(request, {"temperature": 0.6, "top_k": 20})
    assert (params.temperature, params.top_k, params.top_p) == (0.2, 20, 1.0)


def test_defaults_come_from_the_models_generation_config(tmp_path):
    config = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "eos_token_id": 2, "do_sample": True}
    assert load_sampling_defaults(write(tmp_path, json.dumps(config))) == {
        "temperature": 0.6, "top_p": 0.95, "top_k": 20,
    }  # fmt: skip


def test_a_model_without_that_file_has_no_defaults(tmp_path):
    assert load_sampling_defaults(tmp_path) == {}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"temperature": -1}', '{"top_k": "many"}', '{"top_p": [1]}']
)
def test_a_broken_file_stops_the_start(tmp_path, text):
    with pytest.raises(InvalidConfigError, match=r"generation_config\.json"):
        load_sampling_defaults(write(tmp_path, text))
