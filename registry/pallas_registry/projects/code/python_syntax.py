"""What needs no walk over a file: fast-agent's decorators, which statements an import executes, problems with edits.

Pure.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pallas_common.problems import Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KINDS = {
    "agent": ("agents",),
    "custom": ("agents",),
    "smart": ("agents",),
    "orchestrator": ("agents",),
    "iterative_planner": ("agents",),
    "router": ("agents",),
    "chain": ("sequence",),
    "parallel": ("fan_out", "fan_in"),
    "evaluator_optimizer": ("generator", "evaluator"),
    "maker": ("worker",),
}
"""fast-agent's decorators, and the arguments that name the agents which such an agent is made of."""

WITH_MODEL = {"agent", "custom", "smart", "orchestrator", "iterative_planner", "router"}
"""Those that ask a model themselves; the others leave that to the agents that they are made of."""

OLD_PACKAGE = "mcp_agent"
"""What fast-agent's package was called before version 0.3."""


def executed(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body that are executed, blocks flattened; not those that only run as a script does."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        blocks: Iterable[Sequence[ast.stmt]] = ()
        match node:
            case ast.If(test=test) if is_main_guard(test) or _is_type_checking(test):
                blocks = (node.orelse,)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                blocks = (node.body, node.orelse)
            case ast.With() | ast.AsyncWith():
                blocks = (node.body,)
            case ast.Try() | ast.TryStar():
                blocks = (node.body, *(each.body for each in node.handlers), node.orelse, node.finalbody)
            case ast.Match():
                blocks = [each.body for each in node.cases]
        waiting.extend(reversed([each for block in blocks for each in block]))


def is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(side, ast.Name) and side.id == "__name__" for side in (test.left, *test.comparators)
    )


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def is_dotted(node: ast.expr) -> bool:
    for _ in range(20):
        if isinstance(node, ast.Name):
            return True
        if not isinstance(node, ast.Attribute):
            return False
        node = node.value
    return False


def unreachable(node: ast.Call, inside: str, path: str) -> Problem:
    if inside:
        message = f"the FastAgent is made inside {quoted(inside)}, where Pallas cannot take it from"
        remedy = "move it, and the functions that are decorated with it, to the top level of the file"
    else:
        message = "the FastAgent is made only where the file is run as a script"
        remedy = 'move it, and the functions that are decorated with it, above `if __name__ == "__main__":`'
    return Problem(path, node.lineno, "", message, remedy)


_NEW_PLACES = {"FastAgent": "fast_agent", "RequestParams": "fast_agent", "Prompt": "fast_agent.mcp.prompt"}


def old_import(node: ast.ImportFrom, path: str) -> Problem:
    names = [alias.name for alias in node.names]
    places = {_NEW_PLACES.get(name) for name in names}
    place = places.pop() if len(places) == 1 else None
    remedy = f"write `from {place} import {', '.join(names)}`" if place else "import it from `fast_agent`"
    message = f"`{OLD_PACKAGE}` is the old name of fast-agent's package"
    return Problem(path, node.lineno, "", message, remedy)
