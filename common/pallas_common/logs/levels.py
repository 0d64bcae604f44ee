"""Which loggers may say how much: names of levels, from the environment and the configuration.

Pure; knows the rules of precedence, and no logger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import ConfigurationError, Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVEL_NAMES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_NUMBERS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
"""The standard library's, which is not asked: a program may rename its levels."""

_BY_NUMBER = {number: name for name, number in _NUMBERS.items()}

_ALIASES = {"WARN": "WARNING", "FATAL": "CRITICAL"}


class Levels(NamedTuple):
    """Names of levels, in upper case."""

    pallas: str
    """Of the `pallas` loggers."""
    root: str
    """Of everything else."""


def levels(environ: Mapping[str, str], config_level: str | None) -> Levels:
    """The levels by the rules of the technical reference, section 5.

    `config_level` is `logger.level` of `fastagent.config.yaml`, which is there for fast-agent's records: its own
    examples say `error`. `pallas` is `PALLAS_LOG_LEVEL`, else `config_level` where that says more than INFO, else INFO;
    `root` is `PALLAS_ROOT_LOG_LEVEL`, else the higher one of INFO and `config_level`, or of INFO and `pallas`.

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
            message, remedy = f"{quoted(given)} is not a log level", f"use one of {', '.join(LEVEL_NAMES)}"
            problems.append(Problem("environment", None, variable, message, remedy))
        return name

    others = (config_level and level_name(config_level)) or None
    pallas = level("PALLAS_LOG_LEVEL") or min(others or "INFO", "INFO", key=LEVEL_NAMES.index)
    root = level("PALLAS_ROOT_LOG_LEVEL") or max(others or pallas, "INFO", key=LEVEL_NAMES.index)
    if problems:
        raise ConfigurationError(problems)
    return Levels(pallas=pallas, root=root)


def level_name(text: str) -> str | None:
    """The level's name in upper case, `warn` → `WARNING`, or None if there is no such level."""
    name = text.strip().upper()
    name = _ALIASES.get(name, name)
    return name if name in LEVEL_NAMES else None


def level_of(number: int) -> str | None:
    """The name of the level with that number in the standard library, or None if it is none of these."""
    return _BY_NUMBER.get(number)


def level_number(name: object) -> int:
    """The level's number in the standard library; INFO's for what is no level's name."""
    known = level_name(name) if isinstance(name, str) else None
    return _NUMBERS[known or "INFO"]
