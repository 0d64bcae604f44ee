"""Which models are found in a deployment's files, whatever lies there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.model import Agent
from pallas_registry.deployment.named_models import MOST_MODELS, named_models
from support.data.agents_text import parse

if TYPE_CHECKING:
    from pathlib import Path


def found(folder: Path, entries: str, default: str | None = None, **environ: str) -> tuple[str, ...]:
    file = folder / "agents.yaml"
    file.write_text(f"name: demo\nagents:\n{entries}")
    return named_models(read_deployment(file), default, environ, folder)


ONE = "  a: {module: agents.a, port: 9000}\n"


@pytest.mark.parametrize(
    ("source", "models"),
    [
        ('@fast.agent(name="a", model="openai.gpt-4.1")', ["openai.gpt-4.1"]),
        ("MODEL: str = 'haiku'\n", ["str"]),
        ("MODEL = 'sonnet?reasoning=high'\n", ["sonnet?reasoning=high"]),
        ('os.environ.get("MY_MODEL", "responses.gpt-5")', ["responses.gpt-5"]),
        ('os.environ["MODEL"] = "kimi:groq"', ["kimi:groq"]),
        ("@fast.agent(name='a')\n", []),
        ("import models\n", []),
        ("def model(): ...\n", []),
        ("\xff\xfe\0 model='a.b'", ["a.b"]),
    ],
)
def test_what_a_module_names(source: str, models: list[str], tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.py").write_bytes(source.encode("latin-1"))
    assert list(found(tmp_path, ONE)) == models


def test_the_default_comes_first_then_variables_then_files(tmp_path: Path) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "b.md").write_text("---\nname: b\nmodel: anthropic.claude-sonnet-4-5\n---\nHello\n")
    (tmp_path / "cards" / "notes.txt").write_text("model: never")
    (tmp_path / "c.py").write_text("model='c.c'")
    entries = (
        "  b: {card: cards, port: 9001, env: {OWN_MODEL: b.b, OTHER: x.x}}\n"
        "  c: {module: c.py, port: 9002, python: /bin/sh}\n"
    )
    models = found(tmp_path, entries, "openai.o3", FAST_MODEL="a.a", PATH="/bin", MODEL_TEXT="not a model")
    assert models == ("openai.o3", "a.a", "b.b", "anthropic.claude-sonnet-4-5")


def test_declared_agents_name_their_own_and_one_of_each_provider(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("model: never")
    llms = [LlmDefinition(name=f"q{n}", provider=f"p{n % 2}", model=f"m{n}") for n in range(4)]
    base = parse("name: demo\n")
    agents = {
        "a": replace(
            one_of("a"), definition=AgentDefinition(instruction="", llm=llms[0], models=tuple(llms[1:]))
        ),
        "b": replace(one_of("b"), definition=AgentDefinition(instruction="", model="openai.x")),
    }
    models = named_models(replace(base, agents=agents), None, {}, tmp_path)
    assert models == ("openai.x", "p0.m0", "p1.m1")


def one_of(name: str) -> Agent:
    return Agent(name=name, port=None, title=name, description=name)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.py").mkdir()
    assert found(tmp_path, ONE) == ()


def test_there_are_limits(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    text = "".join(f"model = 'm{number}'\n" for number in range(10_000))
    (tmp_path / "agents" / "a.py").write_text(text + f"model='{'x' * 10_000}'")
    assert len(found(tmp_path, ONE)) == MOST_MODELS
