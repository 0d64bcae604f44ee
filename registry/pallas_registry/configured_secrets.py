"""The secrets that a deployment's files and environment name, for those who have to keep them out of what is written.

Reads fast-agent's two files, and says nothing about what is wrong with them: that is their owners' affair.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from pallas_registry.known_secrets import secrets_in
from pallas_registry.yaml_nodes import MAXIMUM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILES = ("fastagent.config.yaml", "fastagent.secrets.yaml")

_VARIABLE = re.compile(r"\$\{([^}:]+)(?::([^}]*))?\}")


def configured_secrets(directory: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The secrets of `environ` and of fast-agent's files in `directory`, `${NAME}` put in as fast-agent does."""
    yield from secrets_in(environ)
    for name in FILES:
        try:
            with (directory / name).open("rb") as file:
                settings = yaml.safe_load(file.read(MAXIMUM_BYTES))
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        for secret in secrets_in(settings):
            yield _VARIABLE.sub(lambda match: environ.get(match[1], match[2] or match[0]), secret)
