"""Whether the LLM providers can be used: keys, addresses and the model's name are tried, no model is asked.

Knows the two providers' listing of models (technical reference, "Startup Preflight"); must not know what
follows from the outcome. It only warns, and never logs or reports a key.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from pallas_registry.logs import get_logger
from pallas_registry.protocol import ProviderHealth
from pallas_worker.http_errors import HTTP_FAILURES, describe
from pallas_worker.models import model_reference
from pallas_worker.provider_settings import active_provider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_worker.provider_settings import ProviderSettings

CHECK_TIMEOUT = 5.0
"""Seconds that one provider may take to answer."""
USUAL_ANTHROPIC_MODEL = "claude-sonnet-4-5"
"""Asked for to try a key where no agent's model is Anthropic's."""

_log = get_logger("pallas.worker.preflight")


class _FailedError(Exception):
    """The provider cannot be used. The message is the reason: one short line without secrets."""


class Preflight:
    """The checks of one worker's providers."""

    def __init__(
        self, providers: Iterable[ProviderSettings], model: str | None, *, timeout: float = CHECK_TIMEOUT
    ) -> None:
        """Prepare the checks; nothing is asked yet.

        Args:
            providers: all of them, with and without a key.
            model: the served agent's model, `provider.model-name`; its provider is the active one.
            timeout: seconds for each answer.
        """
        known = {provider.name: provider for provider in providers}
        self.model = model_reference(model).name if model is not None else None
        """The name that the provider knows it by."""
        self.active = known.get(name) if (name := active_provider(model)) else None
        """The provider that counts; None where the model needs none that can be checked."""
        self._others = [p for p in known.values() if p.api_key and p is not self.active]
        self._timeout = timeout
        self._told = False

    async def check_others(self) -> tuple[ProviderHealth, ...]:
        """Ask every provider that has a key, but for the active one, and log what is found."""
        healths = await asyncio.gather(*(self._check(provider, None) for provider in self._others))
        for health in healths:
            _tell(health)
        return tuple(healths)

    async def check_active(self) -> ProviderHealth | None:
        """Ask the active provider, and log what is found the first time; None where there is none."""
        if self.active is None:
            return None
        health = await self._check(self.active, self.model)
        if not self._told:
            self._told = True
            _tell(health)
        return health

    async def _check(self, provider: ProviderSettings, model: str | None) -> ProviderHealth:
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            async with asyncio.timeout(self._timeout):
                error = await check_provider(provider, model)
        except TimeoutError:
            error = f"no answer within {self._timeout:g} s"
        return ProviderHealth(name=provider.name, up=error is None, latency=clock() - begun, error=error)


def _tell(health: ProviderHealth) -> None:
    if health.up:
        _log.info("LLM provider %s is ready", health.name)
    else:
        _log.warning("LLM provider %s failed its check: %s", health.name, health.error)


async def check_provider(provider: ProviderSettings, model: str | None) -> str | None:
    """Ask one provider about its models: why it cannot be used, or None. The caller bounds the time.

    Args:
        provider: whom to ask, and with which key.
        model: the model that has to be there; None tries only the address and the key.
    """
    if not provider.api_key:
        return "no API key is configured"
    try:
        async with httpx.AsyncClient(timeout=None) as client:  # noqa: S113
            if provider.name == "anthropic":
                await _check_anthropic(client, provider, model)
            else:
                await _check_openai(client, provider, model)
    except _FailedError as failure:
        return str(failure)
    except HTTP_FAILURES as failure:
        return describe(failure)
    return None


async def _check_anthropic(client: httpx.AsyncClient, provider: ProviderSettings, model: str | None) -> None:
    """`GET /v1/models/{model}` (Anthropic API, "Get a Model")."""
    base = provider.base_url.rstrip("/").removesuffix("/v1")
    wanted = model or USUAL_ANTHROPIC_MODEL
    headers = {"x-api-key": provider.api_key or "", "anthropic-version": "2023-06-01"}
    response = await client.get(f"{base}/v1/models/{quote(wanted, safe='')}", headers=headers)
    if response.status_code == 404:
        raise _FailedError(f"model {wanted!r} not found")
    _demand_success(response)


async def _check_openai(client: httpx.AsyncClient, provider: ProviderSettings, model: str | None) -> None:
    """`GET {base_url}/models` (OpenAI API, "List models"; llama.cpp, vLLM and their like have it too)."""
    headers = {"authorization": f"Bearer {provider.api_key}"}
    response = await client.get(f"{provider.base_url.rstrip('/')}/models", headers=headers)
    if response.status_code == 404:
        raise _FailedError("HTTP 404 for the list of models: is base_url right?")
    _demand_success(response)
    if model is not None and model not in _listed(response):
        raise _FailedError(f"model {model!r} not found")


def _demand_success(response: httpx.Response) -> None:
    if response.status_code in {401, 403}:
        raise _FailedError(f"HTTP {response.status_code}: the API key is not accepted")
    if response.status_code != 200:
        raise _FailedError(f"HTTP {response.status_code}")


def _listed(response: httpx.Response) -> set[str]:
    """The ids in a list of models, `{"data": [{"id": …}, …]}`."""
    try:
        document: Any = response.json()
        return {entry["id"] for entry in document["data"]}
    except (ValueError, TypeError, KeyError):
        raise _FailedError("the answer is not a list of models") from None
