"""The demo's question goes over the OpenAI protocol, and what is no answer is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import demo_chat
from demo_errors import DemoFailed
from kube import Kube

PORT_FORWARD = """#!/bin/sh
echo "Forwarding from 127.0.0.1:{port} -> 8000"
exec sleep 60
"""
COMPLETION = {"choices": [{"message": {"role": "assistant", "content": " Paris. "}}]}


@contextmanager
def serving(code: int, reply: object) -> Iterator[tuple[int, list[dict[str, object]]]]:
    """Serve one reply to every request; give the port and the list of what was asked."""
    asked: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append({"path": self.path, **json.loads(body)})
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def kube_to(port: int, folder: Path) -> Kube:
    """Return a kubectl whose port-forward leads to a port of this machine."""
    program = folder / "kubectl"
    program.write_text(PORT_FORWARD.format(port=port))
    program.chmod(0o755)
    return Kube(str(program), "helm", [], [])


def test_the_answer_is_the_assistants_message(tmp_path: Path) -> None:
    with serving(200, COMPLETION) as (port, asked):
        assert demo_chat.ask(kube_to(port, tmp_path), "smollm2") == "Paris."
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["model"] == "smollm2"
    assert asked[0]["temperature"] == 0
    assert asked[0]["messages"] == [{"role": "user", "content": demo_chat.QUESTION}]


def test_an_error_of_the_service_is_told_as_it_is(tmp_path: Path) -> None:
    with serving(503, {"error": "loading"}) as (port, _asked):
        kube = kube_to(port, tmp_path)
        with pytest.raises(DemoFailed, match=r"503.*loading"):
            demo_chat.ask(kube, "smollm2")


def test_a_reply_that_is_no_completion_is_told(tmp_path: Path) -> None:
    with serving(200, {"choices": []}) as (port, _asked):
        kube = kube_to(port, tmp_path)
        with pytest.raises(DemoFailed, match="no chat completion"):
            demo_chat.ask(kube, "smollm2")


def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with serving(200, COMPLETION) as (port, _asked):
        pass
    with pytest.raises(DemoFailed, match="did not answer"):
        demo_chat.ask(kube_to(port, tmp_path), "smollm2")
