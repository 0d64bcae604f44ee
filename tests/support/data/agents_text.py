"""Texts of `agents.yaml` for tests, and what reading them yields."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.deployment.agent_entry import Look
from pallas_registry.deployment.agents_file import parse_deployment

if TYPE_CHECKING:
    from pallas_registry.deployment.model import Agent, Deployment

PATH = Path("agents.yaml")


def parse(text: str | bytes, *, executable: bool = True) -> Deployment:
    data = textwrap.dedent(text).encode() if isinstance(text, str) else text
    return parse_deployment(data, PATH, Look(lambda _: executable, lambda _: None))


def problems(text: str | bytes, *, executable: bool = True) -> tuple[Problem, ...]:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, executable=executable)
    return caught.value.problems


def problems_or_none(data: bytes) -> tuple[Problem, ...]:
    """The problems of the data, none if it is right; anything but a ConfigurationError fails."""
    try:
        parse(data)
    except ConfigurationError as error:
        return error.problems
    return ()


def one_agent(*lines: str) -> str:
    """A file whose only agent has these lines, of which the first is line 5 of the file."""
    head = "name: demo\nagents:\n  a:\n    port: 9000\n"
    module = "" if any(line.startswith(("module:", "card:")) for line in lines) else "    module: m.a\n"
    return head + "".join(f"    {line}\n" for line in lines) + module


def agent(*lines: str) -> Agent:
    return parse(one_agent(*lines)).agents["a"]
