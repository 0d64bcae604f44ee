"""The servers of one agent or project with their names before those of their tools, and who follows them."""

from __future__ import annotations

import asyncio
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.mcp.agent_tools import hidden_tools
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.mcp.errors import INTERNAL_ERROR, INVALID_PARAMS, TIMED_OUT
from pallas_gateway.mcp.headers import mirrored_arguments
from pallas_gateway.mcp.surface import McpError, Relayed
from pallas_gateway.relay.http.errors import LateError, RelayError
from pallas_gateway.relay.messages.model import Call, ServerError
from pallas_gateway.relay.upstreams import Upstreams
from pallas_gateway.servers.chat.tool import CHAT_SCHEMA, chat_in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from pallas_common.protocol.gateway import AgentUpstream, ServerUpstream
    from pallas_common.protocol.mcp.lists import ListName
    from pallas_common.secrets.values import KnownSecrets
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.mcp.surface import ClientRequest
    from pallas_gateway.relay.messages.model import Answer
    from pallas_gateway.relay.upstream import Upstream
    from pallas_gateway.servers.chat.turns import ThreadTurns

_log = get_logger("pallas.gateway.compositor")

type Json = dict[str, Any]

FIRST_WAIT = 1.5
"""Seconds that the first list waits for servers that are not known yet, for all of them at once."""
MOST_FOLLOWED = 1000
"""Resources of one server whose changes are heard of."""
MOST_WARNINGS = 1000
"""Of servers and tools with names that are in the way of others, each once."""
SEPARATOR = "__"
CHAT = "chat"
AGENT = "agent-"


class Mount(NamedTuple):
    """A server by its name in a compositor."""

    name: str
    upstream: Upstream


