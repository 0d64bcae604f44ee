"""Mistakes in fastagent.config.yaml that the file alone shows; others are in `code`."""

from __future__ import annotations

from mistakes.cases.parts import GOOD
from mistakes.mistake import Mistake


def _settings(name: str, text: str, file: str = "fastagent.config.yaml") -> Mistake:
    return Mistake(
        name=name, files={"agents.yaml": GOOD, file: text}, commands=["pallas check --offline", "pallas"]
    )


MISTAKES = (
    _settings("no-yaml", "default_model: [passthrough\n"),
    _settings("default-model-as-list", "default_model: [gpt-4.1, o3]\n"),
    _settings("log-level", "logger: {level: loud}\n"),
    _settings("secrets-no-yaml", "openai:\n  api_key: 'abc\n", "fastagent.secrets.yaml"),
    Mistake(
        name="literal-key",
        files={
            "agents.yaml": GOOD,
            "fastagent.config.yaml": "openai:\n  api_key: sk-abcdefghijklmnopqrstuvwxyz0123456789\n",
        },
        commands=["pallas check --offline"],
    ),
)
