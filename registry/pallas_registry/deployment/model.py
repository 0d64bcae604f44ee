"""The deployment as frozen facts: what `agents.yaml` and our keys of `fastagent.config.yaml` say.

Knows no file format, no process and no clock. Instances are made by `agents_file` and `model_settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pallas_common.protocol.limits import (
    LIVENESS_INTERVAL,
    MAX_CONCURRENCY,
    MAX_QUEUE,
    MAX_REQUEST_BYTES,
    SLOW_AFTER,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_common.protocol.llm import ModelCapabilities

RestartPolicy = Literal["always", "on-failure", "never"]
DependencyLossPolicy = Literal["keep", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent of the deployment. Times are in seconds, sizes in bytes."""

    name: str
    module: str
    port: int
    title: str
    description: str
    depends_on: tuple[str, ...] = ()
    icon: str | None = None
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    restart: RestartPolicy = "always"
    start_timeout: float = 60.0
    stop_timeout: float = 10.0
    max_failures: int = 5
    reset_after: float = 60.0
    on_dependency_loss: DependencyLossPolicy = "keep"
    max_concurrency: int = MAX_CONCURRENCY
    max_queue: int = MAX_QUEUE
    max_request_bytes: int = MAX_REQUEST_BYTES
    liveness_interval: float = LIVENESS_INTERVAL
    liveness_misses: int = 6
    memory_limit: int | None = None
    slow_after: float = SLOW_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The whole of `agents.yaml`; `agents` keeps the order of the file."""

    name: str
    agents: Mapping[str, Agent]
    version: str = "1.0.0"
    host: str = "localhost"
    hosts: tuple[str, ...] = ()
    """More names and addresses by which clients reach the deployment."""
    namespace: str
    registry_port: int = 24200
    bind: str
    path: Path
    max_surge: int = 1
    """Agents that may have a second worker at a time, while they are replaced gracefully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Our keys of `fastagent.config.yaml`.

    `default_model` is written `provider.model-name`; `capabilities` is None when the file does not declare
    any, and then none are published. `log_level` is `logger.level`, in upper case.
    """

    default_model: str | None = None
    capabilities: ModelCapabilities | None = None
    log_level: str | None = None


def slug(agent: str) -> str:
    """The agent's name in the registry: underscores become hyphens, `tech_research` → `tech-research`."""
    return agent.replace("_", "-")
