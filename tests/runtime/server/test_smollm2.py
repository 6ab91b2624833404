"""The demo model behind the HTTP door, asked by the OpenAI SDK."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from runtime.server.serving import serving

pytestmark = pytest.mark.model

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def server(demo_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    with serving(folder, "--model", str(demo_model), "--served-model-name", "smollm2") as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def sdk(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as sdk:
        yield sdk


def ask(sdk, **options):
    options = {"model": "smollm2", "messages": QUESTION, "temperature": 0} | options
    return sdk.chat.completions.create(**options)


def metric(server, name):
    for line in httpx.get(f"{server.url}/metrics").text.splitlines():
        if line.startswith(f"vllm:{name}{{"):
            return float(line.split()[-1])
    raise AssertionError(f"{name} is not exported")


def test_the_capital_of_france(sdk):
    answer = ask(sdk)
    assert answer.choices[0].message.content == "The capital of France is Paris."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == 37
    assert answer.usage.completion_tokens == 8


def test_a_stream_says_the_same_in_pieces(sdk):
    chunks = list(ask(sdk, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "The capital of France is Paris."
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == 8


def test_a_repeated_prompt_is_found_in_the_cache(sdk):
    ask(sdk, max_tokens=1)
    assert ask(sdk, max_tokens=1).usage.prompt_tokens_details.cached_tokens == 32


def test_a_completion_goes_on_from_its_prompt(sdk):
    answer = sdk.completions.create(
        model="smollm2", prompt="The capital of Italy is", max_tokens=3, temperature=0, logprobs=2
    )
    assert "Rome" in answer.choices[0].text
    assert answer.choices[0].finish_reason == "length"
    assert "".join(answer.choices[0].logprobs.tokens) == answer.choices[0].text


def test_many_streams_at_once_say_what_each_says_alone(sdk):
    questions = [
        [{"role": "user", "content": f"Name {n} colours."}] for n in range(1, 6)
    ]  # fmt: skip

    def text(messages):
        chunks = ask(sdk, messages=messages, max_tokens=12, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    alone = [text(messages) for messages in questions]
    with ThreadPoolExecutor(len(questions)) as pool:
        assert list(pool.map(text, questions)) == alone


def test_biases_and_bans_change_the_answer(sdk):
    def answer(**extra):
        reply = sdk.completions.create(
            model="smollm2", prompt="The capital of France is", temperature=0, max_tokens=4, **extra
        )
        return reply.choices[0].text

    assert "Paris" in answer()
    assert "Paris" not in answer(extra_body={"bad_words": ["Paris"]})
    assert answer(extra_body={"allowed_token_ids": [504]}) == answer(logit_bias={"504": 100})


def test_a_seed_repeats_a_sampled_answer(sdk):
    answers = [ask(sdk, temperature=1, seed=7, max_tokens=12) for _ in range(2)]
    assert answers[0].choices[0].message.content == answers[1].choices[0].message.content


def test_errors_arrive_as_the_sdks_own(sdk):
    with pytest.raises(openai.NotFoundError, match="smollm2"):
        ask(sdk, model="gpt-4")
    with pytest.raises(openai.BadRequestError, match="max_tokens is -1"):
        ask(sdk, max_tokens=-1)
    with pytest.raises(openai.BadRequestError, match="8,192") as caught:
        ask(sdk, messages=[{"role": "user", "content": "word " * 9000}])
    assert caught.value.code == "context_length_exceeded"


def test_a_client_that_leaves_frees_its_blocks(server, eventually):
    request = {"messages": QUESTION, "stream": True, "ignore_eos": True, "max_tokens": 4000}
    url = f"{server.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=request, timeout=60) as response:
        lines = response.iter_lines()
        assert json.loads(next(lines).removeprefix("data: "))["choices"]
        eventually(lambda: metric(server, "num_requests_running") == 1)
        assert metric(server, "kv_cache_usage_perc") > 0
    eventually(lambda: metric(server, "num_requests_running") == 0)
    eventually(lambda: metric(server, "kv_cache_usage_perc") == 0)
