"""`agents.yaml`: every field refuses what it must, on its line, and lets the rest through."""

from __future__ import annotations

import re

import pytest

from support.data.agents_text import agent, one_agent, parse, problems

# Each row: the lines of agent `a` from line 5 on, the line of the problem, its field after `agents.a`, and a
# part of what it says.
AGENT_PROBLEMS = [
    (["prot: 1"], 5, ".prot", "not a known key; did you mean `port`?"),
    (["zzzzz: 1"], 5, ".zzzzz", "known here: module, card, port"),
    (["port: 9001"], 5, ".port", "is given twice, first on line 4"),
    (["env: {A: 1, A: 2}"], 5, ".env.A", "is given twice"),
    (["title:"], 5, ".title", "is empty; give it a value"),
    (["title: ''"], 5, ".title", "is empty; write 1 to 100"),
    (["title: '  '"], 5, ".title", "is empty"),
    ([f"title: {'x' * 101}"], 5, ".title", "has 101 characters"),
    (['title: "a\\nb"'], 5, ".title", "line break"),
    (["title: 5"], 5, ".title", 'is a whole number, not text; put it in quotes: "5"'),
    (["title: yes"], 5, ".title", "is a truth value, not text"),
    (["title: [a]"], 5, ".title", "is a list, not text"),
    (["title: !env A"], 5, ".title", "is tagged '!env', not text"),
    ([f"description: {'x' * 101}"], 5, ".description", "has 101 characters"),
    (
        ["card: cards/a.md", "module: m"],
        5,
        ".card",
        "stands beside `module:`, and an agent is made from one of them",
    ),
    (["card: http://example.com/a.md"], 5, ".card", "is a URL; download the card"),
    (["module: a..b"], 5, ".module", "not a Python module's dotted path"),
    (["module: a.class"], 5, ".module", "not a Python module's dotted path"),
    (["module: a--b?"], 5, ".module", "not a Python module's dotted path"),
    ([f"module: +{'.py' * 5_000}"], 5, ".module", "has 15001 characters; use at most 1000"),
    (["module: agents.a-b"], 5, ".module", "it has a hyphen; name the file, `agents/a-b.py`"),
    (["module: math"], 5, ".module", "`math` is Python's own module; rename yours"),
    (["module: logging.jarvis"], 5, ".module", "`logging` is Python's own module; rename yours"),
    (["icon: ftp://example.com/a"], 5, ".icon", "use http, https or a relative URL"),
    (["icon: 'javascript:alert(1)'"], 5, ".icon", "not a web address"),
    (["icon: https:///a.svg"], 5, ".icon", "names no host"),
    (["icon: 'https://[x/a.svg'"], 5, ".icon", "not a URL"),
    (["icon: a b.svg"], 5, ".icon", "percent-encode"),
    ([f"icon: {'x' * 256}"], 5, ".icon", "has 256 characters"),
    (["icon: ''"], 5, ".icon", "has 0 characters"),
    (["depends_on: b"], 5, ".depends_on", "is text, not a list"),
    (["depends_on: [a]"], 5, ".depends_on", "names the agent itself"),
    (["depends_on: [b]"], 5, ".depends_on", "there is no agent 'b'; describe it"),
    (["depends_on: [1]"], 5, ".depends_on[0]", "is a whole number, not text"),
    (["depends_on:", "  - x", "  - y"], 7, ".depends_on", "there is no agent 'y'"),
    (["models: openai.gpt-4.1"], 5, ".models", "is text, not a list"),
    (["models: [a, a]"], 5, ".models", "names 'a' twice; remove one of the two"),
    (["models: ['a b']"], 5, ".models", "'a b' is not a model; write one as in `openai.gpt-4.1`"),
    ([f"models: [{'x' * 256}]"], 5, ".models", "is not a model"),
    (["restart: sometimes"], 5, ".restart", "use one of always, on-failure, never"),
    (["restart: on_failure"], 5, ".restart", "did you mean `on-failure`?"),
    (["on_dependency_loss: stop"], 5, ".on_dependency_loss", "not a known value; use one of keep, restart"),
    (["start_timeout: 0"], 5, ".start_timeout", "not a time; use a number of seconds above 0"),
    (["start_timeout: -1"], 5, ".start_timeout", "not a time"),
    (["start_timeout: .inf"], 5, ".start_timeout", "'.inf' is not a number"),
    (["start_timeout: .nan"], 5, ".start_timeout", "'.nan' is not a number"),
    (["start_timeout: 1.0e+999"], 5, ".start_timeout", "is not a time"),
    (["start_timeout: 60s"], 5, ".start_timeout", "'60s' is not a number"),
    (["start_timeout: '60'"], 5, ".start_timeout", "without quotes"),
    (["start_timeout: 1:30"], 5, ".start_timeout", "not written in plain decimal digits"),
    (["start_timeout: true"], 5, ".start_timeout", "is a truth value, not a number"),
    (["stop_timeout: 0"], 5, ".stop_timeout", "not a time"),
    (["reset_after: 0"], 5, ".reset_after", "not a time"),
    (["max_failures: 0"], 5, ".max_failures", "0 is out of range; use a whole number of at least 1"),
    (["max_failures: 2.5"], 5, ".max_failures", "'2.5' is not a whole number"),
    (["max_concurrency: 0"], 5, ".max_concurrency", "0 is out of range; use a whole number of at least 1"),
    (["max_concurrency: many"], 5, ".max_concurrency", "'many' is not a whole number"),
    (["max_queue: -1"], 5, ".max_queue", "-1 is out of range; use a whole number of at least 0"),
    (["max_request_bytes: 1023"], 5, ".max_request_bytes", "use a whole number of at least 1024"),
    (["max_request_bytes: 32MiB"], 5, ".max_request_bytes", "'32MiB' is not a whole number"),
    (["liveness_interval: 0.01"], 5, ".liveness_interval", "is out of range; use at least 0.1 seconds"),
    (["slow_after: 0.001"], 5, ".slow_after", "is out of range; use at least 0.01 seconds"),
    (["liveness_misses: -1"], 5, ".liveness_misses", "use a whole number of at least 0"),
    (["memory_limit: 512"], 5, ".memory_limit", "'512' is out of range; use at least 192 MiB"),
    (["memory_limit: 100MiB"], 5, ".memory_limit", "'100MiB' is out of range; use at least 192 MiB"),
    (["memory_limit: 512M"], 5, ".memory_limit", "not an amount of memory; write `512MiB` or `512MB`"),
    (["memory_limit: lots"], 5, ".memory_limit", "not an amount of memory; use an amount as in `512MiB`"),
    (["memory_limit: -1GB"], 5, ".memory_limit", "not an amount of memory"),
    (["memory_limit: 1:30"], 5, ".memory_limit", "not an amount of memory"),
    (["memory_limit: [1GB]"], 5, ".memory_limit", "is a list, not an amount of memory"),
    (["memory_limit:"], 5, ".memory_limit", "is empty; give it a value"),
    (["env: [A]"], 5, ".env", "is a list, not a mapping"),
    (["env: {1A: x}"], 5, ".env.1A", "cannot be the name of a variable"),
    (["env: {A: }"], 5, ".env.A", "is empty"),
    (["env: {A: [1]}"], 5, ".env.A", "is a list, not a text, a number or a truth value"),
    (["env: {A: !x y}"], 5, ".env.A", "is tagged '!x'"),
    (['env: {A: "\\0"}'], 5, ".env.A", "NUL"),
    (["env: {NOTIFY_SOCKET: x}"], 5, ".env.NOTIFY_SOCKET", "never reaches a worker"),
    (["env: {WATCHDOG_USEC: 1}"], 5, ".env.WATCHDOG_USEC", "never reaches a worker"),
    (["env: {LISTEN_FDS: 1}"], 5, ".env.LISTEN_FDS", "never reaches a worker"),
    (["5: x"], 5, "", "the key '5' is not text"),
    (["? [x]", ": y"], 5, "", "the key a list or mapping is not text"),
    (["<<: x"], 5, "", "merges something that is no mapping"),
    (["<<: {icon: a}", "<<: {icon: b}"], 6, "", "merges (`<<`) more than once"),
]


