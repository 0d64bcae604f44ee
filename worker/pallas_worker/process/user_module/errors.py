"""What went wrong in the user's own code, as one short line: where, which exception, what it says.

Pure, apart from looking into the module's folder for a file that was meant. Whatever an exception carries is its
author's: it may be of any length, and fail when it is asked for its text.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import shortened
from pallas_worker.raised import RaisedError, said

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from pallas_common.protocol.agent.source import AgentSource

_OURS = str(Path(__file__).parents[2])
_LIBRARIES = tuple({f"{path}/lib" for path in (sys.prefix, sys.base_prefix)} | {_OURS})
_INSTALLED = ("site-packages", "dist-packages")


class UserCode:
    """Knows the user's own code from that of libraries: files below the working directory, and the module's package.

    Args:
        directory: the working directory, absolute.
        source: what the agent is made from.
    """

    def __init__(self, directory: str, source: AgentSource) -> None:
        self.directory = directory
        self._below = directory.rstrip("/") + "/"
        self._really_below = os.path.realpath(directory).rstrip("/") + "/"
        self._module = source.path if source.kind == "module" else None
        self._folder = source.path.rpartition("/")[0] if source.kind == "file" else ""
        self._package = self._module.partition(".")[0] if self._module is not None else None

    def describe(self, error: BaseException) -> str:
        """One line: `agents/jarvis.py:5: ValueError: what it says`, without the place where that is not the user's."""
        if isinstance(error, RaisedError) and error.__cause__ is not None:
            error = error.__cause__
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
                return (
                    f"{self.short(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name[:100]}"
                )
            frame = frame.f_back
        return None

    def owns(self, file: str) -> bool:
        """Whether a file, by its absolute path, is below the working directory and of no library."""
        if not file.startswith((self._below, self._really_below)) or file.startswith(_LIBRARIES):
            return False
        return not any(part in _INSTALLED for part in Path(file).parts)

    def _place(self, traceback: TracebackType | None) -> str | None:
        """Where the innermost of the user's own frames was."""
        place = None
        while traceback is not None:
            if self._is_own(traceback.tb_frame):
                place = f"{self.short(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        return place

    def _place_of_syntax(self, error: BaseException) -> str | None:
        """Where a file of the user's cannot be parsed: no frame of it has run."""
        if not isinstance(error, SyntaxError) or not isinstance(error.filename, str):
            return None
        if not self.owns(error.filename):
            return None
        line = f":{error.lineno}" if isinstance(error.lineno, int) else ""
        return f"{self.short(error.filename)}{line}"

    def _is_own(self, frame: FrameType) -> bool:
        if self.owns(frame.f_code.co_filename):
            return True
        name = frame.f_globals.get("__name__")
        return isinstance(name, str) and self._package is not None and name.partition(".")[0] == self._package

    def short(self, file: str) -> str:
        """What people call a file: its path in the working directory, or else all of it."""
        return file.removeprefix(self._below).removeprefix(self._really_below)

    def place_of(self, function: object) -> str:
        """Where a function or class of the user's is defined, as a message begins: `agents/a.py:5: `; or nothing."""
        try:
            function = inspect.unwrap(function) if callable(function) else function
            file = inspect.getfile(function)  # type: ignore[arg-type]
            line = inspect.getsourcelines(function)[1]  # type: ignore[arg-type]
        except (TypeError, OSError, ValueError):
            return ""
        return f"{self.short(file)}:{line}: " if self.owns(file) else ""

    def _advice(self, error: BaseException) -> str:
        """What to do, where the error itself does not say it and it is known."""
        if isinstance(error, ImportError) and "no known parent package" in str(error) and self._folder:
            return f"; import it without the dot, or add an empty {self._folder}/__init__.py"
        if "Can't patch loop of type" in said(error):  # nest_asyncio, and what is made of it
            return "; set `loop: asyncio` for the agent in agents.yaml"
        if not isinstance(error, ModuleNotFoundError) or not isinstance(error.name, str):
            return ""
        if error.name.partition(".")[0] == "mcp_agent":
            return f"; it is called `fast_agent` now: {self._new_import(error)}"
        if self._module is None or not f"{self._module}.".startswith(f"{error.name}."):
            return self._where_it_may_be(error.name)
        path = Path(self.directory, *error.name.split("."))
        if (hyphened := _hyphened(path)) is not None:
            what = "folder" if hyphened.is_dir() else "file"
            rest = self._module.removeprefix(error.name).replace(".", "/")
            file = f"{self.short(str(hyphened))}{rest}.py" if rest else self.short(str(hyphened))
            return (
                f"; write `module: {file}`, or rename the {what} {self.short(str(hyphened))}: `{path.name}`"
            )
        missing = f"{self.short(str(path))}{'.py' if error.name == self._module else '/'}"
        return f"; there is no {missing}: write it, or mend `module:` in agents.yaml"

    def _where_it_may_be(self, name: str) -> str:
        """What to do about a module, not the agent's own, that was imported and is not there."""
        folder = self._folder or (self._module or "").rpartition(".")[0].replace(".", "/")
        beside = Path(folder, *name.split("."))
        if folder and any(Path(self.directory, f"{beside}{end}").exists() for end in (".py", "/__init__.py")):
            found = ".".join(beside.parts)
            return f"; modules are looked for in the working directory: import it as `{found}`"
        top = name.partition(".")[0]
        if Path(self.directory, top).is_dir():
            return f"; there is no {name.replace('.', '/')}.py: write it, or mend the import"
        if top in sys.stdlib_module_names:
            return ""
        return (
            f"; install the package that has it into {sys.prefix}, or give the agent an environment of its own: "
            "`python:` in agents.yaml"
        )

    def _new_import(self, error: BaseException) -> str:
        """The edit of the line that imports from fast-agent's old name."""
        place, line = None, ""
        traceback = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if self._is_own(frame):
                place = f"{self.short(frame.f_code.co_filename)}, line {traceback.tb_lineno}"
                line = linecache.getline(frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        old = shortened(" ".join(line.split()))
        if place is None or not old:
            return "from fast_agent import FastAgent"
        found = _FROM.match(old)
        new = f"from fast_agent import {found[1]}" if found else old.replace("mcp_agent", "fast_agent")
        return f"in {place}, write `{new}` instead of `{old}`"


_FROM = re.compile(r"from\s+mcp_agent(?:\.core\.fastagent)?\s+import\s+(\w.*)")
"""An import from the module that held FastAgent; the others are called as they were."""


def _hyphened(path: Path) -> Path | None:
    """A file or folder that differs from `path` in hyphens alone, which Python cannot import."""
    try:
        entries = list(path.parent.iterdir())
    except OSError:
        return None
    return next((e for e in entries if e.stem != path.name and e.stem.replace("-", "_") == path.name), None)
