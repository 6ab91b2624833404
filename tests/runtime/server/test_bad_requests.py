import json

import pytest

from runtime.server.conftest import connected, new_state

HELLO = [{"role": "user", "content": "Hi"}]


async def refused(client, path, status, **body):
    """Return the error of a request that must be refused, in OpenAI's shape and no other."""
    base = {"prompt": "x"} if path == "/v1/completions" else {"messages": HELLO}
    response = await client.post(path, json=base | body)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


async def test_a_negative_max_tokens_is_named_with_its_value(client):
    error = await refused(client, "/v1/completions", 400, max_tokens=-1)
    assert error == {
        "message": "max_tokens is -1: it must be at least 1",
        "type": "invalid_request_error", "param": "max_tokens", "code": None,
    }  # fmt: skip


async def test_the_error_uses_the_clients_own_name_of_a_parameter(client):
    error = await refused(client, "/v1/chat/completions", 400, max_completion_tokens=-1)
    assert error["param"] == "max_completion_tokens"
    assert "max_completion_tokens is -1" in error["message"]
    error = await refused(client, "/v1/chat/completions", 400, logprobs=True, top_logprobs=99)
    assert error["param"] == "top_logprobs"


@pytest.mark.parametrize("raw", ['{"prompt":', "", "[]", '"x"', "null", b"\xff\xfe{}", "[" * 10000])
async def test_malformed_json_is_a_bad_request(client, raw):
    response = await client.post("/v1/completions", content=raw)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_a_lone_surrogate_is_a_bad_request(client):
    response = await client.post("/v1/completions", content='{"prompt": "\\ud800"}')
    assert response.status_code == 400


async def test_an_unknown_model_is_not_found_and_the_known_ones_are_named(client):
    error = await refused(client, "/v1/chat/completions", 404, model="gpt-4")
    assert error["code"] == "model_not_found"
    assert error["param"] == "model"
    assert "tiny" in error["message"]
    assert (await client.get("/v1/models/gpt-4")).status_code == 404


async def test_a_prompt_beyond_the_models_length_is_refused_with_both_numbers(client):
    error = await refused(client, "/v1/completions", 400, prompt="a" * 600)
    assert error["code"] == "context_length_exceeded"
    assert "600" in error["message"]
    assert "512" in error["message"]


async def test_a_prompt_far_beyond_the_models_length_is_never_encoded_whole(
    client, tokenizer, monkeypatch
):
    sizes = []
    encode = tokenizer._encode
    monkeypatch.setattr(
        tokenizer, "_encode", lambda text, *a: sizes.append(len(text)) or encode(text, *a)
    )
    error = await refused(client, "/v1/completions", 400, prompt="ab" * 1_000_000)
    assert error["code"] == "context_length_exceeded"
    assert "512" in error["message"]
    assert sizes == [262_144]


async def test_a_streamed_request_is_refused_with_a_status_too(client):
    error = await refused(client, "/v1/completions", 400, prompt="a" * 600, stream=True)
    assert error["code"] == "context_length_exceeded"


async def test_one_prompt_of_several_that_is_too_long_refuses_them_all(client, engine):
    await refused(client, "/v1/completions", 400, prompt=["a", "b" * 600])
    assert engine.open == set()


