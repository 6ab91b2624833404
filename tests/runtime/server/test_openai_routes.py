import threading

import pytest

from runtime.server.conftest import connected, events, loaded_with, new_state

HELLO = [{"role": "user", "content": "Hi"}]


async def complete(client, **body):
    response = await client.post("/v1/completions", json={"prompt": "Say", "max_tokens": 50} | body)
    assert response.status_code == 200, response.text
    return response.json()


async def stream(client, path, **body):
    response = await client.post(path, json={"stream": True} | body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events(response.text)


async def test_models_lists_every_served_name(client):
    body = (await client.get("/v1/models")).json()
    assert [card["id"] for card in body["data"]] == ["tiny", "alias"]
    assert body["data"][0]["max_model_len"] == 512
    assert (await client.get("/v1/models/alias")).json()["id"] == "alias"


async def test_a_completion_has_text_reason_and_usage(client):
    body = await complete(client, model="alias")
    assert body["object"] == "text_completion"
    assert body["model"] == "alias"
    assert body["id"].startswith("cmpl-")
    choice = body["choices"][0]
    assert (choice["index"], choice["text"], choice["finish_reason"]) == (0, "Hello, world", "stop")
    assert body["usage"] == {
        "prompt_tokens": 3, "completion_tokens": 13, "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip


async def test_a_completion_that_says_nothing_gets_sixteen_tokens(client, engine):
    engine.text = "x" * 100
    body = (await client.post("/v1/completions", json={"prompt": "Say"})).json()
    assert body["choices"][0]["text"] == "x" * 16
    assert body["choices"][0]["finish_reason"] == "length"


async def test_the_default_length_never_makes_a_prompt_too_long(client, engine):
    engine.text = "x" * 100
    body = (await client.post("/v1/completions", json={"prompt": "a" * 508})).json()
    assert body["choices"][0]["text"] == "x" * 4


async def test_a_chat_may_fill_what_the_model_leaves(client, engine):
    engine.text = "y" * 100
    body = (await client.post("/v1/chat/completions", json={"messages": HELLO})).json()
    assert body["choices"][0]["message"]["content"] == "y" * 100
    assert engine.params[0].max_tokens is None


@pytest.mark.parametrize("many", [False, True], ids=["alone", "in a list"])
@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
async def test_a_prompt_may_be_text_or_tokens_alone_or_in_a_list(
    client, engine, tokenizer, many, tokens
):
    texts = ["ab", "cde"] if many else ["ab"]
    encoded = [tokenizer.encode(text) for text in texts]
    prompts = encoded if tokens else texts
    body = await complete(client, prompt=prompts if many else prompts[0])
    assert sorted(engine.prompts) == sorted(encoded)
    assert [choice["index"] for choice in body["choices"]] == list(range(len(texts)))


async def test_choices_are_numbered_over_all_prompts(client):
    body = await complete(client, prompt=["a", "b"], n=2)
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert {choice["text"] for choice in body["choices"]} == {"Hello, world"}
    assert body["usage"]["prompt_tokens"] == 2
    assert body["usage"]["completion_tokens"] == 52


async def test_cached_tokens_are_reported(client):
    body = await complete(client, prompt="a" * 20, n=2)
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 16}


async def test_a_stop_string_ends_the_text_and_is_named(client):
    choice = (await complete(client, stop=[", "]))["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (
        "Hello",
        "stop",
        ", ",
    )


async def test_completion_logprobs_name_tokens_and_offsets(client):
    body = (await complete(client, logprobs=2, max_tokens=3))["choices"][0]["logprobs"]
    assert body["tokens"] == ["H", "e", "l"]
    assert body["token_logprobs"] == [-0.5, -0.5, -0.5]
    assert body["text_offset"] == [0, 1, 2]
    assert body["top_logprobs"][0]["H"] == -0.5
    assert len(body["top_logprobs"][0]) == 3


async def test_chat_logprobs_come_with_bytes_and_alternatives(client):
    request = {"messages": HELLO, "logprobs": True, "top_logprobs": 1}
    body = (await client.post("/v1/chat/completions", json=request)).json()
    content = body["choices"][0]["logprobs"]["content"]
    assert content[0]["token"] == "H"
    assert content[0]["bytes"] == [72]
    assert len(content[0]["top_logprobs"]) == 1
    assert content[-1]["logprob"] == -9999.0, "JSON has no infinity"


async def test_a_chat_goes_through_the_template_and_ends_with_the_assistants_turn(
    client, engine, tokenizer
):
    messages = [{"role": "developer", "content": "Be brief"}, *HELLO]
    await client.post("/v1/chat/completions", json={"messages": messages})
    text = "<s>system: Be brief\n<s>user: Hi\n<s>assistant:"
    assert engine.prompts == [tokenizer.encode(text)]


async def test_text_parts_of_a_message_are_joined(client, engine, tokenizer):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    await client.post(
        "/v1/chat/completions", json={"messages": [{"role": "user", "content": parts}]}
    )
    assert engine.prompts == [tokenizer.encode("<s>user: one\ntwo\n<s>assistant:")]


async def test_a_last_message_can_be_continued(client, engine, tokenizer):
    messages = [*HELLO, {"role": "assistant", "content": "Well"}]
    request = {"messages": messages, "continue_final_message": True}
    response = await client.post("/v1/chat/completions", json=request)
    assert response.status_code == 200, response.text
    assert engine.prompts == [tokenizer.encode("<s>user: Hi\n<s>assistant: Well")]


async def test_a_chat_stream_begins_with_the_role_and_ends_with_the_reason(client):
    chunks = await stream(client, "/v1/chat/completions", messages=HELLO)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["delta"].get("content", "") for c in choices) == "Hello, world"
    assert choices[-1]["delta"] == {}
    assert [c["finish_reason"] for c in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] == "stop"
    assert all("usage" not in chunk for chunk in chunks)


