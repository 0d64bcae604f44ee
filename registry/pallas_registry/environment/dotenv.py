"""Environments: what `.env` adds to the supervisor's, and what a worker is given.

Reads `.env` and no other file. Never touches `os.environ`: callers pass environments in and apply what comes
out.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from dotenv.parser import parse_stream
from dotenv.variables import parse_variables

from pallas_common.problems import LONGEST_WORD, ConfigurationError, Problem
from pallas_registry.reading.files import read_file, text_of
from pallas_registry.reading.rules import VARIABLE_BYTES, environment_value, is_for_workers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DOTENV = ".env"

MOST_BLANKS = 256
"""In a row, on one line of `.env`."""

MOST_REFERENCES = 1000
"""Of one value to other variables; with more of them it stays as it is written."""


def load_dotenv(directory: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of `.env` in `directory` that `environ` does not hold yet; none without such a file.

    They are as python-dotenv reads them: `${NAME}` and `${NAME:-default}` are filled in, by `environ` or else by what
    stands above, in quotes as well. A name without `=` is passed over. A folder of that name is a virtual environment,
    and passed over too.

    Raises:
        ConfigurationError: the file cannot be read, or a line in it; all problems, and no value in any of them.
    """
    path = directory / DOTENV
    data = None if path.is_dir() else read_file(path)
    return {} if data is None else parse_dotenv(data, str(path), environ)


def parse_dotenv(data: bytes, file: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables in `data`, the content of `file`, that `environ` does not hold yet.

    Raises:
        ConfigurationError: something in it cannot be used; all problems, and no value in any of them.
    """
    text = text_of(data, file)
    problems: list[Problem] = []
    values: dict[str, str] = {}
    known: dict[str, str | None] = dict(environ)

    def refuse(line: int, field: str, message: str, remedy: str) -> None:
        problems.append(Problem(file, line, field, message, remedy))

    # python-dotenv looks for a comment behind each blank of a value again, in all the blanks that follow it.
    for blanks in re.finditer(r"[^\S\r\n]+", text):
        if len(blanks[0]) > MOST_BLANKS:
            line = text.count("\n", 0, blanks.start()) + 1
            refuse(line, "", f"has more than {MOST_BLANKS} blanks in a row", "remove them")
            raise ConfigurationError(problems)
    for binding in parse_stream(io.StringIO(text)):
        stated = binding.original.string
        line = binding.original.line + stated.count("\n", 0, len(stated) - len(stated.lstrip()))
        if binding.error:
            refuse(
                line,
                "",
                "cannot be understood",
                "write the line as `NAME=value`, with quotes that are closed",
            )
        elif binding.key is None:
            continue
        elif binding.value is None:
            known.setdefault(binding.key, None)
        elif "=" in binding.key:
            refuse(line, "", "names a variable with a `=` in it", "write the line as `NAME=value`")
        elif complaint := environment_value(binding.key, filled := _filled(binding.value, known)):
            refuse(line, _shown(binding.key), *complaint)
        else:
            values[binding.key] = filled
            if binding.key not in environ:
                known[binding.key] = filled
    if problems:
        raise ConfigurationError(problems)
    return {name: value for name, value in values.items() if name not in environ}


def _shown(name: str) -> str:
    return name if len(name) <= LONGEST_WORD else ""


def _filled(value: str, known: Mapping[str, str | None]) -> str:
    """Return the value with its references filled in: so far that it is refused, if it is more than any may be."""
    if not 0 < value.count("${") <= MOST_REFERENCES or len(value) > VARIABLE_BYTES:
        return value
    parts, length = [], 0
    for atom in parse_variables(value):
        parts.append(atom.resolve(known))
        length += len(parts[-1])
        if length > VARIABLE_BYTES:
            break
    return "".join(parts)


def worker_environment(environ: Mapping[str, str], agent_env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a worker: `environ` with the agent's own variables over it.

    NOTIFY_SOCKET, WATCHDOG_* and LISTEN_* are left out, wherever they come from: a worker that found them
    would speak to the service manager in the supervisor's name (sd_notify(3), sd_listen_fds(3)). So is the gateway's
    store, which is none of its business.
    """
    merged = {**environ, **agent_env}
    return {name: value for name, value in merged.items() if is_for_workers(name)}