@pytest.mark.parametrize(("lines", "line", "field", "part"), AGENT_PROBLEMS)
def test_what_an_agent_may_not_say(lines: list[str], line: int, field: str, part: str) -> None:
    found = [problem for problem in problems(one_agent(*lines)) if part in str(problem)]
    assert [(problem.line, problem.field) for problem in found] == [(line, f"agents.a{field}")]


@pytest.mark.parametrize(
    ("port", "part"),
    [
        ("0", "0 is out of range; use a whole number from 1 to 65535"),
        ("65536", "65536 is out of range"),
        ("-1", "-1 is out of range"),
        ("99999999999999999999", "is out of range"),
        ("true", "is a truth value, not a whole number"),
        ("9000.0", "'9000.0' is not a whole number"),
        ("'9000'", "without quotes"),
        ("9_000", "not written in plain decimal digits"),
        ("010000", "not written in plain decimal digits"),
        ("0x2000", "not written in plain decimal digits"),
        ("82:00", "not written in plain decimal digits"),
        ("", "is empty"),
        ("[9000]", "is a list, not a whole number"),
        ("http", "'http' is not a whole number"),
    ],
)
@pytest.mark.parametrize("where", ["registry_port", "agents.a.port"])
def test_what_is_no_port(port: str, part: str, where: str) -> None:
    if where == "registry_port":
        text = f"name: demo\nagents: {{a: {{module: m, port: 9000}}}}\nregistry_port: {port}\n"
    else:
        text = f"name: demo\nagents:\n  a: {{module: m, port: {port}}}\n"
    [problem] = problems(text)
    assert (problem.line, problem.field) == (3, where)
    assert part in str(problem)


