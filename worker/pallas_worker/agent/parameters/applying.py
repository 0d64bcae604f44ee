"""Puts the parameters of a call to the LLM of one agent of its instance, in the way that its provider takes them.

Knows fast-agent's request parameters and its LLMs; must not know requests of chat completions. An instance belongs to
one call, so that its LLMs may be changed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from fast_agent.llm.reasoning_effort import available_reasoning_values, parse_reasoning_setting
from fast_agent.types import RequestParams

from pallas_common.problems import quoted
from pallas_common.protocol.agent.parameters import Function
from pallas_worker.agent.parameters.fates import FAMILIES, family_of
from pallas_worker.agent.parameters.tool_rules import ToolRules, obey
from pallas_worker.fastagent.application import limit_beside_thinking, thinks
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pallas_common.protocol.agent.parameters import Parameters
    from pallas_worker.agent.parameters.fates import Family

_FIELDS = {"stop": "stop_sequences"}
"""Fields of fast-agent's request parameters that have another name."""
_SAMPLING = ("temperature", "top_p", "top_k")
_UNKNOWN_LIMIT = 16_000
"""Tokens that fast-agent lets Anthropic's models write where it knows no limit; its API has no default."""


def apply_parameters(llm: Any, parameters: Parameters, tools: Collection[str]) -> list[str]:
    """Let the LLM be asked with these parameters from now on; what it does not take, as `name` or `name=value used`.

    Args:
        llm: fast-agent's LLM of an agent that belongs to this call alone.
        parameters: checked.
        tools: the names of the agent's tools.

    Raises:
        ArgumentError: the provider cannot honour one that is no hint.
    """
    given = dict(parameters.values)
    if family_of(llm.provider.config_name, reasons=False).fate("extra").how == "taken":
        return []
    ignored = []
    has_effort, effort = "reasoning_effort" in given, given.pop("reasoning_effort", None)
    unknown_effort = has_effort and not _think(llm, effort) and effort is not None
    request = _Request(llm, family_of(llm.provider.config_name, reasons=_reasons(llm)), tools)
    if unknown_effort:
        ignored += request.put_effort(effort)
    for name, value in given.items():
        ignored += request.put(name, value)
    request.put_extra(parameters.extra)
    return ignored + request.finish()


