"""Every exception class of the libraries that providers are asked with, and the kind of failure that each one is.

Pure: classes are known by the library and their name, so that no library is loaded to name them. A test walks the
sources of the libraries and fails at a class that has no place here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pallas_worker.interface.providers.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

type Reading = Kind | Literal["answered", "setup", "other"]
"""How a class is read: its kind; or by the status, code and words of the provider's answer; or as a mistake in the
deployment's settings, whose own words say it; or not at all, because no request to a model raises it."""

_TRANSPORT: Mapping[Reading, str] = {
    "unreachable": "ConnectError NetworkError ProxyError RequestError TransportError ConnectionNotAvailable",
    "timeout": "ConnectTimeout PoolTimeout ReadTimeout TimeoutException WriteTimeout",
    "broken_off": "CloseError ReadError RemoteProtocolError ProtocolError WriteError SSEError",
    "unreadable": "DecodingError TooManyRedirects",
    "answered": "HTTPError HTTPStatusError",
    "setup": "InvalidURL LocalProtocolError UnsupportedProtocol",
    "other": (
        "CookieConflict RequestNotRead ResponseNotRead StreamClosed StreamConsumed StreamError "
        "HTTPXDeprecationWarning EndOfStream QueueShutDown ShouldClose HTTPXWSException WebSocketDisconnect "
        "WebSocketInvalidTypeReceived WebSocketNetworkError WebSocketUpgradeError ASGIWebSocketTransportError "
        "UnhandledASGIMessageType UnhandledWebSocketEvent"
    ),
}
"""Of httpx and httpcore, and of the second versions of both."""

_STATUSES = (
    "APIError APIStatusError AuthenticationError BadRequestError ConflictError InternalServerError NotFoundError "
    "PermissionDeniedError RateLimitError UnprocessableEntityError"
)
"""Of all clients that are made by the generator of OpenAI's."""

