"""The one log format, for structlog's loggers and the standard library's alike.

Knows loggers and formatting; where records go is up to the handler that it is given.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from pallas_common.logs.levels import level_number, level_of
from pallas_common.logs.own_loggers import ROOT, give_handler, own_logger
from pallas_common.logs.records import LAST_KEY, render
from pallas_common.secrets.values import KnownSecrets
from pallas_common.times import timestamp

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

    from pallas_common.logs.levels import Levels

THIRD_PARTY = (
    "openai",
    "openai._base_client",
    "anthropic",
    "anthropic._base_client",
    "sse_starlette",
    "sse_starlette.sse",
    "mcp",
    "mcp.client",
    "mcp.server",
    "httpx",
    "httpcore",
)
"""Loggers that are pinned at WARNING whatever the root logger's level is."""

_FIELDS = "pallas_fields"
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", _FIELDS}
_OURS = ("time", "level", "logger", "message", "stack", LAST_KEY)


def configure_logging(
    handler: logging.Handler,
    limits: Levels,
    fields: Mapping[str, object],
    secrets: KnownSecrets | None = None,
) -> None:
    """Send every record of the process to `handler`, as lines of the one format, and nowhere else.

    Those of Pallas's own loggers go there whatever other code does with logging afterwards.

    `fields` are in every record (agent, pid, generation, …); `secrets` in none. May be called again, after a
    fork or when levels change: the newest call is in effect.
    """
    handler.setFormatter(RecordFormatter(fields, secrets))
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    set_level(root, level_number(limits.root))
    set_level(logging.getLogger(ROOT), level_number(limits.pallas))  # one of that name may be an agent's
    give_handler(handler, limits.pallas)
    for name in THIRD_PARTY:
        set_level(logging.getLogger(name), logging.WARNING)
    _configure_structlog()


def set_level(logger: logging.Logger, level: int) -> None:
    """Have the logger pass records from that level on; what is so already costs nothing.

    Why: the standard library answers each change by clearing what every logger of the process has remembered.
    """
    if logger.level != level:
        logger.setLevel(level)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The structured logger of that name: `get_logger("pallas.engine").info("started", agent="jarvis")`.

    Fields are given by their names, or bound. What other code does to structlog's configuration, or to logging's, does
    not reach it.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        own_logger(name),
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return logger


class RecordFormatter(logging.Formatter):
    """Renders a record, of structlog or of plain logging, as one line of JSON without its line feed."""

    def __init__(self, fields: Mapping[str, object], secrets: KnownSecrets | None = None) -> None:
        """`fields` come right after the message in every record; a record's own fields win over them."""
        super().__init__()
        self._fields = dict(fields)
        self._secrets = secrets if secrets is not None else KnownSecrets()

    def format(self, record: logging.LogRecord) -> str:
        """The record's line. Never raises: arguments that do not fit a message are shown beside it."""
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": level_of(record.levelno) or record.levelname,  # a program may rename its levels
            "logger": record.name,
            "message": _message(record),
            **self._fields,
        }
        own = {key: record.__dict__[key] for key in record.__dict__ if key not in _OF_EVERY_RECORD}
        own.update(record.__dict__.get(_FIELDS, {}))
        for key, value in own.items():
            line[f"{key}_" if key in _OURS else key] = value
        if record.stack_info:
            line["stack"] = record.stack_info
        if record.exc_info and record.exc_info[0] is not None:
            line[LAST_KEY] = self.formatException(record.exc_info)
        elif record.exc_text:
            line[LAST_KEY] = record.exc_text
        return render(line, self._secrets)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments may be of any type, with a __str__ that fails
        try:
            return f"{record.msg} {record.args!r}"
        except Exception:  # noqa: BLE001
            return f"<{type(record.msg).__name__}>"


def _configure_structlog() -> None:
    """For loggers that an agent's code takes from structlog, unless it configures structlog itself."""
    structlog.configure(
        processors=[*_PROCESSORS],  # not our own list: `structlog.testing.capture_logs` changes it in place
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _hand_to_logging(
    _logger: WrappedLogger, _method: str, event: EventDict
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Turn an event into the arguments of a standard logger's method.

    Its fields, and those of its context, are passed in the record as they are, and as attributes too, where no
    attribute has that name already. All that the context has is fields, whatever their names: an agent's code may set
    it. Arguments for the message, and `extra`, come from loggers that agents take from structlog.
    """
    options = {key: event.pop(key) for key in ("exc_info", "stack_info", "stacklevel") if key in event}
    message = event.pop("event", "")
    arguments = event.pop("positional_args", ())
    given = event.pop("extra", None) or {}
    if not isinstance(given, Mapping):
        given = {"extra": given}
    fields = {**structlog.contextvars.get_contextvars(), **event, **given}
    extra = {key: value for key, value in fields.items() if key not in _OF_EVERY_RECORD}
    return (message, *arguments), {"extra": {**extra, _FIELDS: fields}, **options}


_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    _hand_to_logging,
]
