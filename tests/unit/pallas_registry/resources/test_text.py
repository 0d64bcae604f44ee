"""Resources as documents and as YAML."""

from __future__ import annotations

import yaml

from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.text import to_document, to_file_text, to_text, to_texts
from support.data.resource_texts import digest_of, resource

KEPT = {
    "uid": "u",
    "owner": "ann",
    "version": 2,
    "createdAt": "2026-01-02T03:04:05Z",
    "updatedAt": "2026-02-02T00:00:00Z",
}
AGENT = resource(
    "agent",
    "a",
    {"systemPrompt": "One.\nTwo: three\n", "description": "yes", "run": {"idle_timeout": 5}, "tools": []},
    **KEPT,
)

TEXT = """\
apiVersion: pallas/v1
kind: agent
metadata:
  name: a
  uid: u
  owner: ann
  version: 2
  createdAt: '2026-01-02T03:04:05Z'
  updatedAt: '2026-02-02T00:00:00Z'
spec:
  description: 'yes'
  systemPrompt: |
    One.
    Two: three
  tools: []
  run:
    idle_timeout: 5
"""


def test_a_file_says_all_in_a_fixed_order() -> None:
    assert to_file_text(AGENT) == TEXT


def test_a_document_has_its_version_and_its_status() -> None:
    document = to_document(AGENT, digest=digest_of, status={"state": "idle"})
    assert list(document) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert document["metadata"]["resourceVersion"] == AGENT.resource_version
    found, problems, versions = read_resources(to_text(document).encode(), "f")
    assert (found, problems, versions) == ((AGENT,), (), {AGENT.id: AGENT.resource_version})


def test_several_documents_are_one_text() -> None:
    secret = resource("secret", "k", {"data": {"A": "value"}})
    text = to_texts(to_document(each, digest=digest_of) for each in (AGENT, secret))
    assert "value" not in text
    found = read_resources(text.encode(), "f").resources
    assert found[0] == AGENT
    assert found[1].spec == {"data": {"A": {"digest": digest_of(secret, "A")}}}


def test_a_secret_is_in_full_only_in_its_file() -> None:
    secret = resource("secret", "k", {"data": {"A": "a\nb", "B": "1e5", "C": "0x1f"}})
    assert read_resources(to_file_text(secret).encode(), "f").resources == (secret,)
    assert yaml.safe_load(to_file_text(secret))["spec"]["data"] == {"A": "a\nb", "B": "1e5", "C": "0x1f"}


def test_a_version_tells_nothing_of_a_secret() -> None:
    one, other = (resource("secret", "k", {"data": {"A": value}}, **KEPT) for value in ("one", "other"))
    assert one != other
    assert one.resource_version == other.resource_version
    more = resource("secret", "k", {"data": {"A": "one", "B": "two"}}, **KEPT)
    assert more.resource_version != one.resource_version
    later = resource("secret", "k", {"data": {"A": "one"}}, **{**KEPT, "version": 3})
    assert later.resource_version != one.resource_version


def test_the_version_is_another_one_where_something_is_said_otherwise() -> None:
    other = resource("agent", "a", {**AGENT.spec, "description": "no"}, **KEPT)
    assert other.resource_version != AGENT.resource_version
    assert (
        resource("agent", "a", AGENT.spec, **{**KEPT, "version": 3}).resource_version
        != AGENT.resource_version
    )
    assert resource("agent", "a", AGENT.spec, **KEPT).resource_version == AGENT.resource_version
