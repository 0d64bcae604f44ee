"""Mistyped commands, and commands where no supervisor runs."""

from __future__ import annotations

from mistakes.cases.parts import GOOD, PROJECT
from mistakes.mistake import Mistake


def _here(name: str, *commands: str, **files: str) -> Mistake:
    return Mistake(name=name, files={"agents.yaml": GOOD, **files}, commands=commands)


MISTAKES = (
    _here("pallas-verb", "pallas chek", "pallas start"),
    _here("pallasctl-verb", "pallasctl satus", "pallasctl frobnicate", "pallasctl"),
    _here("unknown-option", "pallas check --onlin", "pallas --cfg x", "pallasctl status --wide"),
    _here("option-for-the-server", "pallas --quiet check"),
    _here("two-modes", "pallas check --offline --online"),
    _here("unknown-agent-alone", "pallas --agent jarvs"),
    _here("no-agent-named", "pallasctl start", "pallasctl restart --all jarvis", "pallasctl ask"),
    _here("ask-without-text", "pallasctl ask jarvis", "pallasctl ask jarvis ''"),
    _here(
        "wrong-image", "pallasctl ask jarvis -i cat.png Hello", "pallasctl ask jarvis -i agents.yaml Hello"
    ),
    _here("unknown-client", "pallasctl connect curser", "pallasctl connect emacs"),
    _here("unknown-kind", "pallasctl describe agnet jarvis", "pallasctl describe thread x"),
    _here("bad-timeout", "pallasctl wait --all --timeout soon"),
    Mistake(
        name="not-running",
        files=PROJECT,
        commands=[
            "pallasctl status",
            "pallasctl stop jarvis",
            "pallasctl wait jarvis --timeout 0.1",
            "pallasctl ask jarvis Hello",
            "pallasctl chat jarvis",
            "pallasctl logs -f",
            "pallasctl events",
            "pallasctl health",
            "pallasctl connect cursor",
            "pallasctl describe jarvis",
            "pallasctl top",
            "pallasctl cat",
            "pallasctl reload",
            "pallasctl get agents",
            "pallasctl create secret key --data A=B",
        ],
    ),
    Mistake(name="not-in-the-folder", commands=["pallasctl status", "pallasctl reload"]),
    _here("wrong-socket", "pallasctl --socket /nowhere/control.sock status"),
)
