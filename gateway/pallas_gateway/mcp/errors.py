"""The codes of JSON-RPC that the gateway answers with, beside the standard's. Pure.

Codes of our own lie outside the range that JSON-RPC 2.0 and MCP reserve (-32768 to -32000).
"""

from __future__ import annotations

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
"""Also for an unknown tool or URI."""
INTERNAL_ERROR = -32603

REQUEST_CANCELLED = -32800
"""Of a session's request that the client has cancelled: its HTTP response has to say something."""

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

POLICY_DENIED = -32950
TENANT_NOT_FOUND = -32952
AGENT_NOT_FOUND = -32953
LIMIT_EXCEEDED = -32954
"""With HTTP 429 and Retry-After; `data.retry_after_ms`."""
TIMED_OUT = -32955
UNAUTHENTICATED = -32956
"""With HTTP 401 and `WWW-Authenticate`."""
INSUFFICIENT_SCOPE = -32957
"""With HTTP 403; `WWW-Authenticate` names the grant that it takes."""

HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    LIMIT_EXCEEDED: 429,
}
"""Code → HTTP status of an answer to a request without a session (2026-07-28, Streamable HTTP); others go with 200."""
