"""A model's tokenizer: text and chats become token ids, single tokens become text again.

Enters: a model folder. Leaves: a `Tokenizer` around the Hugging Face one. Where the folder holds a
`tokenizer.json` it is read without importing torch, so that a server that only encodes starts
quickly. Nothing here is cut or padded: whether a prompt fits is the engine's decision.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvasir_runtime.errors import InvalidConfigError, InvalidParamsError, ModelNotFoundError

TEMPLATE_ARGUMENTS = frozenset(
    {"conversations", "conversation", "messages", "tools", "documents", "chat_template"}
    | {"add_generation_prompt", "continue_final_message", "return_assistant_tokens_mask"}
    | {"tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict"}
    | {"sanitize_control_tokens", "tokenizer_kwargs"}
)

Message = Mapping[str, Any]


class Tokenizer:
    """Encodes prompts and chats, and names single tokens.

    `hf` is the wrapped `transformers` tokenizer and `backend_tokenizer` its `tokenizers.Tokenizer`,
    which the engine decodes with. All methods may be called from several threads.
    """

    def __init__(self, hf: Any, chat_template: str | None = None) -> None:
        """Wrap a fast tokenizer; `chat_template` replaces the model's own."""
        self.hf = hf
        self.backend_tokenizer = hf.backend_tokenizer
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        self._chat_template = chat_template
        self._pieces = _piece_reader(self.backend_tokenizer)
        self.token_bytes = functools.lru_cache(maxsize=65536)(self._token_bytes)

    @property
    def vocab_size(self) -> int:
        """How many token ids there are, added tokens included."""
        return len(self.hf)

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a sequence, where the tokenizer knows one."""
        return None if self.hf.eos_token_id is None else int(self.hf.eos_token_id)

    @property
    def all_special_ids(self) -> list[int]:
        """The ids that `skip_special_tokens` leaves out of the text."""
        return [int(token_id) for token_id in self.hf.all_special_ids]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of `text`; long texts leave the interpreter free meanwhile."""
        return list(self._encode(text, add_special_tokens).ids)

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return len(self._encode(text, False))

    def _encode(self, text: str, add_special_tokens: bool) -> Any:
        batch = self.backend_tokenizer.encode_batch_fast(
            [text], add_special_tokens=add_special_tokens
        )
        return batch[0]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `token_ids`."""
        text = self.backend_tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special_tokens
        )
        return str(text)

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt that `messages` make; InvalidParamsError where the template refuses."""
        if not (self._chat_template or self.hf.chat_template):
            raise InvalidParamsError(
                "this model has no chat template",
                "use /v1/completions, or start the server with --chat-template",
                "messages",
            )
        extra = dict(template_kwargs or {})
        if clash := sorted(TEMPLATE_ARGUMENTS & extra.keys()):
            raise InvalidParamsError(
                f"chat_template_kwargs holds {clash[0]}",
                "that is not a variable of the template",
                "chat_template_kwargs",
            )
        try:
            text = self.hf.apply_chat_template(
                list(messages), tokenize=False, chat_template=self._chat_template,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message, **extra,
            )  # fmt: skip
        except Exception as error:  # a template is a program: it may raise anything
            raise InvalidParamsError(
                f"the model's chat template refused the messages ({_first_line(error)})",
                "check the roles and their order",
                "messages",
            ) from error
        return str(text)

    def token_text(self, token_id: int) -> str:
        """Return one token as text; bytes that are no whole character become U+FFFD."""
        return self.token_bytes(token_id).decode("utf-8", errors="replace")

    def _token_bytes(self, token_id: int) -> bytes:
        piece = self.backend_tokenizer.id_to_token(token_id)
        if piece is None:
            return b""
        added = self.backend_tokenizer.get_added_tokens_decoder()
        return piece.encode() if token_id in added else self._pieces(piece)


