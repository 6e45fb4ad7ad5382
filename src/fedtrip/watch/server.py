"""The server behind the page: on this machine only, for whoever knows the token, and nothing can be changed by it.

There are two things to ask for, the page and the news, and no other path is looked at: what a request says never
reaches the file system.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fedtrip.errors import UserError
from fedtrip.watch.page import page_and_policy
from fedtrip.watch.watched import Watched

LOOPBACK = "127.0.0.1"
MOST_DIGITS = 15
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class WatchServer(ThreadingHTTPServer):
    """Answers at `address` until it is shut down."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, watched: Watched, port: int = 0) -> None:
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as problem:
            told = problem.strerror if isinstance(problem, OSError) else problem
            raise UserError(f"--port {port} cannot be used: {told}; accepted: a free one, or 0 for any") from None
        self.watched = watched
        self.token = secrets.token_urlsafe(24)
        self.page, self.policy = page_and_policy()
        self._ticket = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """What one opens in a browser."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def address_once(self) -> str:
        """Leads to `address`, one time only: others on this machine may see what a browser is started with."""
        return f"http://{LOOPBACK}:{self.server_port}/{self._ticket}"

    def use_ticket(self, path: str) -> bool:
        """Whether this is the path of `address_once`, which it is once."""
        if not self._ticket or not _same(path, f"/{self._ticket}"):
            return False
        self._ticket = ""
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error; any other is one line, not the end."""
        del request, client_address
        problem = sys.exc_info()[1]
        if not isinstance(problem, (ConnectionError, TimeoutError)):
            print(f"a request failed: {type(problem).__name__}: {problem}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fedtrip", ""
    timeout = 30  # seconds that a connection may be idle

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not self._is_from_here():
            self._refuse(403)
        elif self.server.use_ticket(path):
            self._answer(303, b"", "text/plain", {"Location": f"/{self.server.token}/"})
        elif (asked := self._below_token(path)) is None:
            self._refuse(403)
        elif asked == "":
            self._answer(200, self.server.page, "text/html; charset=utf-8")
        elif asked == "news":
            self._tell_news(query)
        else:
            self._refuse(404)

    def _tell_news(self, query: str) -> None:
        name, _, since = query.partition("=")
        if name != "since" or not (since.isascii() and since.isdigit()) or len(since) > MOST_DIGITS:
            self._refuse(400)
            return
        news = json.dumps(self.server.watched.news(int(since)), allow_nan=False, separators=(",", ":"))
        self._answer(200, news.encode("ascii"), "application/json")

    def _refuse_method(self) -> None:
        """Nothing can be changed, so nothing but GET is understood; who lacks the token does not even learn that."""
        self.close_connection = True  # what the request may bring along is not read
        if self._is_from_here() and self._below_token(self.path) is not None:
            self._refuse(405, {"Allow": "GET"})
        else:
            self._refuse(403)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _is_from_here(self) -> bool:
        """Whether the browser means this machine by the name it used, and not some name that leads here."""
        return self.headers.get("Host", "").rpartition(":")[0] in (LOOPBACK, "localhost")  # a tunnel has its own port

    def _below_token(self, path: str) -> str | None:
        """What follows `/TOKEN/`; None if that is not what the path begins with."""
        token, slash, rest = path.removeprefix("/").partition("/")
        return rest if _same(token, self.server.token) and slash and path.startswith("/") else None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, such as a line that is too long."""
        del message, explain
        self.close_connection = True
        self._refuse(code)

    def _refuse(self, code: int, headers: dict[str, str] | None = None) -> None:
        told = f"{int(code)} {self.responses[HTTPStatus(code)][0]}\n"
        self._answer(code, told.encode("ascii"), "text/plain; charset=utf-8", headers)

    def _answer(self, code: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        sent = {"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": self.server.policy}
        for name, value in {**sent, **HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: a page asks every second."""


def _same(text: str, secret: str) -> bool:
    """Whether it is the secret, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), secret.encode())
