"""The one log format, for structlog's loggers and the standard library's alike, and who may say how much.

Knows levels, loggers and formatting; where records go is the business of the handler that it is given.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import structlog

from pallas_registry.problems import ConfigurationError, Problem, quoted
from pallas_registry.records import LAST_KEY, parse_record, record_line, render, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import EventDict, WrappedLogger

__all__ = [
    "THIRD_PARTY",
    "Levels",
    "RecordFormatter",
    "configure_logging",
    "get_logger",
    "levels",
    "parse_record",
    "record_line",
    "timestamp",
]

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

LEVEL_NAMES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_ALIASES = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_FIELDS = "pallas_fields"
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", _FIELDS}
_OURS = ("time", "level", "logger", "message", "stack", LAST_KEY)


class Levels(NamedTuple):
    """Names of levels, in upper case."""

    pallas: str
    """Of the `pallas` loggers."""
    root: str
    """Of everything else."""


def levels(environ: Mapping[str, str], config_level: str | None) -> Levels:
    """The levels by the rules of the technical reference, section 5.

    `pallas` is `PALLAS_LOG_LEVEL`, else `config_level` (`logger.level` of `fastagent.config.yaml`), else INFO;
    `root` is `PALLAS_ROOT_LOG_LEVEL`, else the higher one of `pallas` and INFO.

    Raises:
        ConfigurationError: one of them is no level's name.
    """
    problems: list[Problem] = []

    def level(variable: str) -> str | None:
        given = environ.get(variable)
        if not given:
            return None
        name = level_name(given)
        if name is None:
            message = f"{quoted(given)} is not a log level"
            problems.append(
                Problem("environment", None, variable, message, f"use one of {', '.join(LEVEL_NAMES)}")
            )
        return name

    pallas = level("PALLAS_LOG_LEVEL") or (config_level and level_name(config_level)) or "INFO"
    root = level("PALLAS_ROOT_LOG_LEVEL") or max(pallas, "INFO", key=LEVEL_NAMES.index)
    if problems:
        raise ConfigurationError(problems)
    return Levels(pallas=pallas, root=root)


def level_name(text: str) -> str | None:
    """The level's name in upper case, `warn` → `WARNING`, or None if there is no such level."""
    name = text.strip().upper()
    name = _ALIASES.get(name, name)
    return name if name in LEVEL_NAMES else None


def configure_logging(handler: logging.Handler, levels: Levels, fields: Mapping[str, object]) -> None:
    """Send every record of the process to `handler`, as lines of the one format, and nowhere else.

    `fields` stand in every record (agent, pid, generation, …). May be called again, after a fork or when levels
    change: the newest call counts.
    """
    handler.setFormatter(RecordFormatter(fields))
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(levels.root)
    pallas = logging.getLogger("pallas")
    for other in pallas.handlers[:]:
        pallas.removeHandler(other)
    pallas.propagate = True
    pallas.setLevel(levels.pallas)
    for name in THIRD_PARTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    _configure_structlog()


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The structured logger of that name: `get_logger("pallas.engine").info("started", agent="jarvis")`."""
    _configure_structlog()
    return cast("structlog.stdlib.BoundLogger", structlog.stdlib.get_logger(name))


class RecordFormatter(logging.Formatter):
    """Renders a record, of structlog or of plain logging, as one line of JSON without its line feed."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        """`fields` come right after the message in every record; a record's own fields win over them."""
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line. Never raises: arguments that do not fit a message are shown beside it."""
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **self._fields,
        }
        own = record.__dict__.get(_FIELDS)
        if own is None:
            own = {key: record.__dict__[key] for key in record.__dict__ if key not in _OF_EVERY_RECORD}
        for key, value in own.items():
            line[f"{key}_" if key in _OURS else key] = value
        if record.stack_info:
            line["stack"] = record.stack_info
        if record.exc_info and record.exc_info[0] is not None:
            line[LAST_KEY] = self.formatException(record.exc_info)
        elif record.exc_text:
            line[LAST_KEY] = record.exc_text
        return render(line)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - somebody else's arguments or __str__
        try:
            return f"{record.msg} {record.args!r}"
        except Exception:  # noqa: BLE001
            return f"<{type(record.msg).__name__}>"


def _configure_structlog() -> None:
    if structlog.is_configured() and structlog.get_config()["processors"] is _PROCESSORS:
        return
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _hand_to_logging(
    _logger: WrappedLogger, _method: str, event: EventDict
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Turn an event into the arguments of a standard logger's method; its fields travel in the record."""
    options = {key: event.pop(key) for key in ("exc_info", "stack_info", "stacklevel") if key in event}
    message = event.pop("event", "")
    arguments = event.pop("positional_args", ())
    return (message, *arguments), {"extra": {_FIELDS: event}, **options}


_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    _hand_to_logging,
]
