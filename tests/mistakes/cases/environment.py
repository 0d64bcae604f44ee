"""Mistakes in .env and in the environment."""

from __future__ import annotations

from mistakes.cases.parts import GOOD
from mistakes.mistake import Mistake


def _variable(name: str, assignment: str) -> Mistake:
    return Mistake(
        name=name,
        files={"agents.yaml": GOOD},
        commands=[f"{assignment} pallas check --offline", f"{assignment} pallas"],
    )


def _dotenv(name: str, text: str | bytes) -> Mistake:
    return Mistake(
        name=name, files={"agents.yaml": GOOD, ".env": text}, commands=["pallas check --offline", "pallas"]
    )


MISTAKES = (
    _dotenv("dotenv-unparsable", "OPENAI_API_KEY sk-123\n"),
    _dotenv("dotenv-open-quote", "OPENAI_API_KEY='abc\nOTHER=1\n"),
    _dotenv("dotenv-not-utf-8", b"NAME=J\xf6rg\n"),
    _variable("log-level", "PALLAS_LOG_LEVEL=loud"),
    _variable("probe-interval", "PALLAS_PROBE_INTERVAL=often"),
    _variable("log-stderr", "PALLAS_LOG_STDERR=yes"),
    _variable("agents-config", "PALLAS_AGENTS_CONFIG=agents.yml"),
    _variable("runtime-directory-too-long", f"PALLAS_RUNTIME_DIR=/{'x' * 120}"),
)
