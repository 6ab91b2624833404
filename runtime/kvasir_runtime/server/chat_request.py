"""The body of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kvasir_runtime.server.errors import BadRequestError
from kvasir_runtime.server.fields import SamplingFields


def _as_text(value: Any) -> Any:
    """Return a message's content as one text; its text parts are joined by line ends."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("content is a text or a list of text parts")  # noqa: TRY004 - pydantic's
    return "\n".join(_part_text(part) for part in value)


def _part_text(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text":
        raise ValueError("only parts of type text are supported")
    text = part.get("text")
    if not isinstance(text, str):
        raise ValueError("a part of type text has its text in `text`")  # noqa: TRY004
    return text


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(strict=True, extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str | None, BeforeValidator(_as_text)] = None
    name: str | None = None

    def for_template(self) -> dict[str, str]:
        """Return what a chat template reads; templates call a developer the system."""
        role = "system" if self.role == "developer" else self.role
        message = {"role": role, "content": self.content or ""}
        return message if self.name is None else message | {"name": self.name}


class ChatRequest(SamplingFields):
    """A conversation to answer."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def check_fields(self) -> None:
        """Refuse what isn't served yet, and what can't be meant together."""
        super().check_fields()
        for number, message in enumerate(self.messages):
            self._check_message(message, f"messages.{number}")
        if self.top_logprobs is not None and not self.logprobs:
            raise BadRequestError(
                "top_logprobs is given without logprobs", "set logprobs to true", "top_logprobs"
            )
        if self.add_generation_prompt and self.continue_final_message:
            raise BadRequestError(
                "add_generation_prompt and continue_final_message are both true",
                "the last message is either continued or answered",
                "continue_final_message",
            )

    def _check_message(self, message: ChatMessage, where: str) -> None:
        extra = message.model_extra or {}
        for name in ("tool_calls", "function_call", "audio"):
            if extra.get(name):
                raise BadRequestError(
                    f"{name} in a message is not supported yet", "leave it out", f"{where}.{name}"
                )
        if message.content is None and message.role != "assistant":
            raise BadRequestError(f"{where}.content is missing", "give a text", f"{where}.content")

    def sampling_values(self) -> dict[str, Any]:
        """Return the given fields under SamplingParams' names."""
        values = super().sampling_values()
        if self.max_completion_tokens is not None:
            values["max_tokens"] = self.max_completion_tokens
        return values

    def num_logprobs(self) -> int | None:
        """Return how many alternatives each token comes with."""
        return (self.top_logprobs or 0) if self.logprobs else None
