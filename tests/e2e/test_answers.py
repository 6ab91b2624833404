"""What a client of the OpenAI SDK gets from a model that was served by one manifest."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from support.inference_services import InferenceServices

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
STREAMS = 32
SUBJECTS = ("The sea", "A cat", "My house", "The king", "Music", "Winter", "The train", "Bread")
ENDINGS = ("is", "was found in", "and the", "can be")


@pytest.fixture(scope="module")
def client(services: InferenceServices, chat: str) -> Iterator[openai.OpenAI]:
    """An SDK client of the served model."""
    with services.openai(chat) as client:
        yield client


def test_model_is_listed_under_its_name(client: openai.OpenAI, chat: str) -> None:
    assert [model.id for model in client.models.list()] == [chat]


def test_chat_completion(client: openai.OpenAI, chat: str) -> None:
    said = client.chat.completions.create(
        model=chat,
        messages=QUESTION,
        temperature=0,
        max_tokens=32,  # type: ignore[arg-type]
    )
    assert "Paris" in (said.choices[0].message.content or "")
    assert said.choices[0].finish_reason == "stop"
    assert said.usage is not None
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens


def test_completion(client: openai.OpenAI, chat: str) -> None:
    said = client.completions.create(
        model=chat, prompt="The capital of France is", temperature=0, max_tokens=4
    )
    assert "Paris" in said.choices[0].text
    assert said.choices[0].finish_reason == "length"


def test_streamed_chat_is_the_same_as_the_whole_one(client: openai.OpenAI, chat: str) -> None:
    stream = client.chat.completions.create(
        model=chat, messages=QUESTION, temperature=0, max_tokens=32, stream=True,  # type: ignore[arg-type]
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    whole = client.chat.completions.create(
        model=chat,
        messages=QUESTION,
        temperature=0,
        max_tokens=32,  # type: ignore[arg-type]
    )
    assert len(chunks) > 3
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


def test_concurrent_streams_say_the_same_as_one_at_a_time(client: openai.OpenAI, chat: str) -> None:
    prompts = [f"{subject} {ending}" for subject in SUBJECTS for ending in ENDINGS]
    assert len(set(prompts)) == STREAMS

    def stream(prompt: str) -> str:
        chunks = client.completions.create(
            model=chat, prompt=prompt, temperature=0, max_tokens=8, stream=True
        )
        return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)

    alone = [stream(prompt) for prompt in prompts]
    with ThreadPoolExecutor(STREAMS) as pool:
        together = list(pool.map(stream, prompts))
    assert all(alone)
    assert together == alone


def test_prompt_beyond_the_models_limit_is_refused(client: openai.OpenAI, chat: str) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.completions.create(model=chat, prompt="word " * 9000, max_tokens=1)
    assert "8,192" in str(refusal.value)


def test_negative_max_tokens_is_refused(client: openai.OpenAI, chat: str) -> None:
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.completions.create(model=chat, prompt="Hi", max_tokens=-1)


def test_unknown_model_is_refused_by_name(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-17"):
        client.completions.create(model="gpt-17", prompt="Hi", max_tokens=1)


def test_malformed_json_is_refused(services: InferenceServices, chat: str) -> None:
    url = f"{services.address(chat)}/v1/completions"
    headers = {"Content-Type": "application/json"}
    with httpx.Client(trust_env=False) as http:
        answer = http.post(url, content='{"model": ', headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