_BY_LIBRARY: Mapping[str, Mapping[Reading, str]] = {
    "openai": {
        "answered": f"{_STATUSES} OpenAIError",
        "key_refused": "OAuthError SubjectTokenProviderError _TransientTokenExchangeError",
        "content_filter": "ContentFilterFinishReasonError",
        "timeout": "APITimeoutError",
        "unreachable": "APIConnectionError",
        "broken_off": "WebSocketConnectionClosedError WebSocketQueueFullError ResponsesWebSocketError",
        "unreadable": "APIResponseValidationError LengthFinishReasonError ResponsesWebSocketBufferError",
        "setup": "MissingDependencyError MutuallyExclusiveAuthError APIRemovedInV1",
        "other": (
            "InvalidWebhookSignatureError MissingStreamClassError StreamAlreadyConsumed "
            "_AmbiguousModuleClientUsageError AgentFilePreparationError AgentFileStagingError "
            "AgentOutputParseError AgentTurnResultError BrowserCancelledError BrowserError ComputerUseError "
            "DecisionsToolRunnerError ToolRunnerError"
        ),
    },
    "anthropic": {
        "answered": f"{_STATUSES} AnthropicError RetryableError",
        "context_length": "RequestTooLargeError",
        "overloaded": "OverloadedError ServiceUnavailableError",
        "timeout": "APITimeoutError DeadlineExceededError",
        "unreachable": "APIConnectionError",
        "unreadable": "APIResponseValidationError",
        "key_refused": "CredentialsError IdentityTokenFileError WorkloadIdentityError",
        "setup": "MissingDependencyError MutuallyExclusiveAuthError",
        "other": (
            "APIWebhookValidationError MissingStreamClassError StreamAlreadyConsumed _NonObjectPayloadError "
            "ToolError FileStoreError SessionMemoryError AsyncOnSyncToolsetError NestedCallError "
            "SyncOnAsyncToolsetError BrowserStateError ConfirmDeclinedError ConfirmFailedError "
            "DisabledMemberError InvalidMemberInputError TabMissingError ToolsetClosedError ToolsetConfigError "
            "ToolsetContractError ToolsetUsageError ToolsetsFixedError URLRefusedError UnavailableMemberError "
            "UnknownMemberError UploadNoRootsError UploadOutsideRootsError UploadRefusedError "
            "UnsupportedMCPValueError"
        ),
    },
    "google": {  # google.genai, and google.auth, which it asks for credentials
        "answered": (
            f"{_STATUSES} ClientError ServerError GeminiNextGenAPIClientError GenAiError GenAiDefaultError "
            "TemporaryError PermanentError"
        ),
        "timeout": "APITimeoutError TimeoutError",
        "unreachable": "APIConnectionError NoResponseError TransportError",
        "unreadable": "APIResponseValidationError ResponseValidationError UnknownApiResponseError ResponseError",
        "key_refused": (
            "GoogleAuthError RefreshError ReauthFailError ReauthSamlChallengeFailError UserAccessTokenError "
            "OAuthError ClientCertError MutualTLSChannelError"
        ),
        "key_missing": (
            "DefaultCredentialsError EphemeralTokenAPIKeyError InvalidOperation InvalidResource InvalidType "
            "InvalidValue MalformedError OSError"
        ),
        "other": (
            "ExperimentalWarning FunctionInvocationError UnknownFunctionCallArgumentError "
            "UnsupportedFunctionError CancelInteractionByIDClientError CancelInteractionByIDServerError "
            "CreateInteractionClientError CreateInteractionServerError DeleteInteractionClientError "
            "DeleteInteractionServerError GetInteractionByIDClientError GetInteractionByIDServerError"
        ),
    },
    "httpx": _TRANSPORT,
    "httpx2": _TRANSPORT,
    "httpcore": _TRANSPORT,
    "httpcore2": _TRANSPORT,
    "aiohttp": {  # what google.genai uses where it is installed
        "answered": "ClientResponseError WSServerHandshakeError ClientHttpProxyError",
        "timeout": "ServerTimeoutError ConnectionTimeoutError SocketTimeoutError",
        "unreachable": (
            "ClientError ClientConnectionError ClientConnectorError ClientConnectorDNSError ClientOSError "
            "ClientProxyConnectionError ClientSSLError ClientConnectorCertificateError ClientConnectorSSLError "
            "ServerFingerprintMismatch UnixClientConnectorError"
        ),
        "broken_off": (
            "ClientConnectionResetError ClientPayloadError ServerConnectionError ServerDisconnectedError "
            "UploadAbortedError"
        ),
        "unreadable": "ContentTypeError TooManyRedirects RedirectClientError WSMessageTypeError",
        "setup": (
            "InvalidURL InvalidUrlClientError InvalidUrlRedirectClientError NonHttpUrlClientError "
            "NonHttpUrlRedirectClientError"
        ),
    },
    "websockets": {  # fast-agent's other way to the responses API
        "unreachable": (
            "WebSocketException InvalidHandshake InvalidHeader InvalidHeaderFormat InvalidHeaderValue "
            "InvalidMessage InvalidOrigin InvalidParameterName InvalidParameterValue InvalidUpgrade "
            "NegotiationError DuplicateParameter SecurityError AbortHandshake RedirectHandshake InvalidProxy "
            "InvalidProxyMessage InvalidProxyStatus ProxyError"
        ),
        "answered": "InvalidStatus InvalidStatusCode",
        "broken_off": "ConnectionClosed ConnectionClosedError ConnectionClosedOK ProtocolError",
        "unreadable": "PayloadTooBig",
        "setup": "InvalidURI",
        "other": "ConcurrencyError InvalidState MultipleValuesError",
    },
    "fast_agent": {
        "answered": "ResponsesWebSocketError",
        "key_refused": "ProviderKeyError CopilotAuthenticationError _InvalidGrantError",
        "content_filter": "ProviderSafetyBufferingError",
        "timeout": "StreamIdleTimeoutError",
        "unreadable": "ToolInputRunawayError ProviderCheckpointError",
        "empty": "EmptyCompletionError EmptyStreamError",
        "setup": (
            "AgentConfigError CircularDependencyError ConfigFileError EnvironmentStartupError FastAgentError "
            "ModelConfigError ServerConfigError ServerInitializationError LlamaCppDiscoveryError"
        ),
        "other": "PromptExitError ServerSessionTerminatedError",
    },
}

READINGS: Mapping[tuple[str, str], Reading] = {
    (library, name): reading
    for library, rows in _BY_LIBRARY.items()
    for reading, names in rows.items()
    for name in names.split()
}
"""(library, class) → how it is read."""


def reading_of(error: BaseException) -> Reading | None:
    """How an exception is read: by its class, or the nearest of its bases that has a place; None without any."""
    for each in type(error).__mro__:
        reading = READINGS.get((each.__module__.partition(".")[0], each.__name__))
        if reading is not None:
            return reading
    return None
