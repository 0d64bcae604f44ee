"""What the supervisor says to operators, without the names of what a principal may not view."""

from __future__ import annotations

import pytest

from pallas_gateway.access.reading import told
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_registry.resources.model import ResourceId

ADA = Principal(
    id="1",
    subject="1",
    name="ada",
    role="human",
    grants=tuple(map(parse_grant, ("view:agents:jarvis", "view:resources:server/*"))),
)
AGENTS = ("jarvis", "secret-agent", "secret")
NOBODY = "an agent that you may not view"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("is used by agent/jarvis, agent/secret-agent", f"is used by agent/jarvis, {NOBODY}"),
        ("llm/x is used by server/tools", "an llm that you may not view is used by server/tools"),
        ("secret/keys has no API_KEY", "a secret that you may not view has no API_KEY"),
        ("agent/mine would not work any more", "agent/mine would not work any more"),
        ("24201 is also the port of secret-agent (line 4)", f"24201 is also the port of {NOBODY} (line 4)"),
        (
            "there is no agent 'secrets'; did you mean 'secret'?",
            f"there is no agent 'secrets'; did you mean '{NOBODY}'?",
        ),
        ("jarvis is stopped.", "jarvis is stopped."),
        ("secret-agent.", f"{NOBODY}."),
        ("files/agent/other.yaml:3: spec.llm: is wrong", "files/agent/other.yaml:3: spec.llm: is wrong"),
        ("secrets are kept", "secrets are kept"),
    ],
)
def test_only_what_may_be_viewed_and_what_was_said_is_named(said: str, shown: str) -> None:
    assert told(ADA, said, AGENTS, {ResourceId("agent", "mine")}) == shown
