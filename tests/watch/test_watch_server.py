"""Who may ask the server, and for what: this machine, with the token, the page and the news, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.watch.conftest import WriteRun, started

from fedtrip.errors import UserError
from fedtrip.watch import server as server_module
from fedtrip.watch.server import WatchServer
from fedtrip.watch.watched import Watched


@pytest.fixture
def server(tmp_path: Path, write_run: WriteRun) -> Iterator[WatchServer]:
    write_run(tmp_path / "runs/one", [0.1, 0.2])
    (tmp_path / "runs/secret.txt").write_text("secret")
    with WatchServer(Watched([tmp_path / "runs"])) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(
    server: WatchServer, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def test_with_the_token_there_are_the_page_and_the_news(server: WatchServer) -> None:
    status, headers, page = ask(server, f"/{server.token}/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"fedtrip watch" in page
    status, headers, content = ask(server, f"/{server.token}/news?since=0")
    assert (status, headers["content-type"]) == (200, "application/json")
    news = json.loads(content)
    assert news["runs"][0]["scores"] == [0.1, 0.2]
    assert json.loads(ask(server, f"/{server.token}/news?since={news['tick']}")[2])["runs"] == []


def test_the_token_is_long_and_new_each_time(tmp_path: Path) -> None:
    servers = [WatchServer(Watched([tmp_path])) for _ in range(2)]
    tokens = {server.token for server in servers}
    for server in servers:
        server.server_close()
    assert len(tokens) == 2
    assert all(len(base64.urlsafe_b64decode(token)) == 24 for token in tokens)


@pytest.mark.parametrize(
    "path",
    ["/", "/news?since=0", "/{wrong}/", "/{wrong}/news?since=0", "/{token}", "/{token}x/", "/x{token}/", "/{start}/",
     "/./{token}/", "/%2e/{token}/", "/?{token}", "/#{token}/", "/é/", "/favicon.ico", "*", "http://[/"],
)  # fmt: skip
def test_without_the_token_nothing_is_told(server: WatchServer, path: str) -> None:
    told = path.format(token=server.token, wrong="A" * len(server.token), start=server.token[:-1])
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(f"GET {told} HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403"), head
    assert content == b"403 Forbidden\n"
    assert server.token.encode() not in answer.replace(told.encode(), b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "", "[::1]:{port}"]
)
def test_a_name_that_only_leads_here_is_refused(server: WatchServer, host: str) -> None:
    told = host.format(port=server.server_port)
    assert ask(server, f"/{server.token}/", Host=told)[0] == 403
    assert ask(server, f"/{server.token}/", method="POST", Host=told)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "localhost:9999"])
def test_a_name_of_this_machine_is_accepted_and_so_is_a_tunnel(server: WatchServer, host: str) -> None:
    assert ask(server, f"/{server.token}/news?since=0", Host=host.format(port=server.server_port))[0] == 200


def test_it_listens_on_this_machine_only(server: WatchServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address.startswith(f"http://127.0.0.1:{server.server_port}/")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_get(server: WatchServer, tmp_path: Path, method: str, listing) -> None:
    before = listing(tmp_path)
    status, headers, content = ask(server, f"/{server.token}/", method, body=b"x" * 100)
    assert (status, headers["allow"], content) == (405, "GET", b"405 Method Not Allowed\n")
    assert ask(server, "/", method, body=b"x")[0] == 403
    assert listing(tmp_path) == before


def test_head_and_unknown_methods(server: WatchServer) -> None:
    assert ask(server, f"/{server.token}/", "HEAD")[0] == 405
    assert ask(server, "/", "HEAD")[0] == 403
    status, headers, content = ask(server, f"/{server.token}/", "PROPFIND")
    assert (status, content) == (501, b"501 Not Implemented\n")
    assert "content-security-policy" in headers


@pytest.mark.parametrize(
    "path",
    ["secret.txt", "one/metrics.jsonl", "../secret.txt", "../../etc/passwd", "%2e%2e/secret.txt", "..%2fsecret.txt",
     "/etc/passwd", "news/", "news/../secret.txt", "\x00", "runs", "index.html", "report.js"],
)  # fmt: skip
def test_no_path_is_looked_at(server: WatchServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(server, f"/{server.token}/")[0] == 200  # so that all files of the page have been read

    def no_file(*arguments: object, **_: object) -> None:
        raise AssertionError(f"{arguments[0]} was opened")

    monkeypatch.setattr("builtins.open", no_file)
    monkeypatch.setattr(os, "open", no_file)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(f"GET /{server.token}/{path} HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404"), answer[:200]
    assert b"secret" not in answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("query", ["", "since=", "since=-1", "since=x", "since=1e3", "since=٣", "since=0&x=1", "x=0",
                                   "since=" + "9" * 5000, "since=%30"])  # fmt: skip
def test_a_question_that_is_none_is_refused(server: WatchServer, query: str) -> None:
    from urllib.parse import quote

    assert ask(server, f"/{server.token}/news?{quote(query, safe='=&%')}")[0] == 400


def test_a_tick_that_never_was_gets_everything(server: WatchServer) -> None:
    news = json.loads(ask(server, f"/{server.token}/news?since={10**14}")[2])
    assert news["runs"][0]["from"] == 0
    assert len(news["parts"]) == 1


def test_headers_that_keep_the_page_to_itself(server: WatchServer) -> None:
    for path in (f"/{server.token}/", f"/{server.token}/news?since=0", "/", f"/{server.token}/none"):
        headers = ask(server, path)[1]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert headers["server"].strip() == "fedtrip", "which version of what is nobody's business"
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["connect-src"] == "'self'"
        assert "unsafe" not in policy["script-src"]


def test_the_policy_has_the_digests_of_the_pages_two_scripts(server: WatchServer) -> None:
    _, headers, page = ask(server, f"/{server.token}/")
    script = page.decode().rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in headers["content-security-policy"]
    outside = re.sub(r"<script.*?</script>", "", page.decode(), flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", outside) == ["data:,"]


def test_secrets_are_compared_in_constant_time(server: WatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    honest = server_module.hmac.compare_digest
    monkeypatch.setattr(server_module.hmac, "compare_digest", lambda a, b: compared.append(b) or honest(a, b))
    ask(server, f"/{server.token}/")
    assert server.token.encode() in compared


def test_the_address_for_a_browser_leads_there_once(server: WatchServer) -> None:
    path = "/" + server.address_once.rpartition("/")[2]
    assert server.token not in path
    status, headers, _ = ask(server, path)
    assert (status, headers["location"]) == (303, f"/{server.token}/")
    assert ask(server, path)[0] == 403
    assert ask(server, "/")[0] == 403, "an empty ticket is none"


def test_a_browser_that_goes_away_is_no_error(server: WatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.server_port)) as line:
            line.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: localhost:1\r\n\r\n".encode())
    assert ask(server, f"/{server.token}/news?since=0")[0] == 200
    assert capsys.readouterr().err == ""


def test_a_port_that_is_taken_is_told(server: WatchServer, tmp_path: Path) -> None:
    for port in (server.server_port, -1, 70000):
        with pytest.raises(UserError, match=f"--port {port} cannot be used: .*; accepted: a free one"):
            WatchServer(Watched([tmp_path]), port)


# ---- the command


@pytest.mark.usefixtures("here")
def test_without_a_folder_it_says_what_it_wants(fedtrip) -> None:
    ended = fedtrip("watch")
    assert ended.code == 2
    assert ended.err.startswith("error: 'runs' is not a folder; accepted: ")


def test_open_shows_the_page_by_the_address_that_works_once(fedtrip, here, monkeypatch) -> None:
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(WatchServer, "serve_forever", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    ended = fedtrip("watch", here, "--open")
    assert (ended.code, ended.err) == (0, "no longer watching\n")
    (address,) = opened
    printed = re.search(r"watching at (http://127\.0\.0\.1:\d+/\S+/)", ended.out)[1]
    assert address.rpartition("/")[0] == printed.rstrip("/").rpartition("/")[0]
    assert address.rpartition("/")[2] not in printed


def test_ctrl_c_ends_it_in_one_line(tmp_path: Path) -> None:
    with started("watch", tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        connection = http.client.HTTPConnection("127.0.0.1", int(address.split(":")[2].partition("/")[0]), timeout=30)
        connection.request("GET", "/" + address.split("/", 3)[3] + "news?since=0")
        assert connection.getresponse().status == 200  # and the connection stays open, as a browser's does
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "no longer watching\n")
        assert process.returncode == 0
        connection.close()
