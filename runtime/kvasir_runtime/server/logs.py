"""Sets up logging once for the process: readable text, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
QUIET = ("httpx", "httpcore", "urllib3", "filelock", "asyncio", "transformers")


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"time", "level", "logger", "message"}`, plus a traceback if any.

    A record with `extra={"fields": …}` carries these too; what its message shows them as, below the
    first line, is left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        if fields is not None:
            line |= {"message": record.getMessage().partition("\n")[0], **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logging(level: str, style: Literal["text", "json"]) -> None:
    """Send every logger's lines to standard error, replacing earlier handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
