"""Every error the runtime raises on purpose, with the sentence a user can act on.

    KvasirError
    ├── StartupError              the process ends; the cause goes into the termination message
    │   ├── ModelNotFoundError         no such folder or repository
    │   ├── DownloadFailedError        the hub answered, but not with the model
    │   ├── UnsupportedArchitectureError
    │   ├── UnsupportedFeatureError    known to the field, not run by this version
    │   ├── CorruptWeightsError        a file that is truncated, or tensors that don't match
    │   ├── InvalidConfigError         flags or config.json that contradict each other
    │   ├── MissingExtraError          an optional dependency that isn't installed
    │   ├── OutOfMemoryError           the weights or the profile run don't fit the device
    │   └── KVCacheTooSmallError       not one sequence of max_model_len fits
    ├── EngineError               the engine stopped while serving
    │   ├── EngineDiedError
    │   └── EngineHungError
    ├── AnswerError               a benchmark's request failed: counted by its kind
    └── RequestError (ValueError) one request is wrong; nothing else is disturbed
        ├── InvalidParamsError
        └── PromptTooLongError

`reason` is a CamelCase word for machines, `message` says what is wrong with the numbers,
`hint` says what to do. The HTTP door turns a RequestError into OpenAI's error JSON; the process
door turns the others into the pod's termination message.
"""

from __future__ import annotations

from typing import ClassVar


class KvasirError(Exception):
    """Base of all: a message, a hint and a machine-readable reason."""

    reason: ClassVar[str] = "Error"

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep `message` (what is wrong, with numbers) and `hint` (what to do)."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message and the hint as one line."""
        return f"{self.message}: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[KvasirError], tuple[str, str]]:
        """Cross process borders whole; the default pickling would lose the hint."""
        return type(self), (self.message, self.hint)


class StartupError(KvasirError):
    """The process can't begin to serve."""

    reason = "StartupFailed"


class ModelNotFoundError(StartupError):
    """There is no such model folder or repository."""

    reason = "ModelNotFound"


class DownloadFailedError(StartupError):
    """The model hub could not be reached, or refused."""

    reason = "DownloadFailed"


class UnsupportedArchitectureError(StartupError):
    """config.json names an architecture that no model class here runs."""

    reason = "UnsupportedArchitecture"


class UnsupportedFeatureError(StartupError):
    """A feature the field knows and this version doesn't run."""

    reason = "UnsupportedFeature"


class CorruptWeightsError(StartupError):
    """A weight file is unreadable, or its tensors are not those the architecture needs."""

    reason = "CorruptWeights"


class InvalidConfigError(StartupError):
    """Flags, or the checkpoint's config.json, are wrong or contradict each other."""

    reason = "InvalidConfig"


class MissingExtraError(StartupError):
    """What was asked for needs a package that only an optional extra installs."""

    reason = "MissingExtra"


class OutOfMemoryError(StartupError):
    """The weights or the first forward pass don't fit the device."""

    reason = "OutOfMemory"


class KVCacheTooSmallError(StartupError):
    """The memory left for the KV cache holds less than one sequence of max_model_len."""

    reason = "KVCacheTooSmall"


class EngineError(KvasirError):
    """The engine stopped while requests were being served."""

    reason = "EngineFailed"


class EngineDiedError(EngineError):
    """The engine process ended without being asked to."""

    reason = "EngineDied"


class EngineHungError(EngineError):
    """A step has run past its bound."""

    reason = "EngineHung"


class AnswerError(KvasirError):
    """One request of a benchmark failed; `kind` names how, as in "HTTP 429"."""

    reason = "AnswerFailed"

    def __init__(self, message: str, hint: str = "", kind: str = "AnswerFailed") -> None:
        """Keep the kind beside the message: errors are counted by it."""
        super().__init__(message, hint)
        self.kind = kind


class RequestError(KvasirError, ValueError):
    """One request can't be served as it is; all others go on."""

    reason = "InvalidRequest"


class InvalidParamsError(RequestError):
    """A sampling parameter is out of its range; `param` names it."""

    def __init__(self, message: str, hint: str = "", param: str | None = None) -> None:
        """Keep the name of the offending field beside the message."""
        super().__init__(message, hint)
        self.param = param


class PromptTooLongError(RequestError):
    """Prompt plus requested output don't fit the model's length."""

    reason = "PromptTooLong"
