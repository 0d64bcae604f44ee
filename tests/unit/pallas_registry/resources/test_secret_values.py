"""Secrets' values: shown by digests, kept, passed to workers."""

from __future__ import annotations

from pallas_common.protocol.agent.definition import AgentDefinition
from pallas_registry.resources.secret_values import shown, values_for, with_values
from support.data.resource_texts import digest_of, resource, resources

SECRET = resource("secret", "k", {"data": {"A": "one", "B": "two"}})


def test_values_are_shown_by_digests() -> None:
    assert shown(SECRET, digest_of) == {
        "data": {"A": {"digest": digest_of(SECRET, "A")}, "B": {"digest": digest_of(SECRET, "B")}}
    }


def test_what_is_shown_is_kept_when_it_is_applied() -> None:
    applied = resource("secret", "k", shown(SECRET, digest_of))
    assert with_values(applied, SECRET, digest_of) == (SECRET, ())
    changed = resource("secret", "k", {"data": {"A": {"digest": digest_of(SECRET, "A")}, "C": "three"}})
    kept, problems = with_values(changed, SECRET, digest_of)
    assert (kept.spec, problems) == ({"data": {"A": "one", "C": "three"}}, ())


def test_a_digest_without_its_value_is_refused() -> None:
    applied = resource(
        "secret",
        "k",
        {"data": {"A": {"digest": digest_of(SECRET, "B")}, "Z": {"digest": digest_of(SECRET, "A")}}},
    )
    found = [str(problem) for problem in with_values(applied, SECRET, digest_of)[1]]
    assert [text.partition(": ")[2] for text in found] == [
        "spec.data.A: is shown by a digest of another value than the one that is kept; write the value itself, as text",
        "spec.data.Z: is shown by its digest, and there is no value to keep; write the value itself, as text",
    ]
    assert len(with_values(applied, None, digest_of)[1]) == 2


def test_a_worker_gets_what_its_definition_refers_to() -> None:
    all_ = resources(("secret", "k", {"data": {"A": "one", "B": "two"}}))
    definition = AgentDefinition(instruction="", secrets={"k/A": "…", "k/gone": "…", "gone/A": "…"})
    assert values_for(definition, all_) == {"k/A": "one"}