async def test_a_token_id_outside_the_vocabulary_is_refused(client):
    error = await refused(client, "/v1/completions", 400, prompt=[5, 320])
    assert "320" in error["message"]
    await refused(client, "/v1/completions", 400, prompt=[-1])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1), ("temperature", "hot"), ("temperature", True), ("top_p", 0),
        ("top_p", 1.5), ("top_k", -2), ("top_k", 1.5), ("min_p", 2), ("n", 0), ("n", "2"),
        ("presence_penalty", 3), ("frequency_penalty", -3), ("repetition_penalty", 0),
        ("seed", 2**70), ("stop", [1]), ("stop", ""), ("stop", ["a"] * 65), ("min_tokens", -1),
        ("stop_token_ids", "x"), ("ignore_eos", "yes"), ("stream", 1), ("model", 5),
        ("max_tokens", 0), ("max_tokens", 1e400), ("prompt", None), ("prompt", []),
        ("prompt", ""), ("prompt", [[]]), ("prompt", ["a", 1]), ("prompt", {"a": 1}),
        ("logprobs", 99), ("logprobs", -1), ("stream_options", {"include_usage": True}),
    ],
)  # fmt: skip
async def test_a_wrong_value_is_a_bad_request_that_names_the_field(client, field, value):
    body = {"prompt": "x", field: value}
    response = await client.post("/v1/completions", content=json.dumps(body))
    assert response.status_code == 400, response.text
    assert field in response.json()["error"]["message"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_are_none_are_refused(client, value):
    content = json.dumps({"prompt": "x", "temperature": value})
    response = await client.post("/v1/completions", content=content)
    assert response.status_code == 400


async def test_a_missing_prompt_is_named(client):
    response = await client.post("/v1/completions", json={})
    assert response.json()["error"]["message"] == "prompt is missing: it is required"
    assert response.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize(
    "messages",
    [
        [], None, "Hi", [5], [{}], [{"role": "user"}], [{"role": "robot", "content": "Hi"}],
        [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "assistant", "tool_calls": [{"id": "1"}]}],
    ],
)  # fmt: skip
async def test_wrong_messages_are_bad_requests(client, messages):
    error = await refused(client, "/v1/chat/completions", 400, messages=messages)
    assert "messages" in error["param"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function"}]), ("tool_choice", "required"), ("functions", [{}]),
        ("response_format", {"type": "json_object"}), ("best_of", 3),
        ("suffix", "end"), ("echo", True), ("guided_json", {}), ("use_beam_search", True),
        ("prompt_logprobs", 1), ("modalities", ["audio"]), ("return_token_ids", True),
    ],
)  # fmt: skip
async def test_what_isnt_served_yet_is_refused_by_name(client, field, value):
    error = await refused(client, "/v1/completions", 400, **{field: value})
    assert error["param"] == field
    assert "not supported yet" in error["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", []), ("tools", None), ("tool_choice", "auto"), ("logit_bias", {}),
        ("response_format", {"type": "text"}), ("best_of", 1), ("echo", False), ("suffix", ""),
        ("user", "me"), ("metadata", {"a": "b"}), ("store", True), ("seed", None),
    ],
)  # fmt: skip
async def test_values_that_ask_for_nothing_are_accepted(client, field, value):
    response = await client.post("/v1/completions", json={"prompt": "x", field: value})
    assert response.status_code == 200, response.text


async def test_an_unknown_field_is_ignored_and_logged_once(client, caplog):
    for _ in range(3):
        response = await client.post("/v1/completions", json={"prompt": "x", "zzz_test": 1})
        assert response.status_code == 200
    assert sum("zzz_test" in record.getMessage() for record in caplog.records) == 1


async def test_template_variables_that_would_replace_its_arguments_are_refused(client):
    error = await refused(
        client, "/v1/chat/completions", 400, chat_template_kwargs={"tokenize": True}
    )
    assert error["param"] == "chat_template_kwargs"


async def test_a_body_larger_than_any_prompt_is_refused(client, monkeypatch):
    monkeypatch.setattr("kvasir_runtime.server.body.MAX_BODY_BYTES", 1000)
    error = await refused(client, "/v1/completions", 413, prompt="a" * 2000)
    assert error["code"] == "request_too_large"


async def test_too_many_choices_are_refused(client):
    error = await refused(client, "/v1/completions", 400, prompt=["a"] * 100, n=100)
    assert "10000 choices" in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nope", 404), ("GET", "/v1/completions", 405), ("DELETE", "/health", 405)],
)
async def test_unknown_paths_and_methods_answer_in_openais_shape(client, method, path, status):
    response = await client.request(method, path)
    assert response.status_code == status
    assert path in response.json()["error"]["message"]


async def test_while_the_model_loads_requests_are_told_to_come_again():
    async with connected(new_state()) as client:
        for path in ("/v1/completions", "/v1/chat/completions"):
            response = await client.post(path, content="{")
            assert response.status_code == 503
            assert response.headers["retry-after"] == "5"
            assert response.json()["error"]["code"] == "model_loading"
        assert (await client.get("/v1/models")).status_code == 503


async def test_a_request_the_engine_gives_up_is_a_server_error(client, engine):
    engine.fails_with = "a block was lost"
    error = await refused(client, "/v1/completions", 500)
    assert "a block was lost" in error["message"]


async def test_a_bug_is_a_server_error_in_openais_shape(client, engine, monkeypatch):
    monkeypatch.setattr(engine, "generate", None)
    error = await refused(client, "/v1/completions", 500)
    assert error["type"] == "server_error"
