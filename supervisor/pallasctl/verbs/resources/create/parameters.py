"""`--default-temperature` and the like: one option for each parameter that an agent's turns may have by default.

Knows the parameters of declared agents by the names that chat completions have for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pallasctl.verbs.resources.create.values import FiniteNumber, JsonOrWord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NUMBER = FiniteNumber()
_JSON = JsonOrWord()

_ONE: tuple[tuple[str, click.ParamType[Any], str, str], ...] = (
    ("temperature", _NUMBER, "N", "0 to 2."),
    ("top_p", _NUMBER, "N", "0 to 1."),
    ("top_k", click.INT, "N", "Not every provider has it."),
    ("min_p", _NUMBER, "N", "0 to 1; of servers of open models."),
    ("max_tokens", click.INT, "N", "Of an answer."),
    ("presence_penalty", _NUMBER, "N", "-2 to 2."),
    ("frequency_penalty", _NUMBER, "N", "-2 to 2."),
    ("repetition_penalty", _NUMBER, "N", "0 to 10; of servers of open models."),
    ("seed", click.INT, "N", "For answers that can be repeated."),
    ("tool_choice", _JSON, "WORD|JSON", "auto, none, required, or a function as JSON."),
    ("parallel_tool_calls", click.BOOL, "true|false", "Whether a turn may call several tools at a time."),
    ("reasoning_effort", click.STRING, "WORD", "none, minimal, low, medium, high, xhigh or max."),
    ("service_tier", click.STRING, "WORD", "auto, default, flex or priority."),
    ("logit_bias", _JSON, "JSON", "Token numbers and biases."),
    ("extra", _JSON, "JSON", "What only this provider knows."),
)
_SEVERAL = (("stop", "TEXT", "Ends an answer; up to four times."),)


def parameter_options[F: Callable[..., Any]](function: F) -> F:
    """All of them; the function gets each as `default_<name>`."""
    for name, metavar, help_ in reversed(_SEVERAL):
        function = click.option(_option(name), multiple=True, metavar=metavar, help=help_)(function)
    for name, type_, metavar, help_ in reversed(_ONE):
        function = click.option(_option(name), type=type_, metavar=metavar, help=help_)(function)
    return function


def parameters_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """`defaultParams` of what the options gave, taken from `default_<name>`."""
    found = {name: given[f"default_{name}"] for name, *_ in _ONE if given[f"default_{name}"] is not None}
    return found | {name: list(given[f"default_{name}"]) for name, *_ in _SEVERAL if given[f"default_{name}"]}


def _option(name: str) -> str:
    return f"--default-{name.replace('_', '-')}"
