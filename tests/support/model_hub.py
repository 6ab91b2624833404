"""A model hub of one repository on this machine: the few HTTP calls that a snapshot takes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = "org/tiny"
COMMIT = "c" * 40
REFUSED = {"org/gated": (403, "GatedRepo"), "org/absent": (404, "RepoNotFound")}

Answer = tuple[int, bytes, dict[str, str]]


class Hub(ThreadingHTTPServer):
    """Serves the files of `folder` as the repository org/tiny, revision main."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder

    def answer(self, path: str) -> Answer:
        """Return status, body and headers of a request."""
        for repository, (status, code) in REFUSED.items():
            if repository in path:
                return status, b"{}", {"X-Error-Code": code}
        if path.startswith(f"api/models/{REPOSITORY}"):
            return self.describe(path)
        file = self.folder / path.rpartition("/")[2]
        if not path.startswith(f"{REPOSITORY}/resolve/") or not file.is_file():
            return 404, b"{}", {"X-Error-Code": "EntryNotFound"}
        content = file.read_bytes()
        etag = hashlib.sha1(content).hexdigest()
        return 200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}

    def describe(self, path: str) -> Answer:
        """Return what the hub's API says of the repository, or of its files."""
        if "/revision/" in path and not path.endswith(("/main", COMMIT)):
            return 404, b"{}", {"X-Error-Code": "RevisionNotFound"}
        files = [file for file in sorted(self.folder.iterdir()) if file.is_file()]
        if "/tree/" in path:
            tree = [
                {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0" * 40}
                for f in files
            ]
            return 200, json.dumps(tree).encode(), {}
        siblings = [{"rfilename": file.name} for file in files]
        body = {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings, "private": False}
        return 200, json.dumps(body).encode(), {}


class Handler(BaseHTTPRequestHandler):
    """Writes the hub's answers; HEAD leaves the body out."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Keep the test's output free of requests."""

    def do_GET(self) -> None:
        status, body, headers = self.server.answer(self.path.split("?")[0].strip("/"))
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


@contextmanager
def model_hub(folder: Path) -> Iterator[str]:
    """Run a hub with `folder` as its repository; yield the endpoint."""
    with Hub(folder) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{hub.server_address[1]}"
        hub.shutdown()
