"""Where fast-agent finds its settings, and how they name variables. Pure."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECRETS_FILES = ("fast-agent.secrets.yaml", "fastagent.secrets.yaml")
FILES = ("fast-agent.yaml", "fast-agent.config.yaml", "fastagent.config.yaml", *SECRETS_FILES)

HOME_VARIABLE = "FAST_AGENT_HOME"
DEFAULT_HOME = ".fast-agent"
"""Where fast-agent looks before it looks into the working directory, unless the variable names another folder."""

_VARIABLE = re.compile(r"\$\{([^}:]{1,256}+)(?::([^}]{0,1024}+))?\}")
"""`${NAME}` or `${NAME:default}`; bounded, so that a text costs no more than in proportion to its length."""


@functools.lru_cache(maxsize=64)
def settings_files(directory: Path, home: str | None) -> tuple[Path, ...]:
    """All files that fast-agent may read, whether they are there or not.

    Args:
        directory: the working directory.
        home: `FAST_AGENT_HOME`, or None.
    """
    first = os.path.expanduser(home or DEFAULT_HOME)  # noqa: PTH111 - Path's own raises for an unknown user
    folders = dict.fromkeys((directory / first, directory))
    return tuple(folder / name for folder in folders for name in FILES)


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with variables put in as fast-agent does: one without a value or a default stays as it is written."""

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return environ.get(name, match[0] if default is None else default)

    return _VARIABLE.sub(value, text)
