"""A real server on this machine that misbehaves as told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Answer:
    """How one request is answered: `status` alone, or the content, broken off after `cut` bytes of the body."""

    status: int | None = None
    cut: int | None = None
    heed_range: bool = True
    state_length: bool = True
    shift_range: int = 0
    content: bytes | None = None
    stay_silent: float = 0  # seconds before the connection is closed


@dataclass
class Server:
    """Serves `content` by path; the first answers are `script`'s (fields of Answer), the later ones proper."""

    address: str
    content: dict[str, bytes] = field(default_factory=dict)
    script: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requests.append((self.path, wanted))
            answer = Answer(**state.script.pop(0)) if state.script else Answer()
            content = state.content.get(self.path) if answer.content is None else answer.content
            if answer.status is not None or content is None:
                self.send_error(answer.status or 404)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and answer.heed_range else 0
            if start >= len(content):
                self.send_error(416)
                return
            body = content[start:]
            self.send_response(206 if start else 200)
            if start:
                first = start + answer.shift_range
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            if answer.state_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: answer.cut])
            time.sleep(answer.stay_silent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{running.server_port}")
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    running.shutdown()
    running.server_close()
    thread.join()
