"""A declared agent's system prompt, as it is written: it comes by an API, and must not read files or fetch addresses.

fast-agent takes an instruction for a template: `{{file:…}}`, `{{url:…}}`, `{{currentDate}}` and others are filled in.
Knows fast-agent's templates; must not know definitions.
"""

from __future__ import annotations

from typing import Any

from fast_agent.agents.mcp_agent import McpAgent


def inert(text: str) -> str:
    """The template that is rendered as this text; in fast-agent's words, its braces are escaped."""
    return text.replace("{{", r"\{{").replace("}}", r"\}}")


def leave_prompts() -> None:
    """Leave rendered prompts as they are, in this process; fast-agent takes lines out that ask for subagents."""
    for owner, name, replacement in _REPLACED:
        setattr(owner, name, replacement)


def _unchanged(_: Any, instruction: str) -> str:
    return instruction


_REPLACED: tuple[tuple[Any, str, object], ...] = ((McpAgent, "process_rendered_instruction", _unchanged),)
