"""The deployment as frozen facts: what `agents.yaml` and our keys of `fastagent.config.yaml` say.

Knows no file format, no process and no clock. Instances are made by `agents_file` and `model_settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RestartPolicy = Literal["always", "on-failure", "never"]
DependencyLossPolicy = Literal["keep", "restart"]

MAX_CONCURRENCY = 32
"""Calls of one agent that run at a time, unless its entry says otherwise."""
MAX_QUEUE = 128
"""Calls that wait for their turn, unless the agent's entry says otherwise."""
MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""Bytes of one request's body, unless the agent's entry says otherwise: room for images in a long history."""
LIVENESS_INTERVAL = 5.0
"""Seconds from one heartbeat of a worker to the next, unless the agent's entry says otherwise."""
SLOW_AFTER = 1.0
"""Seconds beyond which a health probe counts as slow, unless the agent's entry says otherwise."""
MINIMUM_LIVENESS_INTERVAL = 0.1
"""Seconds that an agent's entry may say."""


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
class ModelCapabilities:
    """`model_capabilities` of `fastagent.config.yaml`. Sizes are in tokens."""

    vision: bool = False
    context_window: int = 131_072
    max_output_tokens: int = 16_384


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


HYPHENATED_PROVIDERS = frozenset({"anthropic-vertex", "fast-agent"})
"""fast-agent's providers that are not called by letters alone."""


def model_name(model: str) -> str:
    """The model's own name: what follows the provider's dot, `openai.gpt-4.1` → `gpt-4.1`.

    Providers are called by letters alone, but for a few, so that a model without one keeps its dots: `gpt-4.1` →
    `gpt-4.1`.
    """
    provider, dot, name = model.partition(".")
    return name if dot and (provider.isalpha() or provider in HYPHENATED_PROVIDERS) else model
