"""Mistakes while a deployment runs: two agents are ready, of which one needs the other, and a third has failed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mistakes.cases.parts import GOOD, PROJECT, SETTINGS, agent
from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from mistakes.mistake import Place

BROKEN = "  broken:\n    module: agents.broken\n    port: 8203\n    max_failures: 1\n"
AGENTS = GOOD.replace("    port: 8201\n", "    port: 8201\n    depends_on: [research]\n") + BROKEN
FILES = {**PROJECT, "agents.yaml": AGENTS, "agents/broken.py": "import pandaz\n"}
OTHER = "other/agents.yaml"


class _Closed:
    """A control socket that nobody may use, as that of another user."""

    def __init__(self, place: Place) -> None:
        self._socket = place.socket
        self._socket.chmod(0)

    def close(self) -> None:
        os.chmod(self._socket, 0o600)  # noqa: PTH101 - a socket


MISTAKES = (
    Mistake(
        name="mistyped-agent",
        commands=[
            f"pallasctl {verb}"
            for verb in (
                "status jarvs",
                "start jarvs",
                "stop jarvs",
                "restart jarvs researhc",
                "wait jarvs",
                "logs jarvs",
                "describe jarvs",
                "ask jarvs Hello",
                "chat jarvs",
                "connect cursor jarvs",
                "events jarvs",
                "health jarvs",
            )
        ],
    ),
    Mistake(name="unlike-any-agent", commands=["pallasctl status zebra", "pallasctl ask zebra Hello"]),
    Mistake(name="already-running", apart=True, commands=["pallas"]),
    Mistake(
        name="same-name-elsewhere",
        files={
            OTHER: "name: demo\nregistry_port: 8210\nagents:\n  jarvis:\n    module: agents.jarvis\n    port: 8211\n",
            "other/agents/jarvis.py": agent("jarvis"),
            "other/fastagent.config.yaml": SETTINGS,
        },
        commands=["pallas check other/agents.yaml"],
    ),
    Mistake(name="stop-of-a-dependency", commands=["pallasctl stop research"]),
    Mistake(
        name="restart-of-a-failed-agent", commands=["pallasctl restart broken", "pallasctl start broken"]
    ),
    Mistake(name="wait-for-a-failed-agent", commands=["pallasctl wait broken"]),
    Mistake(name="wait-that-times-out", commands=["pallasctl wait jarvis --for stopped --timeout 0.2"]),
    Mistake(name="ask-a-failed-agent", commands=["pallasctl ask broken Hello"]),
    Mistake(
        name="reload-of-a-broken-file",
        files={"agents.yaml": AGENTS + "    prot: 8203\n"},
        commands=["pallasctl reload"],
    ),
    Mistake(
        name="reload-for-code",
        files={"agents/research.py": agent("research") + "\n# changed\n"},
        commands=["pallasctl reload"],
    ),
    Mistake(name="watch-without-a-terminal", commands=["pallasctl status --watch"]),
    Mistake(
        name="no-permission",
        prepare=_Closed,
        apart=True,
        commands=["pallasctl status", "pallasctl restart jarvis"],
    ),
    Mistake(
        name="bad-log-options", commands=["pallasctl logs --since yesterday", "pallasctl logs --level loud"]
    ),
)