# Each row: what stands before `agents:`, the line of the problem, its field, and a part of what it says.
TOP_PROBLEMS = [
    ("name: demo\nnmae: x", 2, "nmae", "did you mean `name`?"),
    ("name: demo\nname: other", 2, "name", "is given twice, first on line 1"),
    ("version: '1'", 1, "name", "is missing; name the deployment"),
    ("name: 5", 1, "name", "is a whole number, not text"),
    ("name: ''", 1, "name", "is empty"),
    (f"name: {'x' * 101}", 1, "name", "has 101 characters"),
    ("name: my project", 1, "name", "'local.my project' cannot start a server name"),
    ("name: my_project", 1, "name", "set `namespace:`"),
    ("name: demo\nnamespace: a/b", 2, "namespace", "cannot start a server name"),
    ("name: demo\nnamespace: a_b", 2, "namespace", "cannot start a server name"),
    ("name: demo\nnamespace: ''", 2, "namespace", "cannot start a server name"),
    ("name: demo\nversion: 1.0", 2, "version", 'is a number, not text; put it in quotes: "1.0"'),
    ("name: demo\nversion: ''", 2, "version", "is empty"),
    (f"name: demo\nversion: '{'1' * 256}'", 2, "version", "has 256 characters"),
    *(
        (f"name: demo\nversion: '{version}'", 2, "version", "is not one version")
        for version in ("^1.2.3", "~1.2", ">=1.2.3", "1.x", "1.*", "*", "1.2 - 1.4", "1 || 2", "latest", "x")
    ),
    ("name: demo\nversion: '1/2'", 2, "version", "is not a version"),
    ("name: demo\nversion: 'one two'", 2, "version", "is not a version"),
    ("name: demo\nhost: http://x", 2, "host", "is a URL"),
    ("name: demo\nhost: puck:80", 2, "host", "names a port; write `puck` alone"),
    ("name: demo\nhost: '[::1]'", 2, "host", "has brackets; write '::1'"),
    ("name: demo\nhost: a..b", 2, "host", "is not a host name"),
    ("name: demo\nhost: -a", 2, "host", "is not a host name"),
    ("name: demo\nhost: ''", 2, "host", "is not a host name"),
    (f"name: demo\nhost: {'a.' * 130}b", 2, "host", "is not a host name"),
    ("name: demo\nhost: 300.1.1.1", 2, "host", "neither a host name nor an address"),
    ("name: demo\ndefaults: [a]", 2, "defaults", "is a list, not a mapping"),
    ("name: demo\ndefaults: {port: 1}", 2, "defaults.port", "is not a known key; known here: start"),
    ("name: demo\ndefaults:\n  max_queue: -1", 3, "defaults.max_queue", "-1 is out of range"),
    ("name: demo\nbind: localhost", 2, "bind", "is not an IP address"),
    ("name: demo\nbind: 0.0.0.0:80", 2, "bind", "is not an IP address"),
]


@pytest.mark.parametrize(("head", "line", "field", "part"), TOP_PROBLEMS)
def test_what_a_deployment_may_not_say(head: str, line: int, field: str, part: str) -> None:
    found = problems(f"{head}\nagents: {{a: {{module: m, port: 9000}}}}\n")
    assert [(problem.line, problem.field) for problem in found] == [(line, field)]
    assert part in str(found[0])


@pytest.mark.parametrize(
    "version", ["1", "1.0.0", "v2", "2026.3.12", "2.1.0-alpha", "1.0.0+build.5", "1.0-xx"]
)
def test_versions_that_are_fine(version: str) -> None:
    assert parse(f"version: '{version}'\n{one_agent()}").version == version


@pytest.mark.parametrize("icon", ["/icons/a.svg", "a.png", "//cdn.example.com/a.png", "http://x/a?b=c#d"])
def test_icons_that_are_fine(icon: str) -> None:
    assert agent(f"icon: '{icon}'").icon == icon


@pytest.mark.parametrize(
    "host", ["puck.incus", "my_host", "a.example.com.", "192.0.2.7", "::1", "xn--bcher-kva.ch"]
)
def test_hosts_that_are_fine(host: str) -> None:
    assert parse(f"host: '{host}'\n{one_agent()}").host == host


@pytest.mark.parametrize(
    "name", ["1a", "_a", "-a", "a.b", "a b", "é", "x" * 65, "send_message", "get_health"]
)
def test_names_that_no_tool_can_have(name: str) -> None:
    [problem] = problems(f"name: demo\nagents:\n  '{name}': {{module: m, port: 9000}}\n")
    assert problem.line == 3
    assert re.search("cannot be the name of a tool|is the name of a tool", problem.message)


def test_models_are_taken_in_their_order() -> None:
    read = agent("models: [openai.gpt-4.1, 'claude-haiku-4-5?reasoning=off']")
    assert read.models == ("openai.gpt-4.1", "claude-haiku-4-5?reasoning=off")