def load_tokenizer(
    path: str | Path,
    revision: str | None = None,
    trust_remote_code: bool = False,
    chat_template: str | None = None,
) -> Tokenizer:
    """Load the tokenizer in folder `path` (or of that repository, where it is no folder).

    `chat_template` is a Jinja file's path or the template's text. Raises ModelNotFoundError where
    there is no tokenizer, InvalidConfigError where its files or the template are unreadable.
    """
    template = read_chat_template(chat_template)
    folder = Path(path)
    if folder.is_dir() and not _tokenizer_files(folder):
        raise _no_tokenizer(folder)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        hf = _tokenizer_class(folder).from_pretrained(str(path), **options)
    except Exception as error:  # unreadable files surface as whatever their reader raises
        raise _load_error(folder, error) from error
    if getattr(hf, "backend_tokenizer", None) is None:
        raise InvalidConfigError(
            f"the tokenizer in {path} is {type(hf).__name__}, which has no fast version",
            "save it as tokenizer.json with transformers' convert_slow_tokenizer",
        )
    tokenizer = Tokenizer(hf, template)
    _check_template(tokenizer)
    return tokenizer


def read_chat_template(template: str | None) -> str | None:
    """Return the template's text: `template` itself where it holds Jinja, else that file's."""
    if template is None or "{%" in template or "{{" in template:
        return template
    try:
        return Path(template).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(
            f"--chat-template is {template}, which can't be read ({error})",
            "give a Jinja file, or the template's text",
        ) from error


def _tokenizer_class(folder: Path) -> Any:
    """Return the class that loads `folder`, without torch where the folder allows it."""
    if (folder / "tokenizer.json").is_file() and not _has_own_code(folder):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast
    from transformers import AutoTokenizer

    return AutoTokenizer


def _has_own_code(folder: Path) -> bool:
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "auto_map" in config


def _tokenizer_files(folder: Path) -> list[Path]:
    """Return what may be a tokenizer's file: every family has a name of its own for it."""
    patterns = ("token*", "vocab*", "spiece*", "*.model", "*.tiktoken", "tekken*")
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _load_error(folder: Path, error: Exception) -> ModelNotFoundError | InvalidConfigError:
    if not folder.is_dir():
        return _no_tokenizer(folder)
    return InvalidConfigError(
        f"the tokenizer in {folder} can't be loaded ({_first_line(error)})",
        "copy the model's tokenizer files again",
    )


def _no_tokenizer(folder: Path) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"there is no tokenizer in {folder}",
        "the model folder needs tokenizer.json, or name another folder with --tokenizer",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _check_template(tokenizer: Tokenizer) -> None:
    """Refuse a template that is no Jinja now, rather than at each request."""
    from jinja2 import TemplateSyntaxError

    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}])
    except InvalidParamsError as error:
        cause = error.__cause__
        if not isinstance(cause, TemplateSyntaxError):
            return  # there is none, or it wants other messages
        raise InvalidConfigError(
            f"the chat template is no valid Jinja (line {cause.lineno}: {cause.message})",
            "correct it, or give another with --chat-template",
        ) from cause


def _piece_reader(backend: Any) -> Callable[[str], bytes]:
    """Return how a vocabulary entry is read as bytes: byte-level, or with `▁` for a space."""
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    steps = [decoder, *decoder.get("decoders", ())]
    if any(step.get("type") == "ByteLevel" for step in steps):
        return functools.partial(_byte_level_bytes, _byte_level_alphabet())
    return _plain_bytes


def _byte_level_bytes(alphabet: Mapping[str, int], piece: str) -> bytes:
    if all(character in alphabet for character in piece):
        return bytes(alphabet[character] for character in piece)
    return piece.encode()


def _plain_bytes(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode()


def _byte_level_alphabet() -> dict[str, int]:
    """Return the byte each letter of a byte-level vocabulary stands for.

    Printable bytes stand for themselves; the others, in order, take the letters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + offset): byte for offset, byte in enumerate(others)}
