"""What a deployment becomes by resources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pallas_common.problems import MOST_PROBLEMS
from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition, ServerDefinition
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.resources.definitions import INSTRUCTION
from pallas_registry.resources.deploy import Deployed, deploy
from pallas_registry.resources.model import Resource, ResourceId, ResourceSet
from support.data.agents_text import parse
from support.data.resource_texts import digest, resource, resources

BASE = parse(
    """\
    name: demo
    registry_port: 9000
    defaults: {start: always, idle_timeout: 7, max_queue: 3, memory_limit: 1GiB}
    agents:
      old_one: {module: m.old, port: 9001}
    """
)
LLM = {"type": "openai", "model": "m"}
SHARED = (
    ("secret", "k", {"data": {"A": "1", "B": "2", "C": "3"}}),
    ("llm", "q", {**LLM, "url": "http://h/v1", "apiKeyRef": "k/A"}),
    ("llm", "free", LLM),
    ("server", "s", {"url": "http://h/", "headers": {"X": "${secret:k/B}"}, "forwardInboundAuth": True}),
    ("server", "t", {"command": "x", "args": ["a"], "readTimeoutSeconds": 5}),
    ("server", "u", {"url": "http://h/", "transport": "sse"}),
    (
        "project",
        "p",
        {"servers": ["s", "t"], "prompts": [{"name": "a", "text": "A"}, {"name": "b", "text": "B"}]},
    ),
)


def deployed(*said: tuple[str, str, object], executable: bool = True) -> Deployed:
    return deploy(BASE, resources(*SHARED, *said), digest, lambda _: executable)


def refused(found: Deployed) -> dict[str, list[str]]:
    return {
        str(id_): [f"{each.field}: {each.message}; {each.remedy}" for each in problems]
        for id_, problems in found.problems.items()
    }


def test_a_declared_agent_is_an_agent_of_the_deployment() -> None:
    found = deployed(
        ("agent", "b", {"llm": "q", "models": ["free"], "project": "p", "servers": ["t", "u"], "systemPrompt": "Hi.",
                        "defaultParams": {"stop": "x"}, "tools": ["s__*"], "maxIterations": 3,
                        "outputSchema": {"type": "object"}, "description": "D"}),
        ("agent", "a", {"run": {"port": 9002, "start": "always", "memory_limit": "none", "title": "T", "icon": "/i",
                                "env": {"E": "1"}, "depends_on": ["b", "old_one"], "python": "venv/python"}}),
    )  # fmt: skip
    assert not found.problems
    assert list(found.deployment.agents) == ["old_one", "a", "b"]
    assert found.deployment == replace(BASE, agents=found.deployment.agents)
    a, b = found.deployment.agents["a"], found.deployment.agents["b"]
    assert a.definition == AgentDefinition(instruction=INSTRUCTION)
    assert (a.port, a.start, a.memory_limit, a.title, a.description) == (9002, "always", None, "T", "T")
    assert (a.icon, a.env, a.depends_on) == ("/i", {"E": "1"}, ("b", "old_one"))
    assert a.python == str(Path("venv/python").absolute())
    assert (b.port, b.start, b.idle_timeout, b.max_queue, b.memory_limit) == (
        None,
        "on-demand",
        7.0,
        3,
        1024**3,
    )
    assert (b.title, b.description, b.output_schema) == ("B", "D", {"type": "object"})
    assert b.source == AgentSource("definition", "b")
    assert b.definition == AgentDefinition(
        instruction="Hi.\n\nA\n\nB",
        llm=LlmDefinition(name="q", provider="openai", model="m", url="http://h/v1", api_key="${secret:k/A}"),
        models=(LlmDefinition(name="free", provider="openai", model="m"),),
        parameters={"stop": ["x"]},
        servers=(
            ServerDefinition(
                name="s",
                settings={
                    "transport": "http",
                    "url": "http://h/",
                    "headers": {"X": "${secret:k/B}"},
                    "forward_inbound_auth": True,
                },
            ),
            ServerDefinition(
                name="t",
                settings={"transport": "stdio", "command": "x", "args": ["a"], "read_timeout_seconds": 5},
            ),
            ServerDefinition(name="u", settings={"transport": "sse", "url": "http://h/"}),
        ),
        tools=("s__*",),
        max_iterations=3,
        secrets={"k/A": digest("1"), "k/B": digest("2")},
    )


def test_a_definition_holds_no_secret() -> None:
    all_ = resources(
        ("secret", "k", {"data": {"A": "tokentoken"}}),
        ("llm", "q", {**LLM, "apiKeyRef": "k/A"}),
        ("agent", "a", {"llm": "q"}),
    )
    found = deploy(BASE, all_, lambda _: "hmac-sha256:0")
    assert "tokentoken" not in repr(found)
    assert "tokentoken" not in repr(all_)


def test_a_changed_secret_is_another_definition_of_those_that_use_it() -> None:
    agents = (("agent", "a", {"llm": "q"}), ("agent", "b", {"llm": "free"}))
    one = deployed(*agents).deployment.agents
    other = deployed(("secret", "k", {"data": {"A": "changed", "B": "2"}}), *agents).deployment.agents
    assert one["a"].definition != other["a"].definition
    assert one["b"] == other["b"]


@pytest.mark.parametrize(
    ("said", "problems"),
    [
        (("agent", "a", {"llm": "nix", "project": "x", "servers": ["zz"]}),
         ["spec.llm: there is no llm 'nix'; apply it as well, or name another one",
          "spec.project: there is no project 'x'; apply it as well, or name another one",
          "spec.servers[0]: there is no server 'zz'; apply it as well, or name another one"]),
        (("agent", "a", {"llm": "fre"}), ["spec.llm: there is no llm 'fre'; did you mean 'free'?"]),
        (("llm", "x", {**LLM, "apiKeyRef": "k/Z"}), ["spec.apiKeyRef: secret/k has no value 'Z'; it has: A, B, C"]),
        (("server", "x", {"command": "x", "args": ["${secret:k/Z}"]}),
         ["spec.args[0]: secret/k has no value 'Z'; it has: A, B, C"]),
        (("project", "x", {"servers": ["zz"]}),
         ["spec.servers[0]: there is no server 'zz'; apply it as well, or name another one"]),
        (("agent", "old_one", {}),
         [(f"metadata.name: there is an agent old_one in {Path('agents.yaml').absolute()}:5 as well; "
          "rename or remove one of the two")]),
        (("agent", "old-one", {}),
         [(f"metadata.name: is published as `old-one`, and so is old_one in {Path('agents.yaml').absolute()}:5; "
          "rename one of the two")]),
        (("agent", "a", {"run": {"port": 9000}}),
         [("spec.run.port: 9000 is also the registry's port; choose another one, or leave it out: the agent is reached "
          "without one")]),
        (("agent", "a", {"run": {"port": 9001}}),
         [(f"spec.run.port: 9001 is also the port of old_one ({Path('agents.yaml').absolute()}:5); choose another one, "
          "or leave it out: the agent is reached without one")]),
        (("agent", "a", {"run": {"depends_on": ["old_on"]}}),
         ["spec.run.depends_on[0]: there is no agent 'old_on'; did you mean 'old_one'?"]),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_cannot_be_used_is_left_out(said: tuple[str, str, object], problems: list[str]) -> None:
    found = deployed(said, ("agent", "other", {}))
    assert refused(found) == {f"{said[0]}/{said[1]}": problems}
    assert list(found.deployment.agents) == ["old_one", "other"]
    assert found.deployment.agents["old_one"] == BASE.agents["old_one"]


def test_an_agent_in_both_places_is_told_apart() -> None:
    found = deployed(("agent", "old_one", {}), ("agent", "x", {"llm": "none"}))
    assert [problem.message.partition(" in ")[0] for problem in found.doubles] == [
        "there is an agent old_one"
    ]
    assert len(found.problems) == 2


def test_the_older_of_two_keeps_a_port_and_a_name() -> None:
    kept = {"uid": "u", "owner": "o", "version": 1, "updatedAt": "x"}

    def agent(name: str, created: str | None) -> Resource:
        noted = {} if created is None else {**kept, "createdAt": created}
        return resource("agent", name, {"run": {"port": 9005}}, **noted)

    everything = ResourceSet([agent("a-x", None), agent("a_x", "2026-02"), agent("c", "2026-01")])
    found = deploy(BASE, everything, digest)
    assert list(found.deployment.agents) == ["old_one", "c"]
    assert "9005 is also the port of agent/c" in refused(found)["agent/a_x"][0]
    assert "and so is agent/a_x" in refused(found)["agent/a-x"][0]


def test_an_interpreter_that_is_none() -> None:
    found = deployed(("agent", "a", {"run": {"python": "/no/python"}}), executable=False)
    ((said,),) = refused(found).values()
    assert said.startswith("spec.run.python: '/no/python' is not an executable file; name the Python")


def test_a_server_name_that_is_too_long() -> None:
    base = replace(BASE, namespace="n" * 180)
    found = deploy(base, resources(("agent", "a" * 30, {}), ("agent", "b", {})), digest)
    assert list(found.deployment.agents) == ["old_one", "b"]
    assert "its server name has 211 characters, 200 are allowed" in refused(found)[f"agent/{'a' * 30}"][0]


def test_what_needs_it_is_left_out_as_well() -> None:
    found = deployed(
        ("llm", "bad", {**LLM, "apiKeyRef": "nobody/A"}),
        ("agent", "a", {"llm": "bad"}),
        ("agent", "b", {"run": {"depends_on": ["a"]}}),
        ("agent", "c", {"run": {"depends_on": ["b", "old_one"]}}),
        ("agent", "d", {"run": {"depends_on": ["old_one"]}}),
    )
    assert list(found.deployment.agents) == ["old_one", "d"]
    assert refused(found) == {
        "llm/bad": ["spec.apiKeyRef: there is no secret 'nobody'; apply it as well, or name another one"],
        "agent/a": ["spec.llm: llm/bad cannot be used; mend it first"],
        "agent/b": ["spec.run.depends_on: agent/a cannot be used; mend it first"],
        "agent/c": ["spec.run.depends_on: agent/b cannot be used; mend it first"],
    }


def test_what_was_meant_is_searched_only_as_long_as_somebody_reads_it() -> None:
    many = [resource("agent", f"a{n}", {"llm": "modell"}) for n in range(MOST_PROBLEMS + 5)]
    found = deploy(BASE, ResourceSet([resource("llm", "model", LLM), *many]), digest)
    told = [problems[0].remedy for problems in found.problems.values()]
    assert told.count("did you mean 'model'?") == MOST_PROBLEMS
    assert told.count("apply it as well, or name another one") == 5


def test_a_double_does_not_take_the_one_of_agents_yaml_away() -> None:
    found = deployed(("agent", "old_one", {}), ("agent", "a", {"run": {"depends_on": ["old_one"]}}))
    assert list(found.deployment.agents) == ["old_one", "a"]


def test_a_circle_is_left_out_with_who_waits_for_it() -> None:
    found = deployed(
        ("agent", "a", {"run": {"depends_on": ["b"]}}),
        ("agent", "b", {"run": {"depends_on": ["a"]}}),
        ("agent", "c", {"run": {"depends_on": ["a"]}}),
        ("agent", "d", {}),
    )
    assert list(found.deployment.agents) == ["old_one", "d"]
    assert refused(found)["agent/b"] == [
        "spec.run.depends_on: is a cycle: a → b → a; remove one of these dependencies"
    ]
    assert set(refused(found)) == {"agent/a", "agent/b", "agent/c"}


def test_problems_say_where_they_stand() -> None:
    found = deployed(("agent", "a", {"llm": "none"}))
    (problem,) = found.problems[ResourceId("agent", "a")]
    assert (problem.file, problem.line) == ("resources.yaml", 8)


def test_no_resources_change_nothing() -> None:
    assert deploy(BASE, ResourceSet(), digest) == Deployed(BASE, {})
