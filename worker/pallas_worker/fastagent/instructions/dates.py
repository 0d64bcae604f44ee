"""`{{currentDate}}` in instructions, filled when an instance is made.

fast-agent fills it where an agent is defined: a worker that has run for days would tell its models the day of its
start. Knows fast-agent's templates; must not know calls.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import datetime as dt
from typing import Any

from fast_agent.core import direct_decorators
from fast_agent.core.template_escape import protect_escaped_braces, restore_escaped_braces

PLACE = "{{currentDate}}"

_HELD = "__PALLAS_CURRENT_DATE__"


def today() -> str:
    """Return the date as fast-agent writes it, by the time zone of the process."""
    return dt.datetime.now().strftime("%d %B %Y")  # noqa: DTZ005 - the local day, as fast-agent's


def keep_dates() -> None:
    """Leave `{{currentDate}}` in instructions that are defined from now on, in this process."""
    direct_decorators._apply_templates = _without_dates


def with_date(definition: Any) -> Any:
    """Return an agent's definition with today's date, in a configuration of its own that may be changed."""
    config = definition["config"]
    config.instruction = _filled(config.instruction)
    if (params := config.default_request_params) is not None and params.system_prompt is not None:
        params.system_prompt = _filled(params.system_prompt)
    return {name: _filled(value) if name == "instruction" else value for name, value in definition.items()}


def _filled(text: Any) -> Any:
    if not isinstance(text, str) or PLACE not in text:
        return text
    return restore_escaped_braces(protect_escaped_braces(text).replace(PLACE, today()), keep_escape=True)


_apply_templates = direct_decorators._apply_templates


def _without_dates(text: str) -> str:
    return _apply_templates(text.replace(PLACE, _HELD)).replace(_HELD, PLACE)
