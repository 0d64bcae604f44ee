"""The user's module: imported, and its FastAgent found. What is wrong with it is said in the user's terms.

Knows Python's import and fast-agent's application class; must not know how an agent is run.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from fast_agent import FastAgent

from pallas_worker.interface.errors import AgentError
from pallas_worker.process.user_module.import_position import reporting_position

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pallas_common.protocol.reports import FailedReport
    from pallas_worker.process.user_module.errors import UserCode

NAME = "fast"
"""What a module calls its FastAgent."""

MAX_NAMES = 5
"""Names of other FastAgents that are listed."""


def load_agents(module: str, code: UserCode, report: Callable[[FailedReport], None]) -> FastAgent:
    """Import the user's module and find its `fast`. Asked to end meanwhile, the process reports where it is, and does.

    Raises:
        AgentError: there is no such module, it cannot be imported, or it has no `fast`.
    """
    # Not every FastAgent(...) passes parse_cli_args=False, and our arguments are not for it.
    sys.argv = [module]
    try:
        with reporting_position(code, report):
            imported = importlib.import_module(module)
            fast = getattr(imported, NAME, None)
    except BaseException as error:
        raise AgentError(_namesake(module, code) or code.describe(error), permanent=True) from error
    if isinstance(fast, FastAgent):
        return fast
    raise AgentError(_namesake(module, code) or _without(module, imported, fast), permanent=True)


def _namesake(module: str, code: UserCode) -> str | None:
    """The complaint about a module called like one of Python's own, which is what was imported."""
    package = module.partition(".")[0]
    spec = getattr(sys.modules.get(package), "__spec__", None)
    if package not in sys.stdlib_module_names or spec is None or code.owns(str(spec.origin)):
        return None
    return f"`{package}` is Python's own module; rename yours"


def _without(module: str, imported: ModuleType, fast: object) -> str:
    """The complaint about a module that has no `fast`, or another thing of that name."""
    names = list(getattr(imported, "__dict__", {}).items())
    others = [name for name, value in names if issubclass(type(value), FastAgent) and name != NAME]
    if fast is None:
        wrong = f"{module} has no `{NAME}`"
    else:
        wrong = f"`{NAME}` of {module} must be a FastAgent, not {type(fast).__name__[:100]}"
    if len(others) == 1:
        return f"{wrong}: found a FastAgent called `{others[0]}`; add `{NAME} = {others[0]}`"
    if others:
        listed = ", ".join(f"`{name}`" for name in others[:MAX_NAMES])
        more = ", …" if len(others) > MAX_NAMES else ""
        return f"{wrong}: found FastAgents called {listed}{more}; add `{NAME} = ` and the one to be served"
    return f"{wrong}: add {NAME} = FastAgent(...) at module level" if fast is None else wrong
