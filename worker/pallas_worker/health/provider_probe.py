"""Whether an LLM provider can be used: key, address and the model's name are tried, no model is asked.

Knows the two providers' listing of models (technical reference, "Startup Preflight"); must not know what follows from
the outcome, nor who else makes the same check. Never reports a key, nor the provider's own words.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pallas_common.protocol.reports import ProviderHealth
from pallas_worker.downstreams.closed import probe_client
from pallas_worker.health.http_errors import HTTP_FAILURES, describe
from pallas_worker.raised import said
from pallas_worker.redact import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import httpx

    from pallas_worker.agent.models.capabilities import AskedModel
    from pallas_worker.agent.models.providers import ProviderSettings

CHECK_TIMEOUT = 5.0
"""Seconds that one provider may take to answer."""
MAX_ANSWER = 16 << 20
"""Bytes of a list of models that are read before it is given up."""


_NO_LIST = "HTTP {} for the list of models: is base_url right?"
_NO_LIST_STATUSES = (404, 405, 501)


def is_unlisted(health: ProviderHealth) -> bool:
    """Whether all that is wrong is that the provider does not list the model: it may answer all the same.

    Some have no list at all, as llama.cpp's server, and some list a model by another name than it is asked for by.
    """
    said = health.error or ""
    without_list = (_NO_LIST.format(status) for status in _NO_LIST_STATUSES)
    return said in without_list or (said.startswith("model ") and said.endswith(" not found"))


class _FailedError(Exception):
    """The provider cannot be used. The message is the reason: one short line without secrets."""


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """A check of one provider for one model."""

    provider: ProviderSettings
    model: str
    """The name that the provider knows it by."""
    timeout: float = CHECK_TIMEOUT

    async def __call__(self) -> ProviderHealth:
        """Ask once."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            async with asyncio.timeout(self.timeout):
                error = await check_provider(self.provider, self.model)
        except TimeoutError:
            error = f"no answer within {self.timeout:g} s"
        return ProviderHealth(name=self.provider.name, up=error is None, latency=clock() - begun, error=error)


def checks_for(
    models: Iterable[AskedModel], provider_of: Callable[[AskedModel], ProviderSettings | None]
) -> tuple[ProviderCheck | None, ...]:
    """The check of each model's provider, in the order of `models`; None where there is nothing to ask."""
    return tuple(
        ProviderCheck(provider, model.reference.name)
        if (provider := provider_of(model)) is not None
        else None
        for model in models
    )


async def check_provider(provider: ProviderSettings, model: str) -> str | None:
    """Ask one provider for the model: why it cannot be used, or None. The caller bounds the time."""
    if not provider.api_key:
        return f"no API key is configured: set {provider.name.upper()}_API_KEY in .env"
    try:
        async with probe_client(closed=provider.closed) as client:
            if provider.name == "anthropic":
                await _check_anthropic(client, provider, model)
            else:
                await _check_openai(client, provider, model)
    except _FailedError as failure:
        return str(failure)
    except HTTP_FAILURES as failure:
        return describe(failure)
    except Exception as error:  # noqa: BLE001 - of a client that cannot be made: calls will not be better off
        return one_line(said(error), 300)
    return None


async def _check_anthropic(client: httpx.AsyncClient, provider: ProviderSettings, model: str) -> None:
    """`GET /v1/models/{model}` (Anthropic API, "Get a Model")."""
    base = provider.base_url.rstrip("/").removesuffix("/v1")
    headers = {"x-api-key": provider.api_key or "", "anthropic-version": "2023-06-01"}
    url = f"{base}/v1/models/{quote(model, safe='')}"
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 404:
            raise _FailedError(f"model {model!r} not found")
        _demand_success(response)


async def _check_openai(client: httpx.AsyncClient, provider: ProviderSettings, model: str) -> None:
    """`GET {base_url}/models` (OpenAI API, "List models"; llama.cpp, vLLM and their like have it too)."""
    headers = {"authorization": f"Bearer {provider.api_key}"}
    url = f"{provider.base_url.rstrip('/')}/models"
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code in _NO_LIST_STATUSES:
            raise _FailedError(_NO_LIST.format(response.status_code))
        _demand_success(response)
        listed = _ids(await _read(response))
    if model not in listed:
        raise _FailedError(f"model {model!r} not found")


def _demand_success(response: httpx.Response) -> None:
    if response.status_code in {401, 403}:
        raise _FailedError(f"HTTP {response.status_code}: the API key is not accepted")
    if response.status_code != 200:
        raise _FailedError(f"HTTP {response.status_code}")


async def _read(response: httpx.Response) -> bytes:
    answer = bytearray()
    async for chunk in response.aiter_bytes():
        answer += chunk
        if len(answer) > MAX_ANSWER:
            raise _FailedError("the list of models is too long")
    return bytes(answer)


def _ids(answer: bytes) -> set[str]:
    """The ids in a list of models, `{"data": [{"id": …}, …]}`."""
    try:
        document: Any = json.loads(answer)
        return {entry["id"] for entry in document["data"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _FailedError("the answer is not a list of models") from None
