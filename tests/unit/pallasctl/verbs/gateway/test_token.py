"""The verb `token`: what it asks of which gateway, with which token, and what it prints."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from fakes.control_server import run, status
from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_common.secrets.tokens import new_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.control_server import FakeControl

OPERATOR, OTHER, MADE = (new_token("human") for _ in range(3))
TOKEN = {
    "id": "tok_1",
    "name": "laptop",
    "role": "human",
    "agent": None,
    "tenant": "default",
    "grants": ["view:agents", "run:agents:jarvis"],
    "created": "2026-01-31T12:00:00Z",
    "created_by": "tok_0",
    "expires": None,
    "revoked": None,
    "last_used": None,
    "rotated_from": None,
}


class FakeGateway:
    """Answers every request as it is told; `asked` has method, path, bearer token and body of each."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[tuple[str, str, str | None, Any]] = []
        self.status = 200
        self.document: Any = TOKEN | {"token": MADE}
        self.others: dict[int, Any] = {}
        """Answers, by their status, to all that is not GET."""


@contextmanager
def gateway_server() -> Iterator[FakeGateway]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            fake.asked.append((self.command, self.path, bearer, json.loads(body) if body else None))
            status, document = fake.status, fake.document
            if self.command != "GET" and fake.others:
                ((status, document),) = fake.others.items()
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(document if isinstance(document, bytes) else json.dumps(document).encode())

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeGateway(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def gateway(fake: FakeControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGateway]:
    for name in ("PALLAS_TOKEN", "PALLAS_GATEWAY_URL"):
        monkeypatch.delenv(name, raising=False)
    with gateway_server() as found:
        document = status()
        document["supervisor"]["state_directory"] = str(tmp_path)
        document["gateway"] = {"url": found.url, "public_url": "https://agents.example.com"}
        fake.answer("/v1/status", document)
        (tmp_path / OPERATOR_FILE).write_text(f"{OPERATOR}\n")
        yield found


def test_a_token_is_made_and_printed_once(fake: FakeControl, gateway: FakeGateway) -> None:
    done = fake.run(
        "token", "create", "laptop", "--role", "human", "--grant", "*", "--expires", "30d", "--tenant", "t"
    )
    assert done.exit_code == 0, done.output
    body = {"name": "laptop", "role": "human", "grants": ["*"], "expires": "30d", "tenant": "t"}
    assert gateway.asked == [("POST", "/api/v1/tokens", OPERATOR, body)]
    assert done.stdout == f"{MADE}\n"
    assert "not shown again" in done.stderr
    assert (
        "tok_1: token of 'laptop' (human), never expires; grants: view:agents, run:agents:jarvis"
        in done.stderr
    )
    assert OPERATOR not in done.output


def test_as_json_it_has_what_programs_rely_on(fake: FakeControl, gateway: FakeGateway) -> None:
    gateway.document = TOKEN | {"token": MADE, "role": "agent", "agent": "jarvis"}
    done = fake.run("token", "create", "x", "--role", "agent", "--agent", "jarvis", "-o", "json")
    assert json.loads(done.stdout) == {
        "id": "tok_1",
        "token": MADE,
        "role": "agent",
        "agent": "jarvis",
        "tenant": "default",
        "grants": ["view:agents", "run:agents:jarvis"],
        "expires": None,
    }
    assert gateway.asked[0][3] == {"name": "x", "role": "agent", "agent": "jarvis", "grants": []}


def test_they_are_listed(fake: FakeControl, gateway: FakeGateway) -> None:
    others = [
        TOKEN | {"id": "tok_2", "name": "a\x1b[31mb", "expires": "2001-01-01T00:00:00Z"},
        TOKEN | {"id": "tok_3", "revoked": "2026-01-31T12:00:00Z", "last_used": "2026-01-31T12:00:00Z"},
    ]
    gateway.document = {"tokens": [TOKEN, *others], "malformed": ["tok_4"]}
    done = fake.run("token", "list", "--all")
    assert gateway.asked == [("GET", "/api/v1/tokens?all=true", OPERATOR, None)]
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["ID", "NAME", "ROLE", "AGENT", "EXPIRES", "LAST", "USED", "GRANTS"]
    assert [row.split()[0] for row in rows] == ["tok_1", "tok_2", "tok_3"]
    assert [word for row in rows for word in row.split() if word in ("never", "expired", "revoked")] == [
        "never",
        "expired",
        "revoked",
    ]
    assert "\x1b" not in done.output
    assert "tok_4" in done.stderr
    assert json.loads(fake.run("token", "list", "-o", "json").stdout) == gateway.document


def test_they_are_revoked_and_rotated(fake: FakeControl, gateway: FakeGateway) -> None:
    gateway.document = TOKEN | {"token": MADE, "old_expires": "2030-01-31T12:00:00Z"}
    rotated = fake.run("token", "rotate", "tok_1", "--grace", "1h")
    assert rotated.stdout == f"{MADE}\n"
    assert "The old one, tok_1, counts until 2030-01-31T12:00:00Z." in rotated.stderr
    gateway.document = {"id": "tok/1", "revoked": True}
    assert "revoked tok/1" in fake.run("token", "revoke", "tok/1").stdout
    assert fake.run("token", "revoke", "tok_2", "--force").exit_code == 0
    assert gateway.asked == [
        ("POST", "/api/v1/tokens/tok_1/rotate", OPERATOR, {"grace": "1h"}),
        ("DELETE", "/api/v1/tokens/tok%2F1", OPERATOR, None),
        ("DELETE", "/api/v1/tokens/tok_2?force=true", OPERATOR, None),
    ]


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_a_name_in_place_of_an_id_is_told_with_its_ids(
    fake: FakeControl, gateway: FakeGateway, verb: str
) -> None:
    gateway.others[404] = {
        "error": {"type": "not_found", "message": "there is no token 'laptop' that counts"}
    }
    gateway.document = {"tokens": [TOKEN, TOKEN | {"id": "tok_9"}, TOKEN | {"id": "tok_5", "name": "x"}]}
    done = fake.run("token", verb, "laptop")
    assert done.exit_code == 1
    assert "'laptop' is a name, and an id is wanted: tok_1, tok_9" in done.stderr
    assert "that counts" in fake.run("token", verb, "nobody").stderr


@pytest.mark.parametrize(
    ("field", "option"), [("grants", "--grant"), ("agent", "--agent"), ("name", "NAME"), ("", "fields")]
)
def test_what_is_wrong_with_a_field_is_said_of_its_option(
    fake: FakeControl, gateway: FakeGateway, field: str, option: str
) -> None:
    message = f"{field or 'fields'}: is wrong"
    gateway.status, gateway.document = 422, {"error": {"type": "invalid", "message": message, "field": field}}
    assert f"pallasctl: {option}: is wrong\n" in fake.run("token", "create", "x", "--role", "human").stderr


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_says_where_the_token_comes_from(
    fake: FakeControl, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    gateway.status = code
    gateway.document = {"error": {"type": "insufficient_scope", "message": "this takes the grant *"}}
    assert "`pallasctl gateway restart` makes a new one" in fake.run("token", "list").stderr
    monkeypatch.setenv("PALLAS_TOKEN", OTHER)
    said = fake.run("token", "list").stderr
    assert "the variable PALLAS_TOKEN, which comes before the operator's: `unset PALLAS_TOKEN`" in said
    (tmp_path / "file").write_text(OTHER)
    assert "--token-file" in fake.run("token", "list", "--token-file", str(tmp_path / "file")).stderr


def test_a_token_that_is_named_comes_first(
    fake: FakeControl, gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_TOKEN", OTHER)
    fake.run("token", "list")
    (tmp_path / "file").write_text(f"{MADE}\n")
    fake.run("token", "list", "--token-file", str(tmp_path / "file"))
    assert [asked[2] for asked in gateway.asked] == [OTHER, MADE]


def test_where_the_file_cannot_be_read_the_supervisor_is_asked(
    fake: FakeControl, gateway: FakeGateway, tmp_path: Path
) -> None:
    (tmp_path / OPERATOR_FILE).unlink()
    refused = fake.run("token", "list")
    assert refused.exit_code == 1
    fake.answer("POST /v1/operator-token", {"token": OTHER})
    fake.run("token", "list")
    assert [asked[2] for asked in gateway.asked] == [OTHER]


def test_the_operators_token_goes_to_its_own_gateway_alone(fake: FakeControl, gateway: FakeGateway) -> None:
    with gateway_server() as another:
        done = fake.run("token", "list", "--gateway", another.url)
        assert done.exit_code == 1
        assert "--token-file" in done.stderr
        assert not another.asked
        assert fake.run("token", "revoke", "tok_1", "--gateway", f"{gateway.url}/").exit_code == 0
        assert gateway.asked[0][2] == OPERATOR


def test_another_gateway_needs_no_supervisor(
    gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_GATEWAY_URL", gateway.url)
    monkeypatch.setenv("PALLAS_TOKEN", OTHER)
    assert run("--socket", str(tmp_path / "none"), "token", "revoke", "tok_1").exit_code == 0
    assert gateway.asked[0][2] == OTHER


@pytest.mark.parametrize(
    ("code", "document", "said"),
    [
        (401, {"error": {"type": "invalid_token", "message": "nobody has this token"}}, OPERATOR_FILE),
        (403, {"error": {"type": "insufficient_scope", "message": "this takes the grant *"}}, "the grant *"),
        (422, {"error": {"type": "invalid", "message": "grants: no such verb"}}, "no such verb"),
        (302, b"", "not the gateway"),
        (200, b"[]", "not the gateway"),
        (500, {"error": "broken"}, "broken"),
        (500, {}, "500"),
    ],
)
def test_what_goes_wrong_is_said_and_fails(
    fake: FakeControl, gateway: FakeGateway, code: int, document: Any, said: str
) -> None:
    gateway.status, gateway.document = code, document
    done = fake.run("token", "create", "x", "--role", "human")
    assert done.exit_code == 1
    assert said in done.stderr
    assert OPERATOR not in done.output


def test_without_a_gateway_it_says_how_to_get_one(fake: FakeControl, gateway: FakeGateway) -> None:
    fake.answer("/v1/status", status())
    done = fake.run("token", "list")
    assert done.exit_code == 1
    assert "`gateway: {}`" in done.stderr


@pytest.mark.parametrize("held", ["", "two words", "a\nb", "x" * 9000, "ä"])
def test_what_is_no_token_is_not_sent(
    fake: FakeControl, gateway: FakeGateway, tmp_path: Path, held: str
) -> None:
    (tmp_path / "file").write_text(held)
    done = fake.run("token", "list", "--token-file", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert not gateway.asked
    assert fake.run("token", "list", "--token-file", str(tmp_path)).exit_code == 1
    assert fake.run("token", "list", "--gateway", "ftp://x").exit_code == 1
