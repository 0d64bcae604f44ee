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
    left, problems = without([id_of("llm/q"), id_of("secret/k"), id_of("agent/a")], ALL)
    remedy = "let them use another one, or delete them first"
    assert {str(id_): str(problem) for id_, problem in problems.items()} == {
        "llm/q": f"llm/q: is used by agent/a; {remedy}",
        "secret/k": f"secret/k: is used by llm/q, server/s, server/t; {remedy}",
        "agent/a": f"agent/a: is used by agent/b; {remedy}",
    }
    assert left == ALL


def test_what_nobody_uses_goes_beside_what_stays() -> None:
    left, problems = without([id_of("agent/b"), id_of("server/s")], ALL)
    assert list(map(str, problems)) == ["server/s"]
    assert set(left) == set(ALL) - {id_of("agent/b")}


def test_a_long_chain_of_users_stays_at_once() -> None:
    """Each needs the one before it, and the last one is not to go."""
    count = 3000
    chain = [
        resource("agent", f"a{n}", {"run": {"depends_on": [f"a{n - 1}"]}} if n else {}) for n in range(count)
    ]
    left, problems = without([each.id for each in chain[:-1]], ResourceSet(chain))
    assert (len(left), len(problems)) == (count, count - 1)


def test_all_can_go_together() -> None:
    assert without(list(ALL), ALL) == (ResourceSet(), {})


def test_a_project_leaves_its_agents() -> None:
    left, problems = without([id_of("project/p")], ALL)
    assert problems == {}
    assert left[id_of("agent/a")].spec == {"llm": "q", "models": ["free"], "servers": ["t"]}
    assert set(left) == set(ALL) - {id_of("project/p")}
    assert ALL[id_of("agent/a")].spec["project"] == "p"


def test_many_users_are_counted() -> None:
    many = [resource("agent", f"a{n}", {"llm": "q"}) for n in range(8)]
    everything = ResourceSet([resource("llm", "q", LLM), *many])
    _, problems = without([ResourceId("llm", "q")], everything)
    assert (
        problems[ResourceId("llm", "q")].message
        == "is used by agent/a0, agent/a1, agent/a2, agent/a3, agent/a4 and 3 more"
    )
