"""Agent cards of a project: Markdown with front matter, or YAML, that fast-agent would take for an agent.

Pure. Knows the fields of a card by name, and how to tell a card from any other file with front matter.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.projects.code.facts import Card, Definition
from pallas_registry.projects.code.python_syntax import WITH_MODEL
from pallas_registry.reading.nodes import compose, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = {
    "agent": ("agents",),
    "smart": ("agents",),
    "chain": ("sequence",),
    "parallel": ("fan_out", "fan_in"),
    "evaluator_optimizer": ("generator", "evaluator"),
    "router": ("agents",),
    "orchestrator": ("agents",),
    "iterative_planner": ("agents",),
    "maker": ("worker",),
    "a2a": (),
}
"""The types of cards, and the fields that name the agents which such an agent is made of."""

_FIELDS = (
    "accepted_output_modes agents api_key auth child_timeout_sec commands cumulative cwd default "
    "description evaluator fan_in fan_out function_tools generator harness_tools headers "
    "history_merge_target history_source human_input include_request instruction k lifecycle_hooks "
    "match_strategy max_display_instances max_parallel max_refinements max_samples mcp_connect messages "
    "min_rating model name plan_iterations plan_type polling prompts red_flag_max_length "
    "refinement_instruction relative_card_path request_params request_timeout_seconds resources "
    "save_trajectory schema_version sequence servers shell skills streaming subagent_model subagents "
    "tool_hooks tool_input_schema tool_only tools transport trim_tool_history type url use_history "
    "variables worker "
)
FIELDS = frozenset(_FIELDS.split())
"""Every field that a card of some type may have."""

FOLDERS = frozenset({"agents", "agent-cards", "agent_cards", "tool-cards", "cards"})
"""Where a file with front matter is a card also if nothing in it says so."""

_COMMON = frozenset({"name", "description", "title", "tools", "model", "url"})
"""Fields that files of other kinds have as well."""
_NOT_CARDS = re.compile(r"(?i)(skill|readme.*|changelog|contributing|claude|license)\.(md|markdown)")
_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE
)


def read_card(data: bytes, path: str) -> Card | Problem | None:
    """The card in the file at `path`, what is wrong with what must be one, or None if it is something else."""
    if _NOT_CARDS.fullmatch(posixpath.basename(path)):
        return None
    folder = posixpath.dirname(path)
    at_home = posixpath.basename(folder) in FOLDERS
    body = ""
    front = data
    if path.lower().endswith((".md", ".markdown")):
        match = _FRONT_MATTER.match(data)
        if match is None:
            return None
        front = match[1]
        body = data[match.end() :].decode("utf-8", "replace").strip()
    elif not re.search(rb"(?m)^(type|instruction):", data):
        return None
    try:
        root = compose(front, path)
    except ConfigurationError as error:
        if not at_home:
            return None
        first = error.problems[0]
        return Problem(path, first.line, "", first.message, first.remedy)
    said = plain(root) if root is not None else {}
    if not isinstance(said, dict) or not _is_card(said, at_home=at_home):
        return None
    kind = _kind(said)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    definition = Definition(
        name=(_text(said.get("name")) or stem).strip().replace(" ", "_"),
        kind=kind,
        file=path,
        line=1,
        text=_text(said.get("description")) or _text(said.get("instruction")) or body or None,
        parts=tuple(part for field in PARTS[kind] for part in _texts(said.get(field))),
        servers=_texts(said.get("servers")),
        targets=_targets(said.get("mcp_connect")),
        has_model=kind not in WITH_MODEL or bool(said.get("model")),
        default=said.get("default") in {"true", "True", "yes", "on"},
        tool_only=said.get("tool_only") in {"true", "True", "yes", "on"},
    )
    return Card(definition=definition, folder=folder)


def _is_card(said: Mapping[str, object], *, at_home: bool) -> bool:
    if not said or not FIELDS.issuperset(said):
        return False
    kind = said.get("type")
    if kind is not None:
        return isinstance(kind, str) and _kind(said) in PARTS and kind.strip() != ""
    return at_home or not _COMMON.issuperset(said)


def _kind(said: Mapping[str, object]) -> str:
    return str(said.get("type") or "agent").strip().lower().replace("-", "_")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _targets(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else []
    found = (entry.get("target") if isinstance(entry, dict) else entry for entry in entries)
    return tuple(target for target in found if isinstance(target, str))
