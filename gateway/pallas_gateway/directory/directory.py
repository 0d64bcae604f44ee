"""The mirror of what the supervisor knows, fed by its status once and by its events from then on.

While the supervisor is away the mirror stays as it was and says so. After a gap in the events, or another life of the
supervisor, all is read again; else only what an event says has changed.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pallas_common.logs.setup import get_logger
from pallas_control.errors import ControlError, RefusedError, UnknownAgentError
from pallas_control.events import parse_event
from pallas_gateway.directory import topics
from pallas_gateway.directory.mirror import KINDS, Changes, Mirror
from pallas_gateway.directory.upstreams import UpstreamCache
from pallas_gateway.identity.sources import AgentKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pallas_common.protocol.gateway import AgentUpstream, ProjectUpstream, ServerUpstream
    from pallas_gateway.directory.control import ControlClient, Json, Query
    from pallas_gateway.directory.mirror import Gone
    from pallas_gateway.directory.records import AgentRecord, Resource, ResourceRecord
    from pallas_gateway.identity.principal import Principal

MOST_NAMED = 20
"""Agents or resources of a kind that are fetched one by one; beyond, the whole kind is."""
SETTLED = 5.0
"""Seconds in which the mirror has what the supervisor has done."""
FIRST_RETRY, LAST_RETRY = 0.1, 2.0
"""Seconds until a supervisor that is away is looked for again, at first and at last."""

_log = get_logger("pallas.gateway.directory")


class WorkerPrincipals:
    """Whose the tokens are that workers got for their start."""

    def __init__(self, upstreams: UpstreamCache) -> None:
        self._upstreams = upstreams

    def find(self, digest: str) -> Principal | None:
        """Whose the token with this SHA-256 digest is, hexadecimal; None if it is not among those told last."""
        return self._upstreams.worker(digest)

    async def refetch(self) -> None:
        """Ask the supervisor anew. Never raises: what cannot be asked stays as it was."""
        with suppress(ControlError):
            await self._upstreams.refresh()

    def on_change(self, observer: Callable[[], None]) -> None:
        """Call `observer` whenever tokens came or went."""
        self._upstreams.on_tokens(observer)


class Directory:
    """What is known of the deployment. It is there from its making on, and filled while `run` runs.

    Args:
        publish: is told what has changed, after it has.
    """

    def __init__(self, client: ControlClient, publish: Callable[..., None]) -> None:
        self.client = client
        self._publish = publish
        self._mirror = Mirror()
        self._upstreams = UpstreamCache(client, self._tell)
        self._workers = WorkerPrincipals(self._upstreams)
        self._gone_observers: list[Callable[[Gone], None]] = []
        self._agents: set[str] = set()
        self._resources: set[Resource] = set()
        self._work = asyncio.Event()
        self._news = asyncio.Event()
        """Set at each change; whoever waits clears it, and looks first."""
        self._present = asyncio.Event()
        self._filled = asyncio.Event()
        self._away: str | None = "the supervisor has not been asked yet"
        self._retry = FIRST_RETRY

    # What is known.

    @property
    def agents(self) -> Mapping[str, AgentRecord]:
        """All agents by name, those of agents.yaml first."""
        return self._mirror.agents

    def agent(self, name_or_uid: str) -> AgentRecord | None:
        """The agent of that name or uid."""
        return self._mirror.agent(name_or_uid)

    @property
    def projects(self) -> Mapping[str, ResourceRecord]:
        """All projects by name."""
        return self._mirror.resources["project"]

    def resources(self, kind: str) -> Mapping[str, ResourceRecord]:
        """The resources of a kind by name, but agents."""
        return self._mirror.resources[kind]

    @property
    def supervisor(self) -> Json:
        """The status document without its agents."""
        return dict(self._mirror.supervisor)

    @property
    def away(self) -> str | None:
        """Why the mirror may be old; None while the supervisor is followed."""
        return self._away

    def observe_servers(self, observer: Callable[[list[ServerUpstream]], None]) -> None:
        """Call `observer` with all servers of agents and projects whenever some came, went or changed."""
        self._upstreams.on_servers(observer)

    async def filled(self) -> None:
        """Wait until all has been read once."""
        await self._filled.wait()

    def record_of(self, name: str, document: Mapping[str, Any]) -> AgentRecord:
        """The agent as a document says that is newer than the mirror may be.

        Args:
            document: of its resource, or `{"status": …}` with its entry of the status document.
        """
        return self._mirror.record_of(name, document)

    async def declared(self) -> dict[str, str | None]:
        """All agents that are declared, in agents.yaml or as resources, whether they can be used or not, as of now.

        Returns:
            The uid by name; None for an agent of agents.yaml, and where a file cannot be read.

        Raises:
            ControlError: the supervisor does not say.
        """
        try:
            items = (await self.client.get("/v1/resources/agent"))["items"]
            return {each["metadata"]["name"]: each["metadata"].get("uid") for each in items}
        except (KeyError, TypeError, AttributeError) as error:
            raise ControlError(f"the supervisor's resources cannot be read ({error!r})") from None

    async def servers_looked_at(self, name: str) -> dict[str, Json]:
        """What an agent's worker has found of each of its servers; none while nobody can say."""
        try:
            served = (await self.client.get(f"/v1/agents/{quote(name, safe='')}")).get("served") or {}
            return {
                each["name"]: each["health"] for each in served.get("servers") or () if each.get("health")
            }
        except (ControlError, KeyError, TypeError, AttributeError):
            return {}

    async def find_agent_key(self, name: str) -> AgentKey | None:
        """Which agent that is now, also where it has just been made; None if there is none that can be told.

        While the supervisor is away, one that is known already.
        """
        try:
            metadata = (await self.client.get(f"/v1/resources/agent/{quote(name, safe='')}"))["metadata"]
            uid = metadata.get("uid")
            # Without either its file cannot be read: which one it is nobody knows.
            return AgentKey(name, uid) if metadata["name"] == name and ("source" in metadata or uid) else None
        except UnknownAgentError:
            return None
        except (ControlError, KeyError, TypeError, AttributeError):
            known = self._mirror.agents.get(name)
            return None if known is None or known.is_new else AgentKey(name, known.uid)

    async def until(self, holds: Callable[[], bool], timeout: float = SETTLED) -> None:
        """Wait until the mirror shows what has been done; no longer than that, as the supervisor may be away."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not holds():
                    self._news.clear()
                    await self._news.wait()

    # Where calls go, and whose agents' own tokens are.

    async def upstream(self, agent: str) -> AgentUpstream | None:
        """The way to an agent, with its key and what it may use; None where there is none of that name."""
        found = await self._upstreams.agent(agent)
        if found is None and agent in self._mirror.agents:
            # The supervisor tells of a new agent before it goes by the configuration that has the way to it.
            self._upstreams.outdate([agent])
            found = await self._upstreams.agent(agent)
        return found

    @property
    def knows_ways(self) -> bool:
        """Whether the supervisor has told of all ways to agents once; before, one that is there may seem not to be."""
        return self._upstreams.was_told

    async def project_upstream(self, project: str) -> ProjectUpstream | None:
        """The servers, prompts and agents of a project."""
        return await self._upstreams.project(project)

    @property
    def workers(self) -> WorkerPrincipals:
        """Whose agents' own tokens are."""
        return self._workers

    async def refresh(self) -> bool:
        """Ask for all ways and tokens anew; False where that is too soon or cannot be."""
        try:
            return await self._upstreams.refresh()
        except ControlError:
            return False

    # Who is told.

    def observe_gone(self, observer: Callable[[Gone], None]) -> None:
        """Call this for each agent that is not there any more."""
        self._gone_observers.append(observer)

    # How it is fed.

    async def run(self) -> None:
        """Feed the mirror until this is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name="directory events")
            tasks.create_task(self._fetch(), name="directory documents")

    async def _follow(self) -> None:
        complete = False
        while True:
            try:
                if not complete:
                    await self._read_all()
                    complete = True
                complete = await self._follow_events()
                if not complete:
                    continue  # a gap: at once
                self._lost("the supervisor has ended: start it again")
            except RefusedError as error:
                complete = False
                self._lost(f"the supervisor refuses to tell its events: {error}")
            except ControlError as error:
                self._lost(str(error))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                complete = False
                _log.exception("the supervisor's documents cannot be read")
                self._lost(f"the supervisor's documents cannot be read ({error!r}): restart the gateway")
            await asyncio.sleep(self._retry)
            self._retry = min(self._retry * 2, LAST_RETRY)

    async def _read_all(self) -> None:
        status = await self.client.get("/v1/status")
        documents = {kind: (await self.client.get(f"/v1/resources/{kind}"))["items"] for kind in KINDS}
        self._agents.clear()
        self._resources.clear()
        changes = self._mirror.take_all(status, documents)
        self._upstreams.outdate(everything=True)
        self._take(changes)
        if not self._filled.is_set():  # it has just answered; whether it is followed is asked from now on
            self._filled.set()
            self._found()

    async def _follow_events(self) -> bool:
        """Take events as they come; False where some are missing, True at the end of the stream."""
        query: Query = {"epoch": self._mirror.epoch, "seq": self._mirror.seq, "follow": 1}
        async with aclosing(self.client.lines("/v1/events", query)) as batches:
            async for lines in batches:
                self._found()
                events = [event for line in lines if (event := parse_event(line)) is not None]
                changes = Changes()
                for event in events:
                    if event["kind"] == "gap":
                        self._take(changes)
                        return False
                    changes.merge(self._mirror.take_event(event))
                self._take(changes)
        return True

    def _found(self) -> None:
        if self._away is not None:
            self._away, self._retry = None, FIRST_RETRY
            self._present.set()
            self._work.set()
            self._publish(topics.SUPERVISOR)
            _log.info("follows the supervisor")

    def _lost(self, why: str) -> None:
        if self._away is None or not self._filled.is_set():
            _log.warning(f"{why}; what is known of agents stays as it is until then")
        if self._away is None:
            self._publish(topics.SUPERVISOR)
        self._away = why
        self._present.clear()

    def _take(self, changes: Changes) -> None:
        """Have fetched what has to be, and tell what has changed already."""
        self._agents |= changes.agents
        self._resources |= changes.resources
        self._upstreams.outdate(changes.upstreams, projects=changes.projects)
        if self._agents or self._resources or self._upstreams.is_old:
            self._work.set()
        if changes.membership:
            for name in self._mirror.agents:
                changes.tell(*topics.lists_of_agent(name))
        self._tell(changes)

    def _tell(self, changes: Changes) -> None:
        self._news.set()
        if changes.topics:
            self._publish(*changes.topics)
        for gone in changes.gone:
            for observer in self._gone_observers:
                observer(gone)

    async def _fetch(self) -> None:
        """Fetch what has changed, all that has by then at a time."""
        while True:
            await self._work.wait()
            await self._present.wait()
            self._work.clear()
            try:
                await self._fetch_declared()
                if self._upstreams.is_old:
                    await self._upstreams.renew()
            except RefusedError as error:
                _log.warning(f"the supervisor refuses to tell what has changed: {error}")
                await asyncio.sleep(LAST_RETRY)
            except ControlError:
                self._work.set()
                await asyncio.sleep(FIRST_RETRY)
            except (KeyError, TypeError, ValueError, AttributeError):
                _log.exception("a document of the supervisor cannot be read")
                await asyncio.sleep(LAST_RETRY)

    async def _fetch_declared(self) -> None:
        while self._resources or self._agents:
            resources, self._resources = self._resources, set()
            agents, self._agents = self._agents, set()
            try:
                for kind in KINDS[:-1]:
                    wanted = {each.name for each in resources if each.kind == kind}
                    for document in await self._documents(kind, wanted):
                        self._take(self._mirror.take_resource(document))
                asked_at = self._mirror.seq
                changes = Changes()
                for document in await self._documents("agent", agents):
                    changes.merge(self._mirror.take_agent(document["metadata"]["name"], document, asked_at))
                self._take(changes)
            except ControlError:
                self._resources |= resources
                self._agents |= agents
                raise

    async def _documents(self, kind: str, names: set[str]) -> Iterable[Json]:
        if not names:
            return ()
        if len(names) > MOST_NAMED:
            items: list[Json] = (await self.client.get(f"/v1/resources/{kind}"))["items"]
            return [each for each in items if each["metadata"]["name"] in names]
        found = []
        for name in sorted(names):
            with suppress(UnknownAgentError):  # it is gone again; an event says so
                found.append(await self.client.get(f"/v1/resources/{kind}/{quote(name, safe='')}"))
        return found
