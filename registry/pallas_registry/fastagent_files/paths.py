"""Where fast-agent finds its settings. Pure."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SECRETS_FILES = ("fast-agent.secrets.yaml", "fastagent.secrets.yaml")
CONFIG_FILES = ("fast-agent.yaml", "fast-agent.config.yaml", "fastagent.config.yaml")
FILES = (*CONFIG_FILES, *SECRETS_FILES)

HOME_VARIABLE = "FAST_AGENT_HOME"
DEFAULT_HOME = ".fast-agent"
"""Where fast-agent looks before it looks into the working directory, unless the variable names another folder."""


@functools.lru_cache(maxsize=64)
def settings_files(directory: Path, home: str | None) -> tuple[Path, ...]:
    """All files that fast-agent may read, whether they are there or not.

    Args:
        directory: the working directory.
        home: `FAST_AGENT_HOME`, or None.
    """
    return tuple(folder / name for folder in folders(directory, home) for name in FILES)


def folders(directory: Path, home: str | None) -> tuple[Path, ...]:
    """The folders of these files, in the order in which fast-agent looks into them."""
    first = os.path.expanduser(home or DEFAULT_HOME)  # noqa: PTH111 - Path's own raises for an unknown user
    return tuple(dict.fromkeys((directory / first, directory)))
