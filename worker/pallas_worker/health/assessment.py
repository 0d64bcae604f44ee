"""What is known of an agent's servers, provider and own state, taken together: its health. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pallas_common.protocol.reports import DownstreamHealth, HealthReport, ProviderHealth, Status


_REFUSED = re.compile("HTTP 40[13]")
"""How the error of a server begins that is there, and lets nobody in."""


def assess(
    downstreams: Sequence[DownstreamHealth],
    provider: ProviderHealth | None,
    failure: str | None = None,
    slow: Collection[DownstreamHealth | ProviderHealth] = (),
) -> tuple[Status, str | None]:
    """The status, and the message that goes with all but `ok`.

    A server or provider that is down or slow, or a server whose lists are cut, degrades the agent, which can still
    answer with what it has; `failure`, the reason why the agent cannot answer at all, is an error (interface
    specification, "Status Values" and "Result mapping"). Beside that reason, the state of the provider is no news.

    Args:
        downstreams: the newest outcome of each server.
        provider: that of the agent's LLM provider, if it has one that can be asked.
        failure: why no call can be answered, and what to do about it.
        slow: those of the outcomes that are up and took too long.
    """
    parts = [failure] if failure else []
    down = {server.name: _REFUSED.match(server.error or "") for server in downstreams if not server.up}
    if unreachable := [name for name, refused in down.items() if refused is None]:
        parts.append(f"Unreachable: {', '.join(unreachable)}")
    if refusing := [f"{name} ({refused[0]})" for name, refused in down.items() if refused is not None]:
        parts.append(f"Refused: {', '.join(refusing)}")
    if late := [f"{server.name} ({server.latency or 0:.1f} s)" for server in downstreams if server in slow]:
        parts.append(f"Slow: {', '.join(late)}")
    if cut := [f"{server.name} ({server.incomplete})" for server in downstreams if server.incomplete]:
        parts.append(f"Incomplete: {', '.join(cut)}")
    if provider is not None and not failure:
        if not provider.up:
            parts.append(f"LLM: {provider.name}: {provider.error or 'failed its check'}")
        elif provider in slow:
            parts.append(f"LLM: {provider.name}: slow ({provider.latency or 0:.1f} s)")
    if not parts:
        return "ok", None
    return ("error" if failure else "degraded"), "; ".join(parts)


def health_document(report: HealthReport) -> dict[str, str]:
    """The JSON object that `get_health` answers: `status`, `timestamp` and, unless ok, `message`."""
    document = {"status": report.status, "timestamp": report.timestamp}
    if report.message is not None:
        document["message"] = report.message
    return document