class Mounts:
    """What all compositors share.

    Args:
        publish: of the event log.
        tool_timeout: seconds for a relayed call of a tool.
        observed: is told of each relayed call: the server, whether it has answered, whatever it said, and the seconds.
        trace: how a server is told of the trace of now, as `Call.trace`.
        known: learns the servers' credentials.
        threads: turns of conversations.
    """

    def __init__(
        self,
        publish: Callable[..., None],
        tool_timeout: float,
        threads: ThreadTurns,
        observed: Callable[[str, bool, float], object] = lambda *_: None,
        trace: Callable[[], Mapping[str, str]] = dict,
        known: KnownSecrets | None = None,
    ) -> None:
        self._publish = publish
        self.observed = observed
        self._trace = trace
        self._timeout = tool_timeout
        self.threads = threads
        self._owners: dict[Upstream, set[tuple[str, str]]] = {}
        self._last: dict[str, list[Mount]] = {}
        self._servers: dict[str, tuple[ServerUpstream, ...]] = {}
        """Owner → what `_last` was made of."""
        self._warned: set[tuple[str, str]] = set()
        self._followed: dict[str, set[str]] = {}
        """Owner → the keys of its topics that somebody follows, those that are no resource of a server as well."""
        self.upstreams = Upstreams(self._changed, known, self._is_needed)

    def of(self, owner: str, servers: tuple[ServerUpstream, ...]) -> list[Mount]:
        """The servers of an owner, `agent/x` or `project/p`, which hears of their changes from now on."""
        last = self._last.get(owner, [])
        # At each call it is mostly the same object; comparing definitions would cost the more the more there are.
        if servers is self._servers.get(owner) and not any(mount.upstream.is_closed for mount in last):
            for mount in last:
                mount.upstream.start()
            return last
        self._servers[owner] = servers
        mounts = [Mount(server.name, self.upstreams.server(server)) for server in servers]
        if mounts != self._last.get(owner):
            for before in self._last.get(owner, ()):
                self._owners.get(before.upstream, set()).discard((owner, before.name))
            for mount in mounts:
                self._owners.setdefault(mount.upstream, set()).add((owner, mount.name))
            self._owners = {upstream: owners for upstream, owners in self._owners.items() if owners}
            for before in self._last.get(owner, ()):
                for uri in self._followed.get(owner, ()):
                    before.upstream.unfollow(uri, owner)
            self._last[owner] = mounts
            self._follow(owner)
        return mounts

    def last(self, owner: str) -> list[Mount]:
        """The servers of an owner as they were last asked for."""
        return self._last.get(owner, [])

    def describe(self, agent: str) -> dict[str, Json]:
        """How each of an agent's servers is that it has asked for; nothing is connected to for that."""
        return {mount.name: mount.upstream.describe() for mount in self.last(f"agent/{agent}")}

    def observe(self, topic: Topic, is_followed: bool) -> None:
        """Somebody begins to follow a topic, or nobody does any more: so long the server tells of its resource."""
        owner, uri = topic.owner, topic.key
        if is_followed:
            self._followed.setdefault(owner, set()).add(uri)
            self._follow(owner)
            return
        followed = self._followed.get(owner, set())
        followed.discard(uri)
        if not followed:
            self._followed.pop(owner, None)
        for mount in self.last(owner):
            mount.upstream.unfollow(uri, owner)

    def _follow(self, owner: str) -> None:
        for uri in self._followed.get(owner, ()):
            if (mount := mount_of(self.last(owner), uri)) is not None:
                mount.upstream.follow(uri, owner, MOST_FOLLOWED)

    def warn_of_name(self, owner: str, server: str, agent: str) -> None:
        """Say once that a server's name hides an agent."""
        if (owner, server) not in self._warned:
            self._warned.add((owner, server))
            _log.warning(
                f"in {owner} the server {server} hides the agent {agent}, which cannot be called there:"
                " give the server another name"
            )

    def _warn_of_doubles(self, owner: str) -> None:
        """Say once which tools of two servers have one full name."""
        for tool, first, second in doubles(self.last(owner)):
            if (owner, f"{tool} {second}") not in self._warned and len(self._warned) < MOST_WARNINGS:
                self._warned.add((owner, f"{tool} {second}"))
                _log.warning(
                    f"in {owner} two tools are called {tool}: that of the server {second} is left out, that of {first}"
                    " is used; give one of the servers another name"
                )

    async def known(self, mounts: Iterable[Mount]) -> None:
        """Wait for those of which nothing is known yet, but not long."""
        new = [mount.upstream for mount in mounts if not mount.upstream.is_settled]
        if new:
            tasks = [asyncio.ensure_future(each.settled()) for each in new]
            await asyncio.wait(tasks, timeout=FIRST_WAIT)
            for task in tasks:
                task.cancel()
            for each in new:
                each.waited_for = True

    async def call(
        self, mount: Mount, method: str, params: Json, request: ClientRequest, tool: Json | None = None
    ) -> Relayed:
        """The answer of a server to what the client asks."""
        headers: dict[str, str] = {}
        if tool is not None and mount.upstream.mirrors(tool["name"]):
            headers = mirrored_arguments(tool["inputSchema"], params.get("arguments") or {})
        call = Call(
            method=method,
            params=params,
            id=request.id,
            era=request.era,
            timeout=self._timeout,
            caller=f"{request.principal.tenant}/{request.principal.subject}",
            tool_headers=headers,
            trace=self._trace(),
        )
        return await answered(self._timed(mount, call), f"the server {mount.name}")

    async def _timed(self, mount: Mount, call: Call) -> Answer:
        began = time.perf_counter()
        has_answered: bool | None = None
        try:
            answer = await mount.upstream.relay(call)
        except ServerError:
            has_answered = True
            raise
        except (RelayError, LateError, TimeoutError):
            has_answered = False
            raise
        else:
            has_answered = True
            return answer
        finally:
            if has_answered is not None:  # who does not wait any more says nothing of the server
                self.observed(mount.name, has_answered, time.perf_counter() - began)

    async def chat(
        self,
        record: AgentRecord,
        agent: AgentUpstream,
        arguments: Mapping[str, Any],
        request: ClientRequest,
    ) -> Json | Relayed:
        """The answer of an agent, which takes as long as it does: in a thread, or else by its worker alone."""
        unknown = set(arguments) - {"message", "images", "thread"}
        if unknown or not isinstance(arguments.get("message"), str):
            said = "chat takes `message`, a text, `images` and `thread`"
            raise McpError(INVALID_PARAMS, said, {"type": "invalid"})
        if arguments.get("thread") is not None:
            return await chat_in_thread(self.threads, record, arguments, request)
        arguments = {name: value for name, value in arguments.items() if name != "thread"}
        params = dict(request.params) | {"name": "send_message", "arguments": dict(arguments)}
        call = Call(
            method="tools/call",
            params=params,
            id=request.id,
            era=request.era,
            timeout=None,
            trace=self._trace(),
        )
        return await answered(self.upstreams.worker(agent).relay(call), f"the agent {agent.name}")

    def _is_needed(self, upstream: Upstream) -> bool:
        """Whether somebody follows something of a compositor that it is part of: its lists, or its state."""
        return any(owner in self._followed for owner, _ in self._owners.get(upstream, ()))

    def _changed(self, upstream: Upstream, what: str) -> None:
        changed: set[Topic] = set()
        for owner, name in self._owners.get(upstream, ()):
            if what in ("state", "resources", "templates"):
                self._follow(owner)  # of a server that was new
            if what == "state":
                self._warn_of_doubles(owner)
                changed |= {Topic(kind, owner) for kind in ("tools", "prompts", "resources")}
                changed |= {Topic("mcp/state", owner), Topic(f"server state {name}", owner)}
            elif what in ("tools", "prompts", "resources", "templates"):
                self._warn_of_doubles(owner)
                changed.add(Topic("resources" if what == "templates" else what, owner))
                changed |= {Topic("mcp/state", owner), Topic(f"server state {name}", owner)}
            else:
                changed.add(Topic(what, owner))
        self._publish(*sorted(changed))


