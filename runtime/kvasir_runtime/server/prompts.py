"""From a request's texts to token ids, without holding up the event loop or filling the memory.

Short texts are encoded at once; longer ones in a thread, as the tokenizer leaves the interpreter
free meanwhile. A text that is far too long for the model is recognised piece by piece: encoding all
of it would take hundreds of bytes a token, and other requests with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kvasir_runtime.errors import PromptTooLongError
from kvasir_runtime.server.chat_request import ChatRequest
from kvasir_runtime.server.completion_request import CompletionRequest, Prompt
from kvasir_runtime.tokenizer import Tokenizer

INLINE_CHARACTERS = 4096
SUSPICIOUS_CHARACTERS_PER_TOKEN = 8  # most texts have 3 to 5
PIECE_CHARACTERS = 262_144
TOKENS_CUT_IN_TWO = 8  # what cutting a text into pieces may add at each cut

ResultT = TypeVar("ResultT")


async def encode_prompts(
    request: CompletionRequest, tokenizer: Tokenizer, max_model_len: int
) -> list[list[int]]:
    """Return the token ids of each prompt of a completion."""
    special = request.add_special_tokens is not False

    def encode(prompt: Prompt) -> list[int]:
        if not isinstance(prompt, str):
            return prompt
        return encode_text(tokenizer, prompt, special, max_model_len)

    size = sum(len(prompt) for prompt in request.prompt if isinstance(prompt, str))
    return await _run(size, lambda: [encode(prompt) for prompt in request.prompt])


async def encode_chat(
    request: ChatRequest, tokenizer: Tokenizer, max_model_len: int
) -> list[list[int]]:
    """Return the one prompt that a conversation makes, written by the model's chat template."""
    continued = bool(request.continue_final_message)
    answered = request.add_generation_prompt
    messages = [message.for_template() for message in request.messages]

    def encode() -> list[list[int]]:
        text = tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=not continued if answered is None else answered,
            continue_final_message=continued,
            template_kwargs=request.chat_template_kwargs,
        )
        special = bool(request.add_special_tokens)
        return [encode_text(tokenizer, text, special, max_model_len)]

    return await _run(sum(len(message["content"]) for message in messages), encode)


def encode_text(
    tokenizer: Tokenizer, text: str, add_special_tokens: bool, max_model_len: int
) -> list[int]:
    """Return the tokens of `text`; raises PromptTooLongError early where it is far too long."""
    if len(text) > max_model_len * SUSPICIOUS_CHARACTERS_PER_TOKEN:
        _require_room(tokenizer, text, max_model_len)
    return tokenizer.encode(text, add_special_tokens)


def _require_room(tokenizer: Tokenizer, text: str, max_model_len: int) -> None:
    tokens = 0
    for start in range(0, len(text), PIECE_CHARACTERS):
        piece = text[start : start + PIECE_CHARACTERS]
        tokens += max(0, tokenizer.count(piece) - TOKENS_CUT_IN_TWO)
        if tokens > max_model_len:
            raise PromptTooLongError(
                f"the prompt has more than {tokens:,} tokens, the model's length is "
                f"{max_model_len:,}",
                f"shorten it to at most {max_model_len - 1:,} tokens",
            )


async def _run(characters: int, work: Callable[[], ResultT]) -> ResultT:
    if characters <= INLINE_CHARACTERS:
        return work()
    return await asyncio.to_thread(work)
