"""Which models a deployment's files name, by a look that is cheap, runs nobody's code and may be wrong.

What is found only decides which libraries are imported before the first worker is forked: one that is missed is learnt
once a worker says which model it has, and one too many costs the time of its import. So texts are searched for what
looks like a model's setting, whatever their format: `model="openai.gpt-5"` in Python, `model: sonnet` in an agent card.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError
from pallas_registry.reading.files import read_file
from pallas_registry.reading.sources import CARD_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pallas_common.protocol.agent.source import AgentSource
    from pallas_registry.deployment.model import Deployment

MOST_MODELS = 50
MOST_FILES = 200
LONGEST_FILE = 256 * 1024
"""Characters that are searched."""

_NAME = r"[\w$.:/@?=&+-]{2,200}"
_SETTING = re.compile(
    rf"""model\w{{0,20}}["'\])]{{0,2}}[ \t]{{0,8}}[:=,][ \t]{{0,8}}["']?({_NAME})""", re.IGNORECASE
)
"""Also what a variable has by default: `os.environ.get("MY_MODEL", "haiku")`."""


def named_models(
    deployment: Deployment, default_model: str | None, environ: Mapping[str, str], directory: Path
) -> tuple[str, ...]:
    """What may be models of the agents, the default first; also words that are none.

    Args:
        environ: of the agents, but for what their entries add; a variable counts that has MODEL in its name.
        directory: the agents' working directory.
    """
    found: dict[str, None] = {}
    if default_model is not None:
        found[default_model] = None
    variables = [environ, *(agent.env for agent in deployment.agents.values())]
    for values in variables:
        found.update((value, None) for name, value in values.items() if _is_setting(name, value))
    found.update(dict.fromkeys(_declared(deployment)))
    for text in _texts(deployment, directory):
        found.update((match[1], None) for match in _SETTING.finditer(text[:LONGEST_FILE]))
        if len(found) >= MOST_MODELS:
            break
    return tuple(islice(found, MOST_MODELS))


def _declared(deployment: Deployment) -> Iterator[str]:
    """Models of declared agents: those that they name themselves, and one of each provider."""
    providers: dict[str, str] = {}
    for agent in deployment.agents.values():
        if (definition := agent.definition) is None:
            continue
        if definition.model is not None:
            yield definition.model
        for llm in (definition.llm, *definition.models):
            if llm is not None:
                providers.setdefault(llm.provider, f"{llm.provider}.{llm.model}")
    yield from providers.values()


def _is_setting(name: str, value: str) -> bool:
    return "MODEL" in name.upper() and re.fullmatch(_NAME, value) is not None


def _texts(deployment: Deployment, directory: Path) -> Iterator[str]:
    agents = deployment.agents.values()
    sources = {agent.source: None for agent in agents if agent.python is None and agent.definition is None}
    files = (file for source in sources for file in _files(source, directory))
    for file in islice(dict.fromkeys(files), MOST_FILES):
        try:
            data = read_file(file, "")
        except ConfigurationError:
            continue
        if data is not None:
            yield data.decode(errors="replace")


def _files(source: AgentSource, directory: Path) -> list[Path]:
    if source.kind == "module":
        module = directory.joinpath(*source.path.split("."))
        return [module.with_name(f"{module.name}.py"), module / "__init__.py"]
    path = directory / source.path
    if source.kind == "card" and path.is_dir():
        try:
            entries = list(islice(path.iterdir(), MOST_FILES))
        except OSError:
            return []
        return sorted(entry for entry in entries if entry.name.lower().endswith(CARD_SUFFIXES))
    return [path]
