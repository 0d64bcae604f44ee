"""Pallas's own loggers, which no configuration of the process's other logging reaches.

An agent's module may call `logging.config.dictConfig`, `logging.basicConfig(force=True)`, `logging.disable` or
`logging.setLogRecordFactory`: the standard library's loggers are its to configure. These are a tree apart from them,
with names under `pallas`; until they are given a handler, their records go to the process's root logger.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "pallas"


class OwnLogger(logging.Logger):
    """A logger that neither `logging.disable` nor a record factory reaches."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's
        """Whether records of this level are wanted; not remembered, since it may be the root logger's level."""
        return level >= self.getEffectiveLevel()

    def makeRecord(  # noqa: N802 - the standard library's
        self,
        name: str,
        level: int,
        fn: str,
        lno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        extra: Mapping[str, object] | None = None,
        sinfo: str | None = None,
    ) -> logging.LogRecord:
        """A record of the standard library's own kind; `extra` becomes its attributes."""
        record = logging.LogRecord(name, level, fn, lno, msg, args, exc_info, func, sinfo)
        record.__dict__.update(extra or {})
        return record


def own_logger(name: str = ROOT) -> logging.Logger:
    """The plain logger of that name, `pallas` or below it."""
    return _loggers.getLogger(name)


def give_handler(handler: logging.Handler | None, level: int | str = logging.NOTSET) -> None:
    """Send the records of these loggers to this handler and nowhere else; with None to the root logger again."""
    pallas = own_logger()
    for other in pallas.handlers[:]:
        pallas.removeHandler(other)
    if handler is not None:
        pallas.addHandler(handler)
    pallas.propagate = handler is None
    pallas.setLevel(level)


def _tree() -> logging.Manager:
    manager = logging.Manager(logging.root)
    manager.setLoggerClass(OwnLogger)
    manager.getLogger(ROOT)
    return manager


_loggers = _tree()
