"""Which of its settings files fast-agent reads: one, of the first folder that has any.

Its home comes first, then the working directory. Several names for the same thing in one folder are refused, as
fast-agent refuses them, and so is everything then. Looks at names; reads nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.fastagent_files.paths import CONFIG_FILES, SECRETS_FILES, folders

if TYPE_CHECKING:
    from pathlib import Path


def settings_file(directory: Path, home: str | None) -> Path | None:
    """The file with the settings, None without any. Secrets are taken from its folder alone.

    Args:
        directory: the working directory.
        home: `FAST_AGENT_HOME`, or None.

    Raises:
        ConfigurationError: the folder has several, or several for secrets.
    """
    for folder in folders(directory, home):
        if (found := _only(folder, CONFIG_FILES)) is not None:
            _only(folder, SECRETS_FILES)
            return found
    for folder in folders(directory, home):
        if _only(folder, SECRETS_FILES) is not None:
            break
    return None


def _only(folder: Path, names: tuple[str, ...]) -> Path | None:
    found = [folder / name for name in names if os.path.lexists(folder / name)]
    if len(found) > 1:
        others = " and ".join(path.name for path in found[1:])
        raise ConfigurationError(
            [
                Problem(
                    str(found[0]),
                    None,
                    "",
                    f"lies beside {others}, and fast-agent reads neither",
                    "keep one of them",
                )
            ]
        )
    return found[0] if found else None
