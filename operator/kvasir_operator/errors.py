"""The operator's errors, one tree.

KvasirError
├── SettingsError      the command line or environment is wrong: exit 2 with the sentence
├── InvalidSpec        a stored object this version cannot read: said in status, no retry
├── NameTaken          a child's name belongs to somebody else: said in status, retried slowly
├── Waiting            something has to go away first (an old child): retried soon
└── ApiError           the API server refused a request: said in status, retried with backoff

Each message is a sentence for the user. They are translated once, in `reconcile`, to a status
reason or a delay.
"""

from __future__ import annotations


class KvasirError(Exception):
    """Root of everything the operator raises on purpose."""


class SettingsError(KvasirError):
    """The operator was started with settings that cannot work."""


class InvalidSpec(KvasirError):
    """An InferenceService's spec is not one this version of the operator can read."""


class NameTaken(KvasirError):
    """A child's name is used by an object that is not the InferenceService's."""


class Waiting(KvasirError):
    """Nothing is wrong: another object has to disappear before work can go on."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ApiError(KvasirError):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