def entries(mounts: Iterable[Mount], name: ListName) -> list[Json]:
    """The entries of a list of all servers, named as they are here; of two of one name the first, as `find` does."""
    found: dict[str, Json] = {}
    for mount in mounts:
        for entry in mount.upstream.listed(name):
            full = f"{mount.name}{SEPARATOR}{entry['name']}"
            found.setdefault(full, entry | {"name": full})
    return list(found.values())


def tools_shown(mounts: Iterable[Mount], patterns: tuple[str, ...] | None) -> list[Json]:
    """The tools that may be called, as models choose among them: of a server that is an agent the one of its name."""
    mounts = list(mounts)
    hidden: set[str] = set()
    for mount in mounts:
        prefix = f"{mount.name}{SEPARATOR}"
        schemas = {
            tool["name"]: tool["inputSchema"]
            for tool in mount.upstream.listed("tools")
            if allowed(prefix + tool["name"], patterns)
        }
        hidden |= {prefix + name for name in hidden_tools(schemas)}
    return [
        tool
        for tool in entries(mounts, "tools")
        if tool["name"] not in hidden and allowed(tool["name"], patterns)
    ]


def doubles(mounts: Iterable[Mount]) -> Iterator[tuple[str, str, str]]:
    """Tools of one full name: it, the server whose tool it is, and the one whose tool is left out."""
    owners: dict[str, str] = {}
    for mount in mounts:
        for tool in mount.upstream.listed("tools"):
            full = f"{mount.name}{SEPARATOR}{tool['name']}"
            if (first := owners.setdefault(full, mount.name)) != mount.name:
                yield full, first, mount.name


def mount_of(mounts: Iterable[Mount], uri: str) -> Mount | None:
    """The first server that has the resource, or a template of such."""
    mounts = list(mounts)
    for mount in mounts:
        if any(each["uri"] == uri for each in mount.upstream.listed("resources")):
            return mount
    for mount in mounts:
        for each in mount.upstream.listed("templates"):
            start, variable, _ = each["uriTemplate"].partition("{")
            if start and variable and uri.startswith(start):
                return mount
    return None


def find(mounts: Iterable[Mount], list_name: ListName, name: str) -> tuple[Mount, Json] | None:
    """The server and the entry that a name stands for here."""
    for mount in mounts:
        prefix = mount.name + SEPARATOR
        if name.startswith(prefix):
            own = name.removeprefix(prefix)
            for entry in mount.upstream.listed(list_name):
                if entry["name"] == own:
                    return mount, entry
    return None


def allowed(name: str, patterns: tuple[str, ...] | None) -> bool:
    """Whether an agent may call that tool, by its own patterns."""
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def chat_tool(name: str, description: str) -> Json:
    """The tool that asks an agent."""
    return {"name": name, "description": description, "inputSchema": CHAT_SCHEMA}


def chat_name(agent: str) -> str:
    """What it is called in a compositor."""
    return f"{AGENT}{agent}{SEPARATOR}{CHAT}"


def agent_of(name: str) -> str | None:
    """The agent whose chat a tool is."""
    if name.startswith(AGENT) and name.endswith(SEPARATOR + CHAT):
        return name.removeprefix(AGENT).removesuffix(SEPARATOR + CHAT)
    return None


async def answered(asking: Awaitable[Answer], who: str) -> Relayed:
    """What comes of a call, and the client's error where nothing does."""
    try:
        answer = await asking
    except (LateError, TimeoutError) as error:
        raise McpError(TIMED_OUT, f"{who} has not answered: {error}", {"type": "timeout"}) from None
    except RelayError as error:
        raise McpError(INTERNAL_ERROR, f"{who} has not answered: {error}", {"type": "unreachable"}) from None
    except ServerError as error:
        raise McpError(error.code, str(error)) from None
    return Relayed(
        status=answer.status,
        content_type=answer.content_type,
        body=answer.body,
        is_error=answer.is_error,
    )
