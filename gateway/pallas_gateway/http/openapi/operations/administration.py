"""Operations on tokens, and the audit: for who has the grant `*`. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.operation import JSON, LINES, Answer, Operation, Parameter
from pallas_gateway.http.openapi.operations.shapes import record, ref, several, text

TOKENS_PATH = "/api/v1/tokens"
AUDIT_PATH = "/api/v1/audit"
_TRUTH = {"type": "string", "enum": ["true", "false"]}
_ONLY = "the grant `*`"

TOKENS = (
    Operation(
        id="listTokens",
        method="GET",
        path=TOKENS_PATH,
        tag="tokens",
        summary="All tokens that count",
        grant=_ONLY,
        query=(Parameter("all", "Those as well that do not count any more", _TRUTH),),
        answers=(
            Answer(
                200,
                "The tokens, and the ids of those whose records are damaged",
                {JSON: record({"tokens": several(ref("Token")), "malformed": several(text())})},
            ),
        ),
    ),
    Operation(
        id="createToken",
        method="POST",
        path=TOKENS_PATH,
        tag="tokens",
        summary="Make a token",
        grant=_ONLY,
        body={
            JSON: record(
                {
                    "name": text("Whose it is"),
                    "role": text(enum=["human", "agent"]),
                    "agent": text("Of an agent's token"),
                    "grants": several(text("As `run:agents:jarvis`")),
                    "tenant": text(),
                    "expires": text("A duration such as `30d`, or a time"),
                },
                "agent",
                "grants",
                "tenant",
                "expires",
            )
        },
        answers=(Answer(201, "The token, with its text", {JSON: ref("NewToken")}),),
    ),
    Operation(
        id="revokeToken",
        method="DELETE",
        path=f"{TOKENS_PATH}/{{token}}",
        tag="tokens",
        summary="Revoke a token, at once",
        grant=_ONLY,
        query=(Parameter("force", "Also the operator's", _TRUTH),),
        answers=(Answer(200, "It counts no more", {JSON: {"type": "object"}}),),
    ),
    Operation(
        id="rotateToken",
        method="POST",
        path=f"{TOKENS_PATH}/{{token}}/rotate",
        tag="tokens",
        summary="Make a token like it in its place",
        grant=_ONLY,
        body={JSON: record({"grace": text("For how long the old one counts, as `24h`")}, "grace")},
        is_body_required=False,
        answers=(Answer(201, "The new one, with its text", {JSON: ref("NewToken")}),),
    ),
)

AUDIT = (
    Operation(
        id="readAudit",
        method="GET",
        path=AUDIT_PATH,
        tag="audit",
        summary="The newest lines of the audit",
        grant=_ONLY,
        query=(
            Parameter("n", "So many", {"type": "integer", "minimum": 0}),
            Parameter("since", "From this time on", text()),
            Parameter("principal", "Of this principal", text()),
            Parameter("action", "With this action", text()),
            Parameter("outcome", "With this outcome", text()),
            Parameter("follow", "Go on with those that come", {"type": "string"}),
        ),
        answers=(Answer(200, "Lines of JSON, the oldest first", {LINES: ref("AuditLine")}),),
    ),
)
