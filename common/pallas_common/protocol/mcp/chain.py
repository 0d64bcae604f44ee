"""The chain of agents that a call has come by: how it travels, and when it has come back too often or gone too deep.

Agents that hand to each other would otherwise do so without end, and wait for each other's places. The chain travels in
`_meta` of a tool call, or in a header of chat completions. It gives no rights: whoever makes one up is refused the
sooner, and whoever leaves it out begins a new one, as every caller from outside does. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

type Chain = tuple[str, ...]
"""The agents from the first on, each as `name@deployment`."""

META = "pallas/chain"
HEADER = "Pallas-Chain"
DEEPEST = 16
"""Agents of a chain, the called one included."""

_LINK = re.compile(r"[A-Za-z0-9._-]{1,64}@[A-Za-z0-9._-]{1,64}")


def link(agent: str, deployment: str) -> str:
    """Name an agent as a link of chains."""
    return f"{agent}@{deployment}"


def chain_in_meta(meta: object) -> Chain:
    """Read the chain of a tool call's `_meta`; what cannot be one is none."""
    said = meta.get(META) if isinstance(meta, dict) else None
    return _read(said) if isinstance(said, list) else ()


def chain_in_header(value: str | None) -> Chain:
    """Read the chain of a header; what cannot be one is none."""
    return _read(part.strip() for part in value[:4096].split(",")) if value else ()


def _read(links: Iterable[object]) -> Chain:
    found: list[str] = []
    for each in links:
        if not isinstance(each, str) or _LINK.fullmatch(each) is None:
            return ()
        found.append(each)
        if len(found) > DEEPEST:  # enough to be refused
            break
    return tuple(found)


def header_of(chain: Chain) -> dict[str, str]:
    """Make the header that tells the chain; none where there is none."""
    return {HEADER: ", ".join(chain)} if chain else {}


def refusal(chain: Chain, own: str, most_returns: int) -> str | None:
    """Say why a call that has come by `chain` does not go on at the agent `own`, for a model; None where it does."""
    returns = chain.count(own)
    if returns > most_returns:
        times = (
            "not at all" if most_returns == 0 else f"{most_returns} time{'s' * (most_returns > 1)} at most"
        )
        return (
            f"the agent {_name(own)} was not asked: this call has come from it already ({_path(chain, own)}), and may "
            f"come back to it {times} (max_returns); answer with what is known so far"
        )
    if len(chain) >= DEEPEST:
        return (
            f"the agent {_name(own)} was not asked: {len(chain)} agents have handed this call on to each other, and no "
            f"more may ({_path(chain, own)}); answer with what is known so far"
        )
    return None


def _path(chain: Chain, own: str) -> str:
    return " → ".join(_name(each) for each in (*chain[-DEEPEST:], own))


def _name(each: str) -> str:
    return each.partition("@")[0]
