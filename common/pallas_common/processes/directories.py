"""The working directory by the name under which it was entered.

Why: deployments are switched by a symbolic link, `current` to `releases/2`. What the kernel says is where the link has
led when the process was started; what is looked up anew by its own name leads where the link leads now.
"""

from __future__ import annotations

import os
from pathlib import Path


def entered_directory() -> Path:
    """Return the working directory as `$PWD` names it, where that leads there, as `pwd -L` does.

    Raises:
        OSError: the folder has been removed since.
    """
    here = Path.cwd()
    given = os.environ.get("PWD", "")
    if given.startswith("/") and os.path.normpath(given) == given:
        try:
            if Path(given).samefile(here):
                return Path(given)
        except (OSError, ValueError):
            pass
    return here
