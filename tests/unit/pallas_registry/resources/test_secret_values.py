"""Secrets' values: shown by digests, kept, passed to workers."""

from __future__ import annotations

from pallas_common.protocol.agent.definition import AgentDefinition
from pallas_registry.resources.secret_values import shown, values_for, with_values
from support.data.resource_texts import digest, resource, resources

SECRET = resource("secret", "k", {"data": {"A": "one", "B": "two"}})


def test_values_are_shown_by_digests() -> None:
    assert shown(SECRET.spec, digest) == {
        "data": {"A": {"digest": digest("one")}, "B": {"digest": digest("two")}}
    }


def test_what_is_shown_is_kept_when_it_is_applied() -> None:
    applied = resource("secret", "k", shown(SECRET.spec, digest))
    assert with_values(applied, SECRET, digest) == (SECRET, ())
    changed = resource("secret", "k", {"data": {"A": {"digest": digest("one")}, "C": "three"}})
    kept, problems = with_values(changed, SECRET, digest)
    assert (kept.spec, problems) == ({"data": {"A": "one", "C": "three"}}, ())


def test_a_digest_without_its_value_is_refused() -> None:
    applied = resource(
        "secret", "k", {"data": {"A": {"digest": digest("two")}, "Z": {"digest": digest("one")}}}
    )
    found = [str(problem) for problem in with_values(applied, SECRET, digest)[1]]
    assert [text.partition(": ")[2] for text in found] == [
        "spec.data.A: is shown by a digest of another value than the one that is kept; write the value itself, as text",
        "spec.data.Z: is shown by its digest, and there is no value to keep; write the value itself, as text",
    ]
    assert len(with_values(applied, None, digest)[1]) == 2


def test_a_worker_gets_what_its_definition_refers_to() -> None:
    all_ = resources(("secret", "k", {"data": {"A": "one", "B": "two"}}))
    definition = AgentDefinition(instruction="", secrets={"k/A": "…", "k/gone": "…", "gone/A": "…"})
    assert values_for(definition, all_) == {"k/A": "one"}
