"""Skills, agents and plugins that fast-agent loads from folders of its own accord: disabled.

fast-agent is made for a person at a terminal, for whom the skills, agents and plugins that lie in the working directory
or in the home are welcome. An agent that is served to others must not get a shell because of a folder. What defines it
is its module, with all that the module loads itself, and the configuration of fast-agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent import config, paths
from fast_agent.agents.subagent_directive import resolve_subagent_directive
from fast_agent.core.harness import AgentHarness
from fast_agent.skills import registry as skill_registry
from fast_agent.skills import scope as skill_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from fast_agent.agents.agent_types import AgentConfig


def disable_implicit_sources() -> None:
    """Load none of them, in this process; call it before the agent's module is imported.

    Skills come from `skills=` of an agent, from `FastAgent(skills_directory=…)` or from `skills.directories`; agent
    cards from `load_agents(…)`; plugins from `plugins.enabled` of the deployment's configuration.
    """
    for owner, name, replacement in _REPLACED:
        setattr(owner, name, replacement)


def settle_subagents(definitions: Iterable[AgentConfig]) -> None:
    """Decide on subagents by the definition: fast-agent would look at the rendered instruction, which others write to.

    A line of it can ask for a tool that starts subagents, and a downstream server's instructions are part of it.
    """
    for definition in definitions:
        if definition.subagents is None:
            definition.subagents = resolve_subagent_directive(definition.instruction).found


def _no_skill_paths(*_: object, **__: object) -> list[Path]:
    return []


def _load_no_cards(harness: AgentHarness) -> None:
    """Agents are defined by the module."""


def _without_home_plugins(settings: Mapping[str, Any], **_: object) -> Mapping[str, Any]:
    return settings


_REPLACED: tuple[tuple[Any, str, object], ...] = (
    (paths, "default_skill_paths", _no_skill_paths),
    (skill_registry, "default_skill_paths", _no_skill_paths),
    (skill_scope, "default_skill_paths", _no_skill_paths),
    (AgentHarness, "_load_environment_agent_cards", _load_no_cards),
    (config, "_merge_home_plugin_settings", _without_home_plugins),
)
