"""`project`: MCP servers and prompts that agents share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.problems import quoted
from pallas_registry.resources.kinds import names
from pallas_registry.resources.kinds.common import all_named, described, said

if TYPE_CHECKING:
    from pallas_registry.reading.fields import Fields

KEYS = ("description", "servers", "prompts")
PROMPT_KEYS = ("name", "description", "text")
MOST_PROMPTS = 100


def read(_name: str, fields: Fields) -> dict[str, Any]:
    """The spec."""
    fields.only(KEYS)
    return said(
        KEYS,
        {
            "description": described(fields),
            "servers": all_named(fields, "servers", "server"),
            "prompts": _prompts(fields),
        },
    )


def _prompts(fields: Fields) -> list[dict[str, Any]]:
    found: dict[str | None, dict[str, Any]] = {}
    for item in fields.items("prompts", MOST_PROMPTS):
        prompt = fields.of_item(item)
        prompt.only(PROMPT_KEYS)
        prompt.require("name", "give the prompt a name")
        prompt.require("text", "write what the prompt says")
        name = prompt.text("name", lambda text: names.resource_name("project", text))
        text = prompt.text("text", names.long_text)
        spec = said(PROMPT_KEYS, {"name": name, "description": described(prompt), "text": text})
        if name is not None and name in found:
            prompt.refuse("name", f"another prompt is called {quoted(name)}", "rename one of the two")
        found[name] = spec
    return list(found.values())
