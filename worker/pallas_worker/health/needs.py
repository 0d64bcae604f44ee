"""What an agent needs, its servers and LLM providers, as subjects of its health.

Knows how each is probed; must not know when they are due.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import random
from typing import TYPE_CHECKING

from pallas_common.protocol.reports import DownstreamHealth, ProviderHealth
from pallas_worker.health.provider_probe import checks_for
from pallas_worker.health.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from pallas_worker.agent.models.capabilities import AskedModel
    from pallas_worker.agent.models.providers import ProviderSettings
    from pallas_worker.downstreams.facts import Downstream
    from pallas_worker.health.subjects import Look

    type Probe = Callable[[Downstream], Awaitable[DownstreamHealth]]
    """Probes one downstream server; never raises for what the server does."""


PROVIDER_INTERVALS = 4
"""How many times as long a provider is left alone as a server: a minute at least, and no two agents in step."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An LLM provider that the agent needs, as far as it can be asked."""

    name: str
    check: Look | None
    """None where only calls show whether it can be used."""
    counts: bool = True
    """Whether it is the active one, on which the agent's health depends."""


def providers_for(
    models: Sequence[AskedModel],
    provider_of: Callable[[AskedModel], ProviderSettings | None],
) -> tuple[Provider, ...]:
    """The LLM providers of these models, each check once; that of the first model counts for the agent's health.

    Of those that cannot be asked, only that one is kept: calls will show how it is.

    Args:
        models: the served agent's own first.
        provider_of: how the provider of a model is reached; None for one that cannot be asked.
    """
    checks = checks_for(models, provider_of)
    active = models[0].reference if models and checks[0] is None else None
    unasked = () if active is None or active.provider is None or active.needs_no_key else (active.provider,)
    return (
        *(Provider(name=name, check=None) for name in unasked),
        *(
            Provider(
                name=check.provider.name,
                check=check,
                counts=check is checks[0],
            )
            for check in dict.fromkeys(checks)
            if check is not None
        ),
    )


def subjects_for(
    downstreams: Iterable[Downstream],
    providers: Iterable[Provider],
    probe: Probe,
    *,
    interval: float,
    slow_after: float,
    on_demand: Collection[str] = (),
) -> list[Subject]:
    """The servers in their order, then the providers; see `Health` for the arguments."""
    servers = [
        Subject(
            kind=DownstreamHealth,
            name=server.name,
            look=partial(_starts_on_demand if server.name in on_demand else probe, server),
            interval=interval,
            slow_after=slow_after,
        )
        for server in downstreams
    ]
    return servers + [
        Subject(
            kind=ProviderHealth,
            name=provider.name,
            look=provider.check,
            interval=PROVIDER_INTERVALS * interval * (1 + random() / 4),  # noqa: S311 - spread, not secret
            slow_after=slow_after,
            counts=provider.counts,
        )
        for provider in providers
    ]


async def _starts_on_demand(server: Downstream) -> DownstreamHealth:
    """The state of an agent that a probe would wake: it is there as soon as somebody connects."""
    return DownstreamHealth(name=server.name, up=True, latency=None)
