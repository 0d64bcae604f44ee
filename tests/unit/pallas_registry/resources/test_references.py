"""What resources refer to, and what follows for a deletion."""

from __future__ import annotations

from pallas_registry.resources.model import ResourceId, ResourceSet
from pallas_registry.resources.references import references_of, users_of, without
from support.data.resource_texts import resource, resources

LLM = {"type": "openai", "model": "m"}
ALL = resources(
    ("secret", "k", {"data": {"A": "1", "B": "2"}}),
    ("llm", "q", {**LLM, "apiKeyRef": "k/A"}),
    ("llm", "free", LLM),
    ("server", "s", {"url": "http://h/", "headers": {"X": "${secret:k/A} ${secret:k/A}${secret:k/B}"}}),
    ("server", "t", {"command": "x", "args": ["a", "b${secret:k/B}"], "env": {"E": "${secret:k/B}"}}),
    ("project", "p", {"servers": ["s"]}),
    ("agent", "a", {"llm": "q", "models": ["free"], "project": "p", "servers": ["t"]}),
    ("agent", "b", {"model": "openai.x", "run": {"depends_on": ["a", "elsewhere"]}}),
)


def id_of(text: str) -> ResourceId:
    kind, _, name = text.partition("/")
    return next(id_ for id_ in ALL if id_ == (kind, name))


def said(text: str) -> list[tuple[str, str, str | None]]:
    return [(path, str(target), key) for path, target, key in references_of(ALL[id_of(text)])]


def test_every_reference_has_its_place() -> None:
    assert said("agent/a") == [
        ("spec.llm", "llm/q", None),
        ("spec.models[0]", "llm/free", None),
        ("spec.project", "project/p", None),
        ("spec.servers[0]", "server/t", None),
    ]
    assert said("agent/b") == []
    assert said("llm/q") == [("spec.apiKeyRef", "secret/k", "A")]
    assert said("server/s") == [("spec.headers.X", "secret/k", "A"), ("spec.headers.X", "secret/k", "B")]
    assert said("server/t") == [("spec.args[1]", "secret/k", "B"), ("spec.env.E", "secret/k", "B")]
    assert said("project/p") == [("spec.servers[0]", "server/s", None)]
    assert said("secret/k") == []


def test_a_url_may_refer_to_a_secret() -> None:
    (found,) = references_of(resource("server", "s", {"url": "http://h/${secret:k/A}"}))
    assert (found.path, found.key) == ("spec.url", "A")


def test_who_uses_what() -> None:
    used = {str(id_): [str(user) for user in users_of(id_, ALL)] for id_ in ALL}
    assert used == {
        "secret/k": ["llm/q", "server/s", "server/t"],
        "llm/q": ["agent/a"],
        "llm/free": ["agent/a"],
        "server/s": ["project/p"],
        "server/t": ["agent/a"],
        "project/p": ["agent/a"],
        "agent/a": ["agent/b"],
        "agent/b": [],
    }


def test_what_is_in_use_stays() -> None:
    _, problems = without([id_of("llm/q"), id_of("secret/k"), id_of("agent/a")], ALL)
    assert [str(problem) for problem in problems] == [
        "secret/k: is used by server/s, server/t; let them use another one, or delete them first",
        "agent/a: is used by agent/b; let them use another one, or delete them first",
    ]


def test_all_can_go_together() -> None:
    assert without(list(ALL), ALL) == (ResourceSet(), ())


def test_a_project_leaves_its_agents() -> None:
    left, problems = without([id_of("project/p")], ALL)
    assert problems == ()
    assert left[id_of("agent/a")].spec == {"llm": "q", "models": ["free"], "servers": ["t"]}
    assert set(left) == set(ALL) - {id_of("project/p")}
    assert ALL[id_of("agent/a")].spec["project"] == "p"


def test_many_users_are_counted() -> None:
    many = [resource("agent", f"a{n}", {"llm": "q"}) for n in range(8)]
    everything = ResourceSet([resource("llm", "q", LLM), *many])
    _, (problem,) = without([ResourceId("llm", "q")], everything)
    assert problem.message == "is used by agent/a0, agent/a1, agent/a2, agent/a3, agent/a4 and 3 more"
