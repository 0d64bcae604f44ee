"""What went wrong in the user's own code, as one short line: where, which exception, what it says.

Pure, apart from looking into the module's folder for a file that was meant. Whatever an exception carries is its
author's: it may be of any length, and fail when it is asked for its text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import shortened

if TYPE_CHECKING:
    from types import FrameType, TracebackType

MAX_MESSAGE = 500
"""Characters of an exception's own text."""

_OURS = str(Path(__file__).parents[2])
_LIBRARIES = tuple({f"{path}/lib" for path in (sys.prefix, sys.base_prefix)} | {_OURS})
_INSTALLED = ("site-packages", "dist-packages")


class UserCode:
    """Knows the user's own code from that of libraries: files below the working directory, and the module's package."""

    def __init__(self, directory: str, module: str) -> None:
        self._directory = directory.rstrip("/") + "/"
        self._module = module
        self._package = module.partition(".")[0]

    def describe(self, error: BaseException) -> str:
        """One line: `agents/jarvis.py:5: ValueError: what it says`, without the place where that is not the user's."""
        if isinstance(error, SystemExit) and error.__context__ is not None:
            # fast-agent ends the process over a configuration that it cannot read; what it read says more.
            error = error.__context__
        place = self._place_of_syntax(error) or self._place(error.__traceback__)
        line = f"{place}: {said(error)}" if place else said(error)
        return f"{line}{self._advice(error)}"

    def shown(self, frame: FrameType | None) -> str | None:
        """The innermost place in the user's code that a thread at `frame` runs: `agents/jarvis.py:5 in work`."""
        while frame is not None:
            if self._is_own(frame):
                return f"{self._short(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name[:100]}"
            frame = frame.f_back
        return None

    def owns(self, file: str) -> bool:
        """Whether a file, by its absolute path, is below the working directory and of no library."""
        if not file.startswith(self._directory) or file.startswith(_LIBRARIES):
            return False
        return not any(part in _INSTALLED for part in Path(file).parts)

    def _place(self, traceback: TracebackType | None) -> str | None:
        """Where the innermost of the user's own frames was."""
        place = None
        while traceback is not None:
            if self._is_own(traceback.tb_frame):
                place = f"{self._short(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        return place

    def _place_of_syntax(self, error: BaseException) -> str | None:
        """Where a file of the user's cannot be parsed: no frame of it has run."""
        if not isinstance(error, SyntaxError) or not isinstance(error.filename, str):
            return None
        if not self.owns(error.filename):
            return None
        line = f":{error.lineno}" if isinstance(error.lineno, int) else ""
        return f"{self._short(error.filename)}{line}"

    def _is_own(self, frame: FrameType) -> bool:
        if self.owns(frame.f_code.co_filename):
            return True
        name = frame.f_globals.get("__name__")
        return isinstance(name, str) and name.partition(".")[0] == self._package

    def _short(self, file: str) -> str:
        return file.removeprefix(self._directory)

    def _advice(self, error: BaseException) -> str:
        """What to do, where the error itself does not say it and it is known."""
        if not isinstance(error, ModuleNotFoundError) or not isinstance(error.name, str):
            return ""
        if error.name.partition(".")[0] == "mcp_agent":
            return "; it is called `fast_agent` now: from fast_agent import FastAgent"
        if not f"{self._module}.".startswith(f"{error.name}."):
            return ""
        path = Path(self._directory, *error.name.split("."))
        if (hyphened := _hyphened(path)) is not None:
            what = "folder" if hyphened.is_dir() else "file"
            return f"; rename the {what} {self._short(str(hyphened))}: `{path.name}`"
        missing = f"{self._short(str(path))}{'.py' if error.name == self._module else '/'}"
        return f"; there is no {missing}: write it, or mend `module:` in agents.yaml"


def said(error: BaseException) -> str:
    """The exception's type and text in one line, as at the end of a traceback."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        text = " ".join(str(text)[: 4 * MAX_MESSAGE].split())
    except Exception:  # noqa: BLE001 - a foreign __str__
        text = "(its text cannot be had)"
    text = shortened(text, MAX_MESSAGE)
    name = type(error).__name__[:100]
    return f"{name}: {text}" if text else name


def _hyphened(path: Path) -> Path | None:
    """A file or folder that differs from `path` in hyphens alone, which Python cannot import."""
    try:
        entries = list(path.parent.iterdir())
    except OSError:
        return None
    return next((e for e in entries if e.stem != path.name and e.stem.replace("-", "_") == path.name), None)
