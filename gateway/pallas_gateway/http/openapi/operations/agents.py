"""Operations on agents. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.operation import JSON, Answer, Header, Operation, Parameter
from pallas_gateway.http.openapi.operations.shapes import page_of, record, ref, text

PATH = "/api/v1/agents"
PAGE = (
    Parameter("limit", "Most entries; 100 unless said", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Parameter("cursor", "`nextCursor` of the page before", text()),
)
_ETAG = (Header("ETag", "Its `resourceVersion`, for `If-Match`"),)
_IF_MATCH = Parameter("If-Match", "Refuse it with 409 if the agent is another by now", text())

AGENTS = (
    Operation(
        id="listAgents",
        method="GET",
        path=PATH,
        tag="agents",
        summary="All agents that the token may view, by name",
        grant="`view:agents`; of some agents alone, these are listed",
        query=PAGE,
        answers=(Answer(200, "A page of agents", {JSON: page_of("Agent")}),),
    ),
    Operation(
        id="createAgent",
        method="POST",
        path=PATH,
        tag="agents",
        summary="Declare a new agent",
        grant="`create:agents:NAME`, and `run` on what it names",
        body={JSON: ref("AgentBody")},
        answers=(Answer(201, "The agent", {JSON: ref("Agent")}, _ETAG),),
    ),
    Operation(
        id="getAgent",
        method="GET",
        path=f"{PATH}/{{agent}}",
        tag="agents",
        summary="One agent",
        grant="`view:agents:NAME`",
        answers=(Answer(200, "The agent", {JSON: ref("Agent")}, _ETAG),),
    ),
    Operation(
        id="updateAgent",
        method="PUT",
        path=f"{PATH}/{{agent}}",
        tag="agents",
        summary="Change fields of an agent; those that are not there stay as they are",
        grant="`edit:agents:NAME`, and `run` on what it names",
        headers=(_IF_MATCH,),
        body={JSON: ref("AgentBody")},
        answers=(Answer(200, "The agent", {JSON: ref("Agent")}, _ETAG),),
    ),
    Operation(
        id="deleteAgent",
        method="DELETE",
        path=f"{PATH}/{{agent}}",
        tag="agents",
        summary="Delete an agent, with its threads",
        grant="`delete:agents:NAME`",
        headers=(_IF_MATCH,),
        answers=(Answer(200, "It was deleted", {JSON: record({"deleted": text("Its name")})}),),
    ),
    Operation(
        id="listProjectAgents",
        method="GET",
        path="/api/v1/projects/{project}/agents",
        tag="agents",
        summary="The agents of a project",
        grant="`view:projects:NAME`",
        query=PAGE,
        answers=(Answer(200, "A page of agents", {JSON: page_of("Agent")}),),
    ),
)
