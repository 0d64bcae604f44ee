"""Secrets that a service manager hands over as files: those named like a variable become that variable.

Reads `$CREDENTIALS_DIRECTORY` (systemd.exec(5), LoadCredential=) and nothing else. Never touches `os.environ`, and
no value is in any message.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.reading.files import read_file
from pallas_registry.reading.rules import belongs_to_supervisor, environment_value

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY_VARIABLE = "CREDENTIALS_DIRECTORY"

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_AS_A_FILE = "give it a name in small letters, and read it as a file"


def load_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of credentials named like one (`OPENAI_API_KEY`) that `environ` does not hold yet.

    One line end at the end of a value is not part of it. Credentials with other names (`tls.key`, `openai-api-key`)
    stay files.

    Raises:
        ConfigurationError: such a credential cannot be read, is not UTF-8, or holds a NUL character.
    """
    given = environ.get(DIRECTORY_VARIABLE)
    if not given:
        return {}
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for path in _files(Path(given)):
        if not _VARIABLE.fullmatch(path.name) or belongs_to_supervisor(path.name) or path.name in environ:
            continue
        try:
            value = _value(read_file(path) or b"")
        except ConfigurationError as error:
            problems += [_problem(path, problem.message, problem.remedy) for problem in error.problems]
        except ValueError as error:
            problems.append(_problem(path, str(error), _AS_A_FILE))
        else:
            if complaint := environment_value(path.name, value):
                problems.append(_problem(path, complaint.message, _AS_A_FILE))
            values[path.name] = value
    if problems:
        raise ConfigurationError(problems)
    return values


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        problem = _problem(directory, f"cannot be read: {error.strerror}", "mend or unset it")
        raise ConfigurationError([problem]) from None


def _value(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8, and no variable can carry it") from None
    return text.removesuffix("\n").removesuffix("\r")


def _problem(path: Path, message: str, remedy: str) -> Problem:
    return Problem(f"${DIRECTORY_VARIABLE}/{path.name}", None, "", message, remedy)
