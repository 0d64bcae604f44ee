"""`agents.yaml` as a whole: defaults, agents among each other, the file itself."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.location import deployment_path
from pallas_registry.deployment.model import Agent, Deployment, Place
from support.data.agents_text import PATH, agent, one_agent, parse, problems

REFERENCE = """\
name: my-project # log prefixes and registry names
version: "1.0.0" # published in registry entries
host: my-host.example.com # hostname for registry URLs
namespace: com.example.project # reverse-domain prefix for registry names
registry_port: 8200 # port for the registry server

agents:
  jarvis:
    module: agents.jarvis # importable Python module path
    port: 8201 # StreamableHTTP port for this agent
    title: Jarvis # human-readable name (registry)
    description: "My assistant" # one-line description (registry)
    depends_on: [research] # optional: start these agents first

  research:
    module: agents.research
    port: 8250
    title: Research Agent
    description: "Web search and knowledge graph"
"""


def test_the_reference_example_is_read_whole() -> None:
    assert parse(REFERENCE) == Deployment(
        name="my-project",
        version="1.0.0",
        host="my-host.example.com",
        namespace="com.example.project",
        registry_port=8200,
        bind="0.0.0.0",
        path=PATH.absolute(),
        agents={
            "jarvis": Agent(
                name="jarvis",
                module=AgentSource("module", "agents.jarvis"),
                port=8201,
                title="Jarvis",
                description="My assistant",
                depends_on=("research",),
            ),
            "research": Agent(
                name="research",
                module=AgentSource("module", "agents.research"),
                port=8250,
                title="Research Agent",
                description="Web search and knowledge graph",
            ),
        },
    )


def test_what_is_said_once_for_all_agents() -> None:
    text = """\
        name: demo
        agents:
          one: {module: m, port: 9000}
          two: {module: m, port: 9001, max_queue: 7, restart: always, stop_timeout: 5}
        defaults:
          restart: on-failure
          start_timeout: 120
          stop_timeout: 20
          max_failures: 3
          reset_after: 30
          on_dependency_loss: restart
          max_concurrency: 4
          max_queue: 0
          max_request_bytes: 2048
          liveness_interval: 2.5
          liveness_misses: 4
          slow_after: 0.5
        """
    one, two = parse(text).agents.values()
    assert (one.name, one.port, one.restart, one.start_timeout) == ("one", 9000, "on-failure", 120.0)
    assert (one.stop_timeout, one.max_failures, one.reset_after) == (20.0, 3, 30.0)
    assert (one.on_dependency_loss, one.max_concurrency) == ("restart", 4)
    assert (one.max_queue, one.max_request_bytes) == (0, 2048)
    assert (one.liveness_interval, one.liveness_misses, one.slow_after) == (2.5, 4, 0.5)
    same = replace(one, name="two", title="Two", description="Two", port=9001)
    assert two == replace(same, max_queue=7, restart="always", stop_timeout=5.0)


def test_the_order_of_the_file_is_kept() -> None:
    assert list(parse(REFERENCE).agents) == ["jarvis", "research"]


def test_defaults() -> None:
    deployment = parse("name: demo\nagents:\n  tech_research: {module: m, port: 9000}\n")
    assert deployment == Deployment(
        name="demo",
        version="1.0.0",
        host="localhost",
        namespace="local.demo",
        registry_port=24200,
        bind="127.0.0.1",
        path=PATH.absolute(),
        agents={
            "tech_research": Agent(
                name="tech_research",
                module=AgentSource("module", "m"),
                port=9000,
                title="Tech_Research",
                description="Tech_Research",
                depends_on=(),
                icon=None,
                python=None,
                env={},
                restart="always",
                start_timeout=60.0,
                stop_timeout=10.0,
                max_failures=5,
                reset_after=60.0,
                on_dependency_loss="keep",
            )
        },
    )


def test_every_optional_field() -> None:
    read = agent(
        "title: The A",
        "icon: https://example.com/a.svg",
        "python: .venv/bin/python",
        "env: {A: text, B: 1, C: yes, D: 010, E: 1.50, F: ''}",
        "restart: on-failure",
        "start_timeout: 90",
        "stop_timeout: 2.5",
        "max_failures: 1",
        "reset_after: 1e3",
        "on_dependency_loss: restart",
    )
    assert read == Agent(
        name="a",
        module=AgentSource("module", "m.a"),
        port=9000,
        title="The A",
        description="The A",
        icon="https://example.com/a.svg",
        python=str(Path.cwd() / ".venv/bin/python"),
        env={"A": "text", "B": "1", "C": "yes", "D": "010", "E": "1.50", "F": ""},
        restart="on-failure",
        start_timeout=90.0,
        stop_timeout=2.5,
        max_failures=1,
        reset_after=1000.0,
        on_dependency_loss="restart",
    )


def test_more_names_of_the_deployment() -> None:
    assert parse(one_agent()).hosts == ()
    text = f"hosts: [Agents.LAN, 192.0.2.7, 'fd00::5']\n{one_agent()}"
    assert parse(text).hosts == ("agents.lan", "192.0.2.7", "fd00::5")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("agents.lan", "agents.yaml:1: hosts: is text, not a list; write a list, as in `[one, two]`"),
        ("[10]", "agents.yaml:1: hosts[0]: is a whole number, not text; write a text, in quotes if need be"),
        (
            "[a.lan, 'http://b.lan']",
            "agents.yaml:1: hosts[1]: 'http://b.lan' is a URL; write the host name alone; each agent has its own port",
        ),
        (
            "['a.lan:8080']",
            "agents.yaml:1: hosts[0]: 'a.lan:8080' names a port; write `a.lan` alone; each agent has its own port",
        ),
        (
            "['*.lan']",
            (
                "agents.yaml:1: hosts[0]: '*.lan' is not a host name; "
                "write a name as in `agents.example.com`, or an address"
            ),
        ),
        ("[a.lan, A.LAN]", "agents.yaml:1: hosts[1]: names 'A.LAN' twice; remove one of the two"),
    ],
)
def test_a_name_that_no_client_can_ask_by(value: str, found: str) -> None:
    assert [str(problem) for problem in problems(f"hosts: {value}\n{one_agent()}")] == [found]


def test_modules_that_are_imported_once() -> None:
    assert parse(one_agent()).preload == ()
    found = parse(f"preload:\n  - numpy\n  - my_package.models\n{one_agent()}")
    assert found.preload == ("numpy", "my_package.models")
    assert [found.places[f"preload[{index}]"].line for index in range(2)] == [2, 3]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("numpy", "agents.yaml:1: preload: is text, not a list; write a list, as in `[one, two]`"),
        ("[2]", "agents.yaml:1: preload[0]: is a whole number, not text; write a text, in quotes if need be"),
        ("[agents/a.py]", "agents.yaml:1: preload[0]: 'agents/a.py' is a file; write 'agents.a'"),
        ("[../my-a.py]", "agents.yaml:1: preload[0]: '../my-a.py' is a file; write its dotted path"),
        (
            "[a, my-module]",
            (
                "agents.yaml:1: preload[1]: 'my-module' is no module; "
                "write a dotted path, as in `mypackage.models`"
            ),
        ),
        (
            "[.a]",
            "agents.yaml:1: preload[0]: '.a' is no module; write a dotted path, as in `mypackage.models`",
        ),
        (f"[{'a' * 201}]", "agents.yaml:1: preload[0]: has 201 characters; use at most 200"),
        ("[a, b, a]", "agents.yaml:1: preload[2]: names 'a' twice; remove one of the two"),
        (
            str([f"m{number}" for number in range(51)]),
            (
                "agents.yaml:1: preload: names 51 modules, 50 are allowed; "
                "write a module that imports them, and name it"
            ),
        ),
    ],
)
def test_what_cannot_be_imported_once(value: str, found: str) -> None:
    assert [str(problem) for problem in problems(f"preload: {value}\n{one_agent()}")] == [found]


@pytest.mark.parametrize(
    ("host", "bind"),
    [
        ("localhost", "127.0.0.1"),
        ("LOCALHOST", "127.0.0.1"),
        ("demo.localhost", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.9", "127.0.0.9"),
        ("::1", "::1"),
        ("puck.incus", "0.0.0.0"),
        ("192.0.2.7", "0.0.0.0"),
        ("2001:db8::7", "::"),
    ],
)
def test_it_listens_where_the_host_can_be_reached(host: str, bind: str) -> None:
    assert parse(f"host: '{host}'\n{one_agent()}").bind == bind
    assert parse(f"host: '{host}'\nbind: 192.0.2.1\n{one_agent()}").bind == "192.0.2.1"


def test_aliases_and_merges_work_and_own_keys_win() -> None:
    deployment = parse("""
        name: demo
        agents:
          a: &common
            module: m
            port: 9000
            restart: never
            env: &env {A: x}
          b:
            port: 9001
            <<: *common
          c:
            <<: [{env: {A: y}}, *common]
            port: 9002
            title: C
    """)
    assert deployment.agents["b"].port == 9001
    assert deployment.agents["b"].restart == "never"
    assert deployment.agents["b"].env == {"A": "x"}
    assert deployment.agents["c"].env == {"A": "y"}


def test_text_may_span_lines_in_the_file() -> None:
    assert agent("description: >", "  one", "  two").description == "one two"


def test_a_no_break_space_is_text() -> None:
    assert agent('title: "Assistant\u00a0: A"').title == "Assistant\u00a0: A"


def test_a_server_name_has_a_limit() -> None:
    [problem] = problems(
        f"name: demo\nnamespace: {'n' * 190}\nagents:\n  {'a' * 20}: {{module: m, port: 9000}}\n"
    )
    assert (problem.line, "has 211 characters" in problem.message) == (4, True)


def test_agents_may_not_share_a_slug() -> None:
    [problem] = problems("name: d\nagents:\n  a_b: {module: m, port: 1}\n  a-b: {module: m, port: 2}\n")
    assert str(problem) == (
        "agents.yaml:4: agents.a-b: is published as `a-b`, and so is a_b; rename one of the two"
    )


def test_ports_may_not_be_shared() -> None:
    found = problems("""\
        name: demo
        registry_port: 8200
        agents:
          a: {module: m, port: 8200}
          b: {module: m, port: 8201}
          c: {module: m, port: 8201}
    """)
    assert [str(problem) for problem in found] == [
        "agents.yaml:4: agents.a.port: 8200 is also the registry's port; give each agent a port of its own",
        (
            "agents.yaml:6: agents.c.port: 8201 is also the port of b (line 5); "
            "give each agent a port of its own"
        ),
    ]


def test_the_registrys_default_port_is_taken_too() -> None:
    [problem] = problems("name: demo\nagents:\n  a: {module: m, port: 24200}\n")
    assert "24200 is also the registry's port by default" in problem.message


def test_a_refused_port_is_not_compared() -> None:
    text = "name: d\nregistry_port: 0\nagents:\n  a: {module: m, port: 0}\n  b: {module: m, port: 0}\n"
    assert [problem.line for problem in problems(text)] == [2, 4, 5]


def test_a_cycle_is_named() -> None:
    found = problems("""\
        name: demo
        agents:
          a: {module: m, port: 1}
          b: {module: m, port: 2, depends_on: [a, d]}
          c: {module: m, port: 3, depends_on: [b]}
          d: {module: m, port: 4, depends_on: [c]}
    """)
    assert [str(problem) for problem in found] == [
        "agents.yaml:4: agents.b.depends_on: is a cycle: b → d → c → b; remove one of these dependencies"
    ]


def test_a_dependency_twice() -> None:
    [problem] = problems(
        "name: d\nagents:\n  a: {module: m, port: 1, depends_on: [b, b]}\n  b: {module: m, port: 2}\n"
    )
    assert (problem.line, problem.message) == (3, "names 'b' twice")


def test_a_slip_in_a_dependency_is_guessed() -> None:
    agents = "  a: {module: m, port: 1, depends_on: [reserch]}\n  research: {module: m, port: 2}\n"
    [problem] = problems(f"name: d\nagents:\n{agents}")
    assert problem.remedy == "did you mean 'research'?"


@pytest.mark.parametrize("missing", ["module", "port"])
def test_what_an_agent_must_say(missing: str) -> None:
    given = {"module": "m", "port": "9000"}
    del given[missing]
    [problem] = problems(f"name: demo\nagents:\n  a: {given}\n".replace("'9000'", "9000"))
    assert (problem.line, problem.field, problem.message) == (3, f"agents.a.{missing}", "is missing")


def test_everything_is_found_in_one_run_in_file_order() -> None:
    found = problems("""\
        name: demo
        agents:
          a: {module: m, port: 9000, depends_on: [b], colour: red}
          b: {module: m, port: 9000, depends_on: [a]}
          c: {module: m, port: 9001, depends_on: [nobody]}
        versoin: '1'
    """)
    assert [problem.line for problem in found] == [3, 3, 4, 5, 6]
    text = "\n".join(map(str, found))
    assert all(part in text for part in ("is a cycle", "is also the port", "no agent", "not a known key"))


def test_problems_are_lines_whatever_they_quote() -> None:
    for problem in problems('name: demo\nagents:\n  "a\\n\\x1b[31m": {module: "x\\ny", port: 1}\n'):
        assert str(problem).isprintable()


def test_an_interpreter_must_be_there(tmp_path: Path) -> None:
    text = one_agent("python: bin/python")
    file = tmp_path / "agents.yaml"
    file.write_text(text)
    interpreter = tmp_path / "bin" / "python"
    with pytest.raises(
        ConfigurationError, match="is not an executable file; name the Python of the agent's own"
    ):
        read_deployment(file)
    interpreter.parent.mkdir()
    interpreter.write_text("#!/bin/sh\n")
    interpreter.chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"agents\.yaml:5: agents\.a\.python"):
        read_deployment(file)
    interpreter.chmod(0o755)
    assert read_deployment(file).agents["a"].python == str(interpreter)


def test_a_virtual_environments_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(one_agent("python: python"))
    (tmp_path / "python").symlink_to("/bin/sh")
    assert read_deployment(tmp_path / "agents.yaml").agents["a"].python == str(tmp_path / "python")


def test_a_file_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_deployment(tmp_path / "agents.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/agents.yaml: there is no such file; `pallas init` writes one for the project in a folder; "
        "else run it in the folder that holds agents.yaml, or set PALLAS_AGENTS_CONFIG to the file's path"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a folder"):
        read_deployment(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "agents.yaml").touch()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigurationError, match="may not be read by this user; grant read permission"):
        read_deployment(tmp_path / "agents.yaml")


def test_a_path_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_deployment(Path("a\0b"))


def test_where_the_file_is() -> None:
    assert deployment_path({}) == Path("agents.yaml")
    assert deployment_path({"PALLAS_AGENTS_CONFIG": ""}) == Path("agents.yaml")
    assert deployment_path({"PALLAS_AGENTS_CONFIG": "/etc/pallas/a.yaml"}) == Path("/etc/pallas/a.yaml")


def test_each_value_remembers_its_line() -> None:
    found = parse("""\
