"""fast-agent's connections of one agent, except that they do without a server that cannot be reached.

Knows fast-agent's aggregator from inside; must not know why or for whom an agent was made.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from fast_agent.mcp.mcp_aggregator import MCPAggregator, MCPAttachOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    type ObserveOperation = Callable[[str, str, bool, float], None]
    """Told of each downstream operation: server, kind (as `tools/call`), whether it went well, seconds."""

SLOW_ATTACH = 1.0
AVOID_FOR = 15.0
"""A server that let a call wait for `SLOW_ATTACH` seconds and then failed is left out for so many seconds."""

_trace = logging.getLogger("pallas.forward.trace")


@dataclass(frozen=True, slots=True)
class Reachability:
    """What the calls of one worker have learnt of its downstream servers."""

    avoided: dict[str, float] = field(default_factory=dict)
    """Until when, on the monotonic clock, a server is not tried again."""
    down: set[str] = field(default_factory=set)
    """The servers that could not be attached the last time, so that each outage is told once."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the parts of one instance share; it travels in the instance's own fast-agent context."""

    observe: ObserveOperation
    reachability: Reachability
    unreachable: dict[str, str] = field(default_factory=dict)
    aggregators: list[MCPAggregator] = field(default_factory=list)


class Aggregator(MCPAggregator):
    """fast-agent's connections of one agent, except that they do without a server that cannot be reached."""

    @property
    def _call(self) -> Call | None:
        return getattr(self.context, "pallas_call", None)

    async def __aenter__(self) -> Self:
        if self._call is not None:
            self._call.aggregators.append(self)
        await super().__aenter__()  # type: ignore[no-untyped-call]
        return self

    async def load_servers(self, *, force_connect: bool = False) -> None:
        call = self._call
        if call is None:
            await super().load_servers(force_connect=force_connect)
        elif force_connect or not self.initialized:
            await self._reset_runtime_indexes()
            for name in self._configured_server_names:
                settings = self._require_server_registry().get_server_config(name)
                if settings is None or settings.load_on_start or force_connect:
                    await self._attach(name, call)
            self.initialized = True

    async def _attach(self, name: str, call: Call) -> None:
        began = time.monotonic()
        if began < call.reachability.avoided.get(name, 0.0):
            call.unreachable[name] = "it did not answer a moment ago"
            return
        try:
            await self.attach_server(server_name=name, options=MCPAttachOptions())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a server, the agent does without it
            now = time.monotonic()
            if now - began >= SLOW_ATTACH:
                call.reachability.avoided[name] = now + AVOID_FOR
            call.unreachable[name] = (str(error).strip() or type(error).__name__).splitlines()[0]
            if name not in call.reachability.down:
                call.reachability.down.add(name)
                _trace.warning("%s: cannot attach %s", self.agent_name, name, exc_info=error)
        else:
            call.reachability.down.discard(name)

    async def _execute_on_server(
        self, server_name: str, operation_type: str, *args: Any, **kwargs: Any
    ) -> Any:
        began = time.monotonic()
        well = False
        try:
            result: Any = await super()._execute_on_server(server_name, operation_type, *args, **kwargs)
            well = not getattr(result, "is_error", False)
            return result
        finally:
            if self._call is not None:
                self._call.observe(server_name, operation_type, well, time.monotonic() - began)

    async def _execute_session_method(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute_session_method(*args, **kwargs)
        except Exception:
            # fast-agent makes one line for the LLM of this; operators need the traceback.
            _trace.exception("%s: %s failed downstream", self.agent_name, kwargs.get("method_name"))
            raise
