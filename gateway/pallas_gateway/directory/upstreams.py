"""Where calls go: the ways to agents and projects with their keys, and whose the agents' own tokens are.

What `GET /v1/upstreams` says is kept until something says that it is old; then it is asked for again, of all that are
old together.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.gateway import Upstreams
from pallas_control.errors import ControlError, RefusedError
from pallas_gateway.directory import topics
from pallas_gateway.directory.mirror import Changes
from pallas_gateway.identity.grants import Grant
from pallas_gateway.identity.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pallas_common.protocol.gateway import AgentUpstream, ProjectUpstream, ServerUpstream
    from pallas_gateway.directory.control import ControlClient, Query

PATH = "/v1/upstreams"
MOST_NAMED = 50
"""Agents that are asked for by name; beyond, all are."""
REFRESH_EVERY = 1.0
"""Seconds between two times that all are asked for because somebody has a token that nobody knows."""

_log = get_logger("pallas.gateway.directory")


class UpstreamCache:
    """The ways to agents and projects.

    Args:
        changed: is told what lists have changed.
    """

    def __init__(self, client: ControlClient, changed: Callable[[Changes], None]) -> None:
        self._client = client
        self._changed = changed
        self._agents: dict[str, AgentUpstream] = {}
        self._projects: dict[str, ProjectUpstream] = {}
        self._workers: dict[str, Principal] = {}
        self._of_agent: dict[str, tuple[str, ...]] = {}
        """Agent → the digests of its tokens."""
        self._old: set[str] = set()
        self._all_old = True
        self._projects_old = True
        self._asked: set[str] | None = set()
        """What had changed and is asked for by the round under way: agents, or None for everything."""
        self._all_wanted = False
        self._was_told = False
        self._round: asyncio.Task[None] | None = None
        self._refreshed = float("-inf")
        self._refused: str | None = None
        self._tokens_changed = False
        self._token_observers: list[Callable[[], None]] = []
        self._server_observers: list[Callable[[list[ServerUpstream]], None]] = []

    def worker(self, digest: str) -> Principal | None:
        """Whose the token with this digest is, as far as that is known."""
        return self._workers.get(digest)

    def on_tokens(self, observer: Callable[[], None]) -> None:
        """Call this whenever tokens came or went."""
        self._token_observers.append(observer)

    def on_servers(self, observer: Callable[[list[ServerUpstream]], None]) -> None:
        """Call this with all servers of agents and projects whenever some came, went or changed."""
        self._server_observers.append(observer)

    async def refresh(self) -> bool:
        """Ask for all anew, since there is a token that is not known; whether that was done or is too soon."""
        now = time.monotonic()
        if now - self._refreshed < REFRESH_EVERY:
            if self._round is not None:  # it may be about that token
                await self._join()
                return True
            return False
        self._refreshed = now
        if self._round is not None:
            await self._join()
        self._all_wanted = True
        await self._join()
        return True

    async def agent(self, name: str) -> AgentUpstream | None:
        """The way to the agent, newest; what was known where the supervisor is away."""
        if self._is_old(name):
            await self._settle()
        return self._agents.get(name)

    async def project(self, name: str) -> ProjectUpstream | None:
        """The way to a project's servers; likewise."""
        if self._all_old or self._projects_old or self._asked is None:
            await self._settle()
        return self._projects.get(name)

    def known(self, name: str) -> AgentUpstream | None:
        """The way to the agent, as it was last known."""
        return self._agents.get(name)

    def outdate(
        self, agents: Iterable[str] = (), *, projects: bool = False, everything: bool = False
    ) -> None:
        """These have changed."""
        self._old.update(agents)
        self._projects_old |= projects
        self._all_old |= everything

    def _is_old(self, name: str) -> bool:
        """Whether what is known of the agent is, also where the supervisor is being asked for it already."""
        return self._all_old or name in self._old or self._asked is None or name in self._asked

    @property
    def was_told(self) -> bool:
        """Whether the supervisor has told of all agents once: else one that is not known may be there."""
        return self._was_told

    @property
    def is_old(self) -> bool:
        """Whether something has changed."""
        return self._all_old or self._projects_old or bool(self._old)

    async def renew(self) -> None:
        """Ask for what has changed.

        Raises:
            ControlError: the supervisor cannot be asked; what has changed is still to be asked for.
        """
        await self._join()

    async def _settle(self) -> None:
        if self._round is not None:
            await self._join_quietly()  # it may have begun before the change
        if self.is_old:
            await self._join_quietly()

    async def _join_quietly(self) -> None:
        try:
            await self._join()
        except ControlError as error:
            _log.warning(f"the ways to agents may be old: {error}")

    async def _join(self) -> None:
        """Wait for the round under way, or for a new one; whoever goes away does not end it for the others."""
        if self._round is None:
            self._round = asyncio.create_task(self._one_round(), name="upstreams")
            # Whoever waits has its error; there may be nobody any more.
            self._round.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._round)

    async def _one_round(self) -> None:
        try:
            await self._ask()
        finally:
            self._asked = set()
            self._round = None

    async def _ask(self) -> None:
        all_changed = self._all_old or self._projects_old or len(self._old) > MOST_NAMED
        everything = all_changed or self._all_wanted
        self._all_wanted = False
        asked, self._old = self._old, set()
        self._asked = None if all_changed else asked
        was_old = self._all_old, self._projects_old
        self._all_old = self._projects_old = False
        query: Query | None = None if everything else {"agent": sorted(asked)}
        try:
            found = Upstreams.from_json(await self._client.get(PATH, query))
        except (TypeError, KeyError, ControlError) as error:
            self._old |= asked
            self._all_old |= was_old[0]
            self._projects_old |= was_old[1]
            if not isinstance(error, ControlError):
                raise ControlError(
                    f"the supervisor's ways to agents cannot be read ({error!r}): it is of another version than the "
                    "gateway; restart the gateway"
                ) from None
            self._note_refusal(error)
            raise
        self._refused = None
        self._was_told |= everything
        self._take(found, None if everything else asked)

    def _note_refusal(self, error: ControlError) -> None:
        if isinstance(error, RefusedError) and error.message != self._refused:
            self._refused = error.message
            _log.error(f"the supervisor does not tell where agents are called: {error}")

    def _take(self, found: Upstreams, asked: set[str] | None) -> None:
        changes = Changes()
        before = self._servers()
        there = {agent.name: agent for agent in found.agents}
        for name in set(self._agents) | set(there) if asked is None else asked:
            self._take_agent(name, there.get(name), changes)
        if asked is None:
            projects = {project.name: project for project in found.projects}
            for name in {*projects, *self._projects}:
                if projects.get(name) != self._projects.get(name):
                    changes.tell(*topics.lists_of_project(name))
            self._projects = projects
        self._changed(changes)
        if self._tokens_changed:
            self._tokens_changed = False
            for observer in self._token_observers:
                observer()
        servers = self._servers()
        if servers != before:
            for tell in self._server_observers:
                tell([server for each in servers.values() for server in each])

    def _servers(self) -> dict[str, tuple[ServerUpstream, ...]]:
        """The servers of all that has some."""
        agents = {f"agent/{name}": agent.servers for name, agent in self._agents.items()}
        projects = {f"project/{name}": project.servers for name, project in self._projects.items()}
        return {owner: servers for owner, servers in (agents | projects).items() if servers}

    def _take_agent(self, name: str, new: AgentUpstream | None, changes: Changes) -> None:
        old = self._agents.pop(name, None)
        before = self._of_agent.pop(name, ())
        for digest in before:
            self._workers.pop(digest, None)
        if new is not None:
            self._agents[name] = new
            self._of_agent[name] = tuple(token.digest for token in new.tokens)
            for token in new.tokens:
                self._workers[token.digest] = _principal(new, token.generation)
        if self._of_agent.get(name, ()) != before:
            self._tokens_changed = True
        if _lists(old) != _lists(new):
            changes.tell(*topics.lists_of_agent(name))


def _principal(agent: AgentUpstream, generation: int) -> Principal:
    """Who a worker is: it may run what its agent depends on."""
    return Principal(
        id=f"worker:{agent.name}/{generation}",
        subject=f"worker:{agent.uid or agent.name}",
        name=agent.name,
        role="agent",
        agent=agent.name,
        grants=tuple(Grant("run", "agents", name) for name in agent.depends_on),
        concurrent=agent.max_concurrency,
    )


def _lists(upstream: AgentUpstream | None) -> object:
    """What an agent's compositor lists depend on."""
    return upstream and (upstream.servers, upstream.depends_on, upstream.tools)