name: demo
defaults:
  stop_timeout: 5
  max_failures: 3
agents:
  research:
    module: agents.research
    port: 8201
    max_failures: 7
    env:
      MODE: fast
      LEVEL: high
  jarvis: &shared
    module: agents.jarvis
    port: 8202
""")
    research, jarvis = found.agents["research"], found.agents["jarvis"]
    assert (research.line, jarvis.line) == (6, 13)
    assert research.places == {
        "stop_timeout": Place(3, shared=True),
        "max_failures": Place(9),
        "module": Place(7),
        "port": Place(8),
        "env": Place(10),
        "env.MODE": Place(11),
        "env.LEVEL": Place(12),
    }
    assert jarvis.places["max_failures"] == Place(4, shared=True)
    assert found.places == {"name": Place(1), "defaults": Place(2), "agents": Place(5)}


def test_lines_are_no_part_of_what_is_deployed() -> None:
    text = one_agent()
    moved = f"# moved\n{text}"
    assert parse(text) == parse(moved)
    assert parse(text).agents["a"].line != parse(moved).agents["a"].line


def test_what_a_merge_brings_has_the_line_where_it_is_said() -> None:
    found = parse("""\
name: demo
agents:
  research: &usual
    module: agents.research
    port: 8201
    stop_timeout: 7
  jarvis:
    <<: *usual
    port: 8202
""")
    assert found.agents["jarvis"].places["stop_timeout"] == Place(6)