async def test_a_streams_usage_comes_last_where_it_is_asked_for(client):
    options = {"include_usage": True}
    chunks = await stream(client, "/v1/completions", prompt="Say", stream_options=options)
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 13


async def test_a_stream_can_report_usage_all_along(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = await stream(client, "/v1/completions", prompt="Say", stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks][:3] == [1, 2, 3]


async def test_a_stream_carries_all_choices(client):
    chunks = await stream(client, "/v1/chat/completions", messages=HELLO, n=2)
    for index in (0, 1):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant"
        assert "".join(c["delta"].get("content", "") for c in mine) == "Hello, world"
        assert mine[-1]["finish_reason"] == "stop"


async def test_a_character_of_several_tokens_comes_in_one_piece(client, engine):
    engine.text = "é🎉"
    chunks = await stream(client, "/v1/completions", prompt="Say")
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert [text for text in texts if text] == ["é", "🎉"]


async def test_streamed_logprobs_cover_every_token(client, engine):
    engine.text = "é!"
    chunks = await stream(client, "/v1/completions", prompt="Say", logprobs=0)
    tokens = [token for c in chunks for token in c["choices"][0]["logprobs"]["tokens"]]
    offsets = [o for c in chunks for o in c["choices"][0]["logprobs"]["text_offset"]]
    assert len(tokens) == 4
    assert offsets == [0, 1, 2, 3]


async def test_sampling_fields_reach_the_engine(client, engine):
    given = {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 5, "n": 2,
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.1,
        "ignore_eos": True, "min_tokens": 2, "max_tokens": 9, "stop_token_ids": [3],
        "skip_special_tokens": False, "include_stop_str_in_output": True, "stop": "zz",
    }  # fmt: skip
    await complete(client, **given)
    assert {name: getattr(engine.params[0], name) for name in given} == given


async def test_the_models_own_defaults_fill_in_what_a_request_leaves_out(engine):
    state = new_state()
    loaded_with(state, engine, {"temperature": 0.6, "top_k": 20})
    async with connected(state) as client:
        await complete(client)
        await complete(client, temperature=0)
    assert [(p.temperature, p.top_k) for p in engine.params] == [(0.6, 20), (0, 20)]


async def test_the_content_type_doesnt_matter(client):
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = await client.post("/v1/completions", content='{"prompt": "x"}', headers=form)
    assert response.status_code == 200


async def test_a_long_prompt_is_encoded_off_the_event_loop(client, tokenizer, monkeypatch):
    threads = []
    encode = tokenizer._encode

    def spy(text, add_special_tokens):
        threads.append(threading.current_thread() is threading.main_thread())
        return encode(text, add_special_tokens)

    monkeypatch.setattr(tokenizer, "_encode", spy)
    for prompt in ("short", "long" * 2000):
        await client.post("/v1/completions", json={"prompt": prompt})
    assert (threads[0], threads[-1]) == (True, False)


async def test_with_keys_only_their_owners_are_served(engine):
    state = new_state(api_key=("secret", "other"))
    loaded_with(state, engine)
    async with connected(state) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
            response = await client.get("/v1/models", headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"
        for key in ("secret", "other"):
            response = await client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
            assert response.status_code == 200
        assert (await client.get("/health")).status_code == 200, "probes carry no key"
