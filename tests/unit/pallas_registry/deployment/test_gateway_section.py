"""`gateway:` of agents.yaml: what is said, what follows from the rest of the file, what is refused."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.protocol.gateway import GatewaySettings, Limits, Oidc, Threads
from pallas_gateway.identity.grants import KINDS, VERBS, parse_grant
from pallas_registry.deployment.gateway_section import GRANT
from pallas_registry.source import read_configuration
from support.data.agents_text import parse, problems

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def gateway(*lines: str, head: str = "name: demo") -> GatewaySettings:
    found = parse("\n".join([head, "gateway:", *(f"  {line}" for line in lines)])).gateway
    assert found is not None
    return found


def refused(*lines: str) -> list[str]:
    text = "\n".join(["name: demo", "gateway:", *(f"  {line}" for line in lines)])
    return [str(problem).removeprefix("agents.yaml:") for problem in problems(text)]


def test_without_it_there_is_none() -> None:
    assert parse("name: demo").gateway is None


def test_an_empty_mapping_turns_it_on() -> None:
    assert parse("name: demo\ngateway: {}").gateway == GatewaySettings(
        bind="127.0.0.1", public_url="http://localhost:24199"
    )


@pytest.mark.parametrize(
    ("head", "lines", "bind", "url", "workers"),
    [
        (
            "{name: a, host: x.example.com}",
            (),
            "0.0.0.0",
            "http://x.example.com:24199",
            "behind",
        ),
        ("{name: a, host: '::1'}", ("port: 9000",), "::1", "http://[::1]:9000", "behind"),
        (
            "{name: a, host: x.example.com}",
            ("bind: 127.0.0.1", "public_url: 'https://x/'"),
            "127.0.0.1",
            "https://x",
            "behind",
        ),
        ("{name: a}", ("bind: 192.0.2.7", "workers: open"), "192.0.2.7", "http://192.0.2.7:24199", "open"),
        ("{name: a}", ("bind: 127.0.0.2",), "127.0.0.2", "http://127.0.0.2:24199", "behind"),
        ("{name: a}", ("bind: '::1'",), "::1", "http://[::1]:24199", "behind"),
        ("{name: a}", ("bind: 0.0.0.0",), "0.0.0.0", "http://localhost:24199", "behind"),
        (
            "{name: a, host: x.example.com}",
            ("bind: 10.0.0.5",),
            "10.0.0.5",
            "http://x.example.com:24199",
            "behind",
        ),
    ],
)
def test_what_follows_from_the_addresses(
    head: str, lines: tuple[str, ...], bind: str, url: str, workers: str
) -> None:
    found = gateway(*(lines or ("audit_content: no",)), head=head[1:-1].replace(", ", "\n"))
    assert (found.bind, found.public_url, found.workers) == (bind, url, workers)


def test_every_field() -> None:
    assert gateway(
        "port: 9000",
        "bind: 127.0.0.2",
        "public_url: https://agents.example.com:8443/",
        "store: postgresql://pallas@db.example.com/pallas",
        "auth: none",
        "workers: behind",
        "oidc: {issuer: 'https://login.example.com/a', audience: us, groups_claim: roles, groups: {a: [edit:code]},",
        "  client_id: pallas-web, client_secret: 'a % secret'}",
        "limits: {requests_per_minute: 1, concurrent: 2, tenant_requests_per_minute: 3, tenant_concurrent: 4,",
        "  tool_timeout: 5.5, subscriptions_per_minute: 6, subscriptions: 7}",
        "threads: {keep: 90d}",
        "audit_content: true",
        "stop_timeout: 8",
        "liveness_interval: 9",
        "liveness_misses: 0",
        "memory_limit: 1GiB",
        "max_failures: 11",
        "max_request_bytes: 2048",
    ) == GatewaySettings(
        port=9000,
        bind="127.0.0.2",
        public_url="https://agents.example.com:8443",
        store="postgresql://pallas@db.example.com/pallas",
        auth="none",
        workers="behind",
        oidc=Oidc(
            issuer="https://login.example.com/a",
            audience=("us",),
            groups_claim="roles",
            groups={"a": ("edit:code",)},
            client_id="pallas-web",
            client_secret="a % secret",
        ),
        limits=Limits(
            requests_per_minute=1,
            concurrent=2,
            tenant_requests_per_minute=3,
            tenant_concurrent=4,
            tool_timeout=5.5,
            subscriptions_per_minute=6,
            subscriptions=7,
        ),
        threads=Threads(keep="90d"),
        audit_content=True,
        stop_timeout=8.0,
        liveness_interval=9.0,
        liveness_misses=0,
        memory_limit=1024**3,
        max_failures=11,
        max_request_bytes=2048,
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("public_url: https://x.example.com/mcp", "has more than scheme, host and port"),
        ("public_url: https://me@x.example.com", "names a user or a password"),
        ("public_url: https://me:secret@x.example.com", "names a user or a password"),
        ("public_url: ws://x.example.com", "'ws://x.example.com' is not a web address"),
        ("public_url: 'https://x.example.com:99999'", "'https://x.example.com:99999' is not a web address"),
        ("public_url: 'https://x.example.com#'", "has more than scheme, host and port"),
        ("public_url: 'https://-x'", "'https://-x' is not a web address"),
        ("store: mysql://me:secret@x/y", "is no store that is known"),
        ("store: 'sqlite:'", "names no file"),
        ("store: 'sqlite::memory:'", "names no file"),
        ("store: 'sqlite:?synchronous=full'", "names no file"),
        ("store: 'sqlite:a.db?synchronous=ful'", "says something behind the path that is not known"),
        ("store: postgresql://me:secret@x", "names no database"),
        ("store: 'postgresql://me:secret@x:y/z'", "is not a URL"),
        ("port: 24200", "24200 is also the registry's port by default"),
        ("memory_limit: 64MiB", "'64MiB' is out of range"),
        ("workers: closed", "'closed' is not a known value"),
        ("bind: localhost", "'localhost' is not an IP address"),
    ],
)
def test_a_value_that_cannot_be(line: str, complaint: str) -> None:
    (problem,) = refused(line)
    key = line.partition(":")[0]
    assert problem.startswith(f"3: gateway.{key}: {complaint}; ")
    assert "secret" not in problem


def test_without_tokens_it_is_for_this_machine_alone() -> None:
    (problem,) = refused("bind: 0.0.0.0", "auth: none")
    assert problem.startswith(
        "4: gateway.auth: `none` lets in whoever reaches 0.0.0.0; set `bind: 127.0.0.1`"
    )


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("12h", 43200.0), ("1d12h", 129600.0), ("'3600s'", 3600.0), ("forever", None), ("90m", 5400.0)],
)
def test_conversations_are_kept_for_so_long(said: str, seconds: float | None) -> None:
    assert gateway(f"threads: {{keep: {said}}}").threads.seconds == seconds
    assert gateway("threads: {}").threads == gateway("port: 1").threads == Threads(keep="forever")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("90", "'90' is not a duration; write a duration as in `90d` or `12h`, or `forever`"),
        ("'90'", "'90' is not a duration; write a duration"),
        ("90 days", "'90 days' is not a duration; write a duration"),
        ("d", "'d' is not a duration; write a duration"),
        ("90s", "'90s' is out of range; use at least 3600 s, or `forever`"),
        ("99999d", "'99999d' is out of range; use at most 1000000000 s, or `forever`"),
        ("[90d]", "is a list, not a duration; write a duration"),
        ("never", "'never' is not a duration; write a duration"),
        ("yes", "is a truth value, not a duration"),
        ("", "is empty; give it a value, or remove the key"),
    ],
)
def test_how_long_has_a_unit_and_is_no_mistake(said: str, complaint: str) -> None:
    (problem,) = refused("threads:", f"  keep: {said}")
    assert problem.startswith(f"4: gateway.threads.keep: {complaint}")


@pytest.mark.parametrize("kind", ["gateway.limits", "gateway.oidc", "gateway.threads", "gateway"])
def test_keys_are_known_ones(kind: str) -> None:
    texts: Mapping[str, tuple[str, ...]] = {
        "gateway.limits": ("limits: {more: 1}",),
        "gateway.oidc": ("oidc: {issuer: 'https://x', audience: x, more: 1}",),
        "gateway.threads": ("threads: {more: 1}",),
        "gateway": ("more: 1",),
    }
    (problem,) = refused(*texts[kind])
    assert problem.split(": ")[1].startswith(f"{kind}.")


def test_an_issuer_is_reached_by_tls() -> None:
    rest = ", audience: x}"
    assert "reached by http" in refused(f"oidc: {{issuer: 'http://login.example.com'{rest}")[0]
    assert gateway(f"oidc: {{issuer: 'http://localhost:9000/x'{rest}").oidc
    assert [problem.split(": ")[1] for problem in refused("oidc: {}")] == [
        "gateway.oidc.issuer",
        "gateway.oidc.audience",
    ]


def test_audiences_and_scopes_may_be_several() -> None:
    def oidc(rest: str) -> str:
        return f"oidc: {{issuer: 'https://login.example.com', {rest}}}"

    one = gateway(oidc("audience: x")).oidc
    several = gateway(oidc("audience: [x, y, x], scopes: [groups, email]")).oidc
    assert one is not None
    assert several is not None
    assert (one.audience, one.scopes) == (("x",), ("openid", "profile", "email"))
    assert (several.audience, several.scopes) == (("x", "y"), ("openid", "groups", "email"))
    alone = gateway(oidc("audience: x, scopes: groups")).oidc
    assert alone is not None
    assert alone.scopes == ("openid", "groups")
    for rest, place in (
        ("audience: []", "audience"),
        ("audience: [x, 5]", "audience[1]"),
        (f"audience: {['x'] * 21}", "audience"),
        ("audience: x, scopes: a b", "scopes"),
        ("audience: x, scopes: [a, 'b c']", "scopes[1]"),
    ):
        (problem,) = refused(oidc(rest))
        assert problem.split(": ")[1] == f"gateway.oidc.{place}", problem


def test_a_client_of_the_issuer() -> None:
    issuer = "oidc: {issuer: 'https://login.example.com', audience: x, "
    assert "client_secret" not in repr(gateway(f"{issuer}client_id: a, client_secret: hunter2hunter2}}"))
    assert "is the secret of no client" in refused(f"{issuer}client_secret: hunter2hunter2}}")[0]
    for wrong in ("''", '"a\\nhunter2"', "hunter2ä", "h" * 501):
        (problem,) = refused(f"{issuer}client_id: a, client_secret: {wrong}}}")
        assert problem.split(": ")[1] == "gateway.oidc.client_secret"
        assert "hunter2" not in problem
    for number in ("12345678901234", "0123", "1e10"):
        found = gateway(f"{issuer}client_id: a, client_secret: {number}}}").oidc
        assert found is not None
        assert found.client_secret == number
    (problem,) = refused(f"{issuer}client_id: a, client_secret: '${{PALLAS_GATEWAY_CLIENT_SECRET}}'}}")
    assert "no variable is put in here" in problem


def test_grants_are_those_that_the_gateway_knows() -> None:
    words = itertools.product(
        (*VERBS, "*", "fly"), (*KINDS, "*", "planes"), ("", ":a", ":llm/*", ":", ":a b")
    )
    for verb, kind, name in words:
        text = f"{verb}:{kind}{name}"
        try:
            parse_grant(text)
            known = True
        except ValueError:
            known = False
        assert (re.fullmatch(GRANT, text) is not None) == known, text


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ({}, []),
        ({"auth": "none"}, ["gateway.auth"]),
        ({"store": "postgresql://me:secret@x/y"}, ["gateway.store"]),
        ({"store": "postgresql://me@x/y"}, []),
        ({"workers": "open"}, ["gateway.workers"]),
        ({"workers": "behind"}, []),
    ],
)
def test_what_is_left_open_is_a_warning(lines: dict[str, Any], fields: list[str], tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(f"name: demo\ngateway: {lines}\n")
    found = read_configuration(tmp_path, {"HOME": str(tmp_path)}, tmp_path / "agents.yaml").warnings
    assert [(problem.field, problem.line) for problem in found] == [(field, 2) for field in fields]
    assert "secret" not in "".join(map(str, found))


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("", []),
        ("host: agents.example.com", ["host"]),
        ("host: agents.example.com\nbind: 127.0.0.1", []),
        ("host: agents.example.com\nbind: 10.0.0.5", ["bind"]),
        ("bind: '::'", ["bind"]),
        ("host: agents.example.com\ngateway: {}", []),
    ],
)
def test_ports_for_other_machines_without_a_gateway_are_warned_of(
    head: str, fields: list[str], tmp_path: Path
) -> None:
    (tmp_path / "agents.yaml").write_text(f"name: demo\n{head}\n")
    found = read_configuration(tmp_path, {"HOME": str(tmp_path)}, tmp_path / "agents.yaml").warnings
    assert [problem.field for problem in found] == fields
    for problem in found:
        assert (problem.line or 0) >= 2
        assert "add `gateway: {}`" in str(problem)


def test_without_a_value_it_says_how_to_turn_it_on() -> None:
    remedy = "write `gateway: {}` for a gateway with its defaults, or remove the line for none"
    assert refused() == [f"2: gateway: is empty; {remedy}"]
    (problem,) = problems("name: demo\ngateway: false\n")
    assert str(problem) == f"agents.yaml:2: gateway: is a truth value, not a mapping; {remedy}"


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("{port: 24201}", "24201 is also the port of dates (line 4)"),
        ("{}", "24199, the gateway's port by default, is also the port of news (line 5)"),
    ],
)
def test_a_port_that_another_has_is_the_gateways_to_change(section: str, complaint: str) -> None:
    agents = "  dates: {module: m, port: 24201}\n  news: {module: n, port: 24199}\n"
    text = f"name: demo\ngateway: {section}\nagents:\n{agents}"
    if section != "{}":
        text = text.replace("24199", "24202")
    (problem,) = problems(text)
    assert str(problem) == (
        f"agents.yaml:2: gateway.port: {complaint}; give the gateway another one: `gateway: {{port: …}}`"
    )
