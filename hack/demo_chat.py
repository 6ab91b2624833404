"""Ask the demo's service one question over the OpenAI protocol, as any client would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import demo_objects as objects
from demo_errors import DemoFailed
from kube import Kube

QUESTION = "What is the capital of France?"
ANSWER_TIMEOUT_S = 120
SERVICE_PORT = 8000
PATH = "/v1/chat/completions"


def request_body(model: str) -> dict[str, Any]:
    """Return the chat completion request; at temperature 0 the answer is always the same."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": 64,
    }


def ask(kube: Kube, model: str) -> str:
    """Return the service's answer, reached through the API server."""
    with kube.forwarded(objects.NAMESPACE, f"service/{model}", SERVICE_PORT) as port:
        reply = _post(f"http://127.0.0.1:{port}{PATH}", request_body(model))
    try:
        return str(reply["choices"][0]["message"]["content"]).strip()
    except (LookupError, TypeError) as error:
        raise DemoFailed(f"this is no chat completion: {json.dumps(reply)}") from error


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    # Never through a proxy that the user may have set: the port is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ANSWER_TIMEOUT_S) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise DemoFailed(f"the service answered {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        raise DemoFailed(f"the service did not answer: {error}") from error
