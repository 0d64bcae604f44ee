"""Which resources may lead to this machine: by who has written them, and by what they say themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pallas_registry.deployment.model import Deployment
from pallas_registry.resources.assembly import Assembly, assemble
from pallas_registry.resources.changes import Change, Changes, plan_apply
from pallas_registry.resources.definitions import Definitions
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.files import KeptResources
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.text import to_document, to_file_text
from support.data.resource_texts import digest_of
from support.supervisor.declared import agent, document, file, llm, open_llm, secret

if TYPE_CHECKING:
    from pallas_registry.resources.model import Network, Resource

TOOLS = ResourceId("server", "tools")


def server(url: str = "http://tools.test/mcp", **spec: Any) -> str:
    return document("server", "tools", url=url, **spec)


def applied(before: Assembly, network: Network, *documents: str) -> Changes:
    change = Change("ada", "2026-11-25T10:00:00Z", lambda: "uid", network)
    return plan_apply([file("a.yaml", *documents)], before, change)


def nothing() -> Assembly:
    base = Deployment(
        name="demo", agents={}, namespace="local.demo", bind="127.0.0.1", path=Path("/srv/agents.yaml")
    )
    return assemble(base, KeptResources())


def there(changes: Changes, id_: ResourceId = TOOLS) -> Resource:
    return changes.after.kept.resources[id_]


def said(resource: Resource) -> str:
    """Its document, as one gets it and may apply it again."""
    text = to_document(resource, digest=digest_of)
    del text["metadata"]["resourceVersion"]
    return json.dumps(text)


def words(changes: Changes) -> list[str]:
    return [each.word for each in changes.outcomes]


@pytest.mark.parametrize("network", ["open", "closed"])
def test_what_is_new_is_as_its_writer_may(network: Network) -> None:
    changes = applied(nothing(), network, server(), secret(), llm(), agent())
    for id_ in (TOOLS, ResourceId("secret", "keys"), ResourceId("llm", "small")):
        assert there(changes, id_).is_closed is (network == "closed")
        assert to_document(there(changes, id_), digest=digest_of)["metadata"]["network"] == network
    assert (
        "network"
        not in to_document(there(changes, ResourceId("agent", "deployer")), digest=digest_of)["metadata"]
    )


def test_a_file_that_says_nothing_is_open_and_one_that_is_written_says_it() -> None:
    [kept] = read_resources(server().encode(), "tools.yaml").resources
    assert not kept.is_closed
    closed = there(applied(nothing(), "closed", server()))
    [again] = read_resources(to_file_text(closed).encode(), "tools.yaml").resources
    assert again.is_closed


def test_who_changes_where_it_leads_has_to_have_the_right() -> None:
    opened = applied(nothing(), "open", server()).after
    elsewhere = applied(opened, "closed", server("http://other.test/mcp"))
    assert there(elsewhere).is_closed
    otherwise = applied(opened, "closed", server(description="Tools"))
    assert not there(otherwise).is_closed


def test_what_a_document_says_opens_nothing() -> None:
    opened = there(applied(nothing(), "open", server()))
    assert there(applied(nothing(), "closed", said(opened))).is_closed


def test_what_was_got_can_be_applied_again_without_a_change() -> None:
    for network in ("open", "closed"):
        before = applied(nothing(), network, server()).after
        text = said(before.kept.resources[TOOLS])
        for writer in ("open", "closed"):
            again = applied(before, writer, text)
            assert (words(again), again.put) == (["unchanged"], ())


def test_who_has_the_right_opens_what_others_have_written() -> None:
    before = applied(nothing(), "closed", server()).after
    changes = applied(before, "open", server())
    assert words(changes) == ["configured"]
    assert not there(changes).is_closed
    versions = [each.kept.resources[TOOLS].resource_version for each in (before, changes.after)]
    assert len(set(versions)) == 2


def test_a_definition_knows_where_its_urls_may_lead() -> None:
    changes = applied(nothing(), "open", server(), open_llm(), agent(llm="open", servers=["tools"]))
    opened = Definitions(changes.after.resources, str).definition(
        there(changes, ResourceId("agent", "deployer"))
    )
    assert opened.llm is not None
    assert (opened.llm.closed, opened.servers[0].closed) == (False, False)
    changes = applied(nothing(), "closed", server(), open_llm(), agent(llm="open", servers=["tools"]))
    closed = Definitions(changes.after.resources, str).definition(
        there(changes, ResourceId("agent", "deployer"))
    )
    assert closed.llm is not None
    assert (closed.llm.closed, closed.servers[0].closed) == (True, True)


def test_a_secret_in_a_url_takes_it_no_farther_than_its_own_writer_may() -> None:
    place = "http://${secret:place/HOST}/mcp"
    before = applied(nothing(), "open", secret("place", HOST="tools.test"), server(place)).after
    assert not Definitions(before.resources, str).server("tools").closed
    after = applied(before, "closed", secret("place", HOST="127.0.0.1:24201")).after
    assert not after.kept.resources[TOOLS].is_closed
    assert Definitions(after.resources, str).server("tools").closed
    elsewhere = applied(before, "closed", secret("other", KEY="x")).after
    assert not Definitions(elsewhere.resources, str).server("tools").closed


def test_only_what_has_a_url_may_say_where_it_leads() -> None:
    text = agent().replace('"metadata": {', '"metadata": {"network": "open", ')
    [problem] = read_resources(text.encode(), "a.yaml").problems
    assert problem.field.endswith("metadata.network")
    wrong = server().replace('"metadata": {', '"metadata": {"network": "near", ')
    assert read_resources(wrong.encode(), "a.yaml").problems


def test_a_change_by_hand_is_another_version() -> None:
    closed = there(applied(nothing(), "closed", server()))
    assert replace(closed, network="open").resource_version != closed.resource_version
