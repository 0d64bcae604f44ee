"""The downstream MCP servers of the served agent, as facts.

Knows what a downstream server is; must not talk to one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """One downstream MCP server, with its placeholders filled in.

    `url` and `headers` belong to "http" and "sse"; `command`, `args`, `env` and `cwd` to "stdio".
    """

    name: str
    transport: Literal["http", "sse", "stdio"]
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    forward_inbound_auth: bool = False
    closed: bool = False
    """Whether its URL may lead nowhere but where `pallas_common.http.reach` says."""
