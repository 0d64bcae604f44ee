"""What it takes to write a resource, and what of one is shown to whom."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_gateway.access.reading import HIDDEN, shown
from pallas_gateway.access.writing import asked_for, lacking
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from support.data.resource_texts import resource


def principal(*grants: str) -> Principal:
    return Principal(id="1", name="ada", role="human", grants=tuple(map(parse_grant, grants)))


def missing(grants: tuple[str, ...], kind: Any, spec: dict[str, Any]) -> str | None:
    found = lacking(principal(*grants), "create", resource(kind, "it", spec))
    return None if found is None else str(found)


WRITES = ("create:agents", "create:resources")


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ({"llm": "openai.gpt-4.1"}, "run:resources:llm/openai.gpt-4.1"),
        ({"model": "openai.gpt-4.1"}, "run:resources:llm/openai.gpt-4.1"),
        ({"model": "openai.gpt-4.1?reasoning=high"}, "run:resources:llm/openai.gpt-4.1"),
        ({"model": "sonnet"}, "run:resources:llm/sonnet"),
        ({}, None),
    ],
)
def test_a_model_takes_the_same_however_it_is_named(spec: dict[str, Any], takes: str | None) -> None:
    assert missing(WRITES, "agent", spec) == takes
    if takes is not None:
        assert missing((*WRITES, takes), "agent", spec) is None
        assert missing((*WRITES, "run:resources:llm/other"), "agent", spec) == takes


@pytest.mark.parametrize("kind", ["llm", "server"])
@pytest.mark.parametrize("host", ["localhost:24201", "127.1", "[::1]:9", "[::ffff:10.0.0.1]", "tools.test"])
def test_a_url_that_plainly_leads_here_takes_a_right(kind: str, host: str) -> None:
    spec = {"url": f"http://{host}/mcp"} | ({"type": "openai", "model": "m"} if kind == "llm" else {})
    here = host not in ("tools.test", "[::ffff:10.0.0.1]")
    assert missing(WRITES, kind, spec) == ("edit:network" if here else None)
    assert missing((*WRITES, "edit:network"), kind, spec) is None


@pytest.mark.parametrize(
    ("grant", "network"), [("*", "open"), ("edit:network", "open"), ("edit:code", "closed")]
)
def test_the_supervisor_is_told_where_urls_may_lead(grant: str, network: str) -> None:
    assert asked_for(principal(grant)) == {"Pallas-Owner": "ada", "Pallas-Network": network}


def test_digests_are_for_those_who_may_change_the_secret() -> None:
    digests = {"data": {"KEY": {"digest": "hmac-sha256:00"}}}
    document = {"kind": "secret", "metadata": {"name": "keys"}, "spec": digests}
    assert shown(principal("view:resources"), document)["spec"] == {"data": {"KEY": {"digest": HIDDEN}}}
    assert shown(principal("view:resources", "edit:resources:secret/keys"), document)["spec"] == digests