class _Request:
    """What the LLM's requests are going to have."""

    def __init__(self, llm: Any, family: Family, tools: Collection[str]) -> None:
        self._llm = llm
        self._family = family
        self._tools = tools
        self.fields: dict[str, object] = {}
        """Of fast-agent's request parameters."""
        self._body: dict[str, object] = {}
        self._rules = ToolRules()

    def put(self, name: str, value: object) -> list[str]:
        """Put one parameter; the names of what is not taken, or taken with another value."""
        if value is None:
            self._clear(name)
            return []
        if name == "tool_choice":
            self._choose(value)
            return []
        if name == "parallel_tool_calls":
            self._parallel(value)
            return []
        fate = self._family.fate(name)
        self._clear(name)  # fast-agent puts what the definition says in one of several places
        self._forget(fate.wire)
        if fate.how == "ignored":
            return [name]
        used = self._within_limits(name, value)
        if fate.how == "body":
            self._body[fate.wire] = used
        else:
            self.fields[_FIELDS.get(name, name)] = list(used) if isinstance(used, tuple) else used
        sent = used if name != "max_tokens" else self._sent_limit(used)
        return [] if sent == value else [f"{name}={sent}"]

    def put_effort(self, effort: object) -> list[str]:
        """Put the effort where fast-agent does not know how the model thinks: servers of open models know it better."""
        if self._family is not FAMILIES["compatible"]:
            return ["reasoning_effort"]
        self._body["reasoning_effort"] = effort
        return []

    def put_extra(self, extra: Mapping[str, object]) -> None:
        """Put what the caller says in the provider's own words."""
        if extra and self._family.fate("extra").how == "refused":
            raise ArgumentError(
                f"extra: cannot be sent to {self._at()}, whose requests fast-agent makes field by field; remove it",
                "extra",
            )
        self._body.update(extra)

    def finish(self) -> list[str]:
        """Let all requests of the LLM have it; what fast-agent would leave out for this model."""
        dropped = _dropped(self._llm, self.fields)
        self.fields.update(dict.fromkeys(dropped))
        params: RequestParams = self._llm.default_request_params.model_copy(deep=True)
        for name, value in self.fields.items():
            setattr(params, name, value)
        if self._body:
            metadata = dict(params.metadata or {})
            metadata["extra_body"] = {**(metadata.get("extra_body") or {}), **self._body}
            params.metadata = metadata
        self._llm.default_request_params = params
        obey(self._llm, self._rules)
        return dropped

    def _clear(self, name: str) -> None:
        """Take back what the agent's definition says."""
        if name == "tool_choice":
            self.fields["sampling_tool_choice"] = None
        elif name == "parallel_tool_calls":
            self.fields[name] = True
        elif name == "max_tokens":
            self.fields[name] = self._model_limit() or (_UNKNOWN_LIMIT if _is_anthropic(self._llm) else None)
        elif (field := _FIELDS.get(name, name)) in RequestParams.model_fields:
            self.fields[field] = None
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Take a key out of what the agent's definition adds to requests as it is."""
        params = self._llm.default_request_params
        if not isinstance(said := params.metadata, dict):
            return
        body = said.get("extra_body")
        kept = {key: value for key, value in said.items() if key != name}
        if isinstance(body, dict):
            kept["extra_body"] = {key: value for key, value in body.items() if key != name}
        self._llm.default_request_params = params.model_copy(update={"metadata": kept or None})

    def _choose(self, value: object) -> None:
        """Have the model call a tool, or none."""
        self.fields["sampling_tool_choice"] = None
        self._forget("tool_choice")
        if value == "auto":
            return
        if value == "none":
            self.fields["sampling_tool_choice"] = "none"
            return
        named = isinstance(value, Function)
        if not self._tools:
            raise ArgumentError("tool_choice: the agent has no tools; remove it", "tool_choice")
        if isinstance(value, Function) and value.name not in self._tools:
            raise ArgumentError(
                f"tool_choice: the agent has no tool {quoted(value.name)}; name it as the agent lists it",
                "tool_choice",
            )
        if self._family.fate("named tool_choice" if named else "tool_choice").how == "refused":
            why = (
                "a model that thinks cannot be made to call a tool; send reasoning_effort none as well"
                if _is_anthropic(self._llm)
                else f"{self._at()} cannot be made to call a tool {'of that name' if named else 'at all'}"
            )
            raise ArgumentError(f"tool_choice: {why}", "tool_choice")
        self._refuse_choice_of_model()
        self._rules.choice = value

    def _refuse_choice_of_model(self) -> None:
        """Let fast-agent say now that this model cannot be made to call a tool; later, it would try again for long."""
        if not _is_anthropic(self._llm):
            return
        probe = RequestParams(metadata={"tool_choice": {"type": "any"}})
        try:
            self._llm.prepare_provider_arguments(
                {"model": self._llm.default_request_params.model}, probe, set()
            )
        except ValueError as error:
            raise ArgumentError(f"tool_choice: {error}", "tool_choice") from None

    def _parallel(self, value: object) -> None:
        """Let the model call several tools at a time, or not."""
        self.fields["parallel_tool_calls"] = value
        fate = self._family.fate("parallel_tool_calls")
        if value or fate.how == "field" or not self._tools:
            return
        if fate.how == "refused":
            raise ArgumentError(
                f"parallel_tool_calls: {self._at()} cannot be kept from calling several tools at a time; remove it",
                "parallel_tool_calls",
            )
        self._rules.one_at_a_time = True

    def _within_limits(self, name: str, value: Any) -> Any:
        """The value, or the next one that the provider takes."""
        if name == "temperature":
            return min(value, self._family.largest_temperature)
        if name == "max_tokens":
            limit = self._model_limit()
            return max(self._family.fewest_tokens, min(value, limit) if limit else value)
        return value

    def _sent_limit(self, limit: Any) -> Any:
        """What fast-agent makes of a limit: a model that thinks has to have more than its budget of thought."""
        if not _is_anthropic(self._llm):
            return limit
        return limit_beside_thinking(self._llm, limit)

    def _model_limit(self) -> int | None:
        limit = self._llm.resolved_model.max_output_tokens
        return limit if isinstance(limit, int) and limit > 0 else None

    def _at(self) -> str:
        return f"the model at {self._llm.provider.display_name}"


def _reasons(llm: Any) -> bool:
    """Whether the model is one of those of its provider that take no sampling hints, because they think."""
    if _is_anthropic(llm):
        return thinks(llm)
    return bool(llm.resolved_model.reasoning_mode == "openai")


def _think(llm: Any, effort: Any) -> bool:
    """Let the model think so much, or as much as its provider has it; whether that can be said to it."""
    spec = llm.reasoning_effort_spec
    if spec is None:
        return False
    if effort is None:
        llm.set_reasoning_effort(spec.default)
        return True
    # Either may be the model's way to think no more.
    for setting in [effort, False] if effort == "none" else [effort]:
        with contextlib.suppress(ValueError):
            llm.set_reasoning_effort(parse_reasoning_setting(setting))
            return True
    known = ", ".join(available_reasoning_values(spec))
    raise ArgumentError(
        f"reasoning_effort: the model does not take {quoted(str(effort))}; it takes {known}",
        "reasoning_effort",
    )


def _dropped(llm: Any, fields: Mapping[str, object]) -> list[str]:
    """The sampling hints that fast-agent leaves out for this model of Anthropic's, whose API has them no more."""
    hints: dict[str, Any] = {name: fields[name] for name in _SAMPLING if fields.get(name) is not None}
    if not hints or not _is_anthropic(llm):
        return []
    prepared = llm.prepare_provider_arguments(
        {"model": llm.default_request_params.model}, RequestParams(**hints), set()
    )
    kept = {**prepared, **(prepared.get("extra_body") or {})}
    return [name for name in hints if name not in kept]


def _is_anthropic(llm: Any) -> bool:
    return bool(llm.provider.config_name.startswith("anthropic"))
