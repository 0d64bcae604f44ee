"""Operations on declared resources of all kinds. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.operation import JSON, Answer, Header, Operation, Parameter
from pallas_gateway.http.openapi.operations.shapes import record, ref, several, text

PATH = "/api/v1/resources"
_ETAG = (Header("ETag", "Its `resourceVersion`, for `If-Match`"),)
_IF_MATCH = Parameter("If-Match", "Refuse it with 409 if the resource is another by now", text())
_DRY_RUN = Parameter("dry_run", "1: only say what would change", text(enum=["0", "1"]))

RESOURCES = (
    Operation(
        id="applyResources",
        method="POST",
        path=PATH,
        tag="resources",
        summary="Apply files, or delete several resources",
        grant="`create` and `edit` on each; to delete, and for `prune`, `delete`",
        body={JSON: {"type": "object", "description": '`{"files": […]}` or `{"delete": ["KIND/NAME"]}`'}},
        answers=(Answer(200, "What was done with each", {JSON: {"type": "object"}}),),
    ),
    Operation(
        id="listResources",
        method="GET",
        path=f"{PATH}/{{kind}}",
        tag="resources",
        summary="All resources of a kind",
        grant="`view:resources:KIND/*`, or for agents and projects `view` of these",
        answers=(
            Answer(200, "Those that may be viewed", {JSON: record({"items": several(ref("Resource"))})}),
        ),
    ),
    Operation(
        id="getResource",
        method="GET",
        path=f"{PATH}/{{kind}}/{{name}}",
        tag="resources",
        summary="One resource",
        grant="`view:resources:KIND/NAME`, or `view:agents:NAME`, `view:projects:NAME`",
        answers=(Answer(200, "The resource", {JSON: ref("Resource")}, _ETAG),),
    ),
    Operation(
        id="putResource",
        method="PUT",
        path=f"{PATH}/{{kind}}/{{name}}",
        tag="resources",
        summary="Create or change one resource",
        grant="`create` or `edit` on it, `run` on all that it names, `edit:code` where it runs code",
        query=(_DRY_RUN,),
        headers=(_IF_MATCH, Parameter("If-None-Match", "`*`: only create it", text())),
        body={JSON: ref("Resource"), "application/yaml": text()},
        answers=(
            Answer(200, "It is as it was sent", {JSON: ref("Resource")}, _ETAG),
            Answer(201, "It was created", {JSON: ref("Resource")}, _ETAG),
        ),
    ),
    Operation(
        id="deleteResource",
        method="DELETE",
        path=f"{PATH}/{{kind}}/{{name}}",
        tag="resources",
        summary="Delete one resource",
        grant="`delete` on it",
        headers=(_IF_MATCH,),
        answers=(Answer(200, "It was deleted", {JSON: {"type": "object"}}),),
    ),
)
