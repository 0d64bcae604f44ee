"""One Python file of a project: the FastAgents that it holds, the factories that make one, the agents that it defines.

Pure: follows what happens when the module is imported, as far as it can be seen without running it. Knows how
fast-agent is imported and which decorators it has; other files only through `Importer`.
"""

from __future__ import annotations

import ast
import warnings
from typing import Protocol

from pallas_common.problems import Problem
from pallas_registry.projects.code.constants import UNKNOWN, Room, Value, fold, text, texts
from pallas_registry.projects.code.facts import Application, Definition, Factory, PythonFile
from pallas_registry.projects.code.python_syntax import (
    KINDS,
    OLD_PACKAGE,
    WITH_MODEL,
    executed,
    is_dotted,
    is_main_guard,
    old_import,
    unreachable,
)

_SETTINGS = {"config_path", "home", "model"}
"""Arguments of FastAgent after which the project's settings do not say which model is used."""
_PACKAGES = ("fast_agent", OLD_PACKAGE)
_RUNNERS = {"asyncio.run", "anyio.run", "trio.run", "uvloop.run"}

type Function = ast.FunctionDef | ast.AsyncFunctionDef


class Importer(Protocol):
    """Other files of the project, by what an import statement says."""

    room: Room
    """For what all files know."""

    def module(self, name: str, level: int, file: str) -> PythonFile | None:
        """The module that `from name import …` in `file` reads, or None if it is none of the project."""


def read_python(data: bytes, path: str, importer: Importer, known: PythonFile | None = None) -> PythonFile:
    """What the file at `path` holds. Its problems have a line and the edit.

    `known` is filled while the file is read, so that modules which import each other find what there is so far.
    """
    found = known or PythonFile(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data, path)
    except SyntaxError as error:
        found.problems.append(
            Problem(path, error.lineno, "", f"is not valid Python: {error.msg}", "correct it: it cannot run")
        )
        return found
    except (RecursionError, MemoryError, ValueError) as error:
        reason = "nests too deeply" if not isinstance(error, ValueError) else str(error)
        found.problems.append(
            Problem(path, None, "", f"cannot be read: {reason}", "see whether it is Python")
        )
        return found
    try:
        _Reading(found, importer, tree).run()
    except RecursionError:  # functions that call each other on and on
        message = "cannot be read: its functions call each other too deeply"
        found.problems.append(Problem(path, None, "", message, "see whether it can be imported"))
    return found


class _Reading:
    """The walk over one file."""

    def __init__(self, found: PythonFile, importer: Importer, tree: ast.Module) -> None:
        self.found = found
        self.path = found.path
        self.importer = importer
        self.tree = tree
        self.docstring = ast.get_docstring(tree)
        self.origins: dict[str, str] = {}
        """What a name stands for that was imported: `fast_agent.FastAgent`."""
        self.modules: dict[str, PythonFile] = {}
        self.classes: set[str] = set()
        """Subclasses of FastAgent."""
        self.functions: dict[str, Function] = {}
        self.made: set[int] = set()
        """Calls of FastAgent that were understood, by `id`."""
        self.old: list[ast.ImportFrom] = []
        self.has_new = False
        """Whether the class is imported from where it is today, perhaps as one choice of two."""

    def run(self) -> None:
        names = self.found.applications
        for statement in executed(self.tree.body):
            self.statement(statement, names, module=True)
        for function in self.functions.values():
            if function.name not in self.found.factories:
                self.late(function, names)
        self.ports(names)
        self.unreachable()
        if self.old and not self.has_new:
            self.found.problems.extend(old_import(node, self.path) for node in self.old)

    def statement(self, node: ast.stmt, names: dict[str, Application], *, module: bool) -> None:
        """What one executed statement does. `names` are the FastAgents in its scope."""
        match node:
            case ast.Import():
                self.imported(node)
            case ast.ImportFrom():
                self.imported_from(node, names)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, value, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, value, names)
            case ast.ClassDef():
                self.defined_class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in reversed(node.decorator_list):
                    self.register(decorator, names, docstring=ast.get_docstring(node))
                if module:
                    self.functions[node.name] = node
                    self.factory(node)
            case ast.Expr(value=ast.Await(value=called)) | ast.Expr(value=called):
                self.expression(called, names)

    def defined_class(self, node: ast.ClassDef) -> None:
        """Notes a subclass of FastAgent, and constants that a class holds."""
        if any(self.is_fast_agent(base) for base in node.bases):
            self.classes.add(node.name)
        for inner in node.body:
            if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                attribute = inner.targets[0].id
                self.found.members.setdefault(node.name, []).append(attribute)
                self.keep(f"{node.name}.{attribute}", self.fold(inner.value))

    def imported(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.origins[alias.asname or top] = alias.name if alias.asname else top
            if other := self.importer.module(alias.name, 0, self.path):
                self.found.imports.add(other.path)
                self.modules[alias.asname or alias.name] = other

    def imported_from(self, node: ast.ImportFrom, names: dict[str, Application]) -> None:
        module = node.module or ""
        if module.partition(".")[0] == OLD_PACKAGE and not node.level:
            self.old.append(node)
        other = self.importer.module(module, node.level, self.path) if module else None
        if other is not None:
            self.found.imports.add(other.path)
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                self.star(module, other, names)
                continue
            self.origins[name] = f"{module}.{alias.name}"
            if alias.name == "FastAgent":
                if not module.startswith(_PACKAGES):  # handed on by another module
                    self.origins[name] = "fast_agent.FastAgent"
                self.has_new = self.has_new or not module.startswith(OLD_PACKAGE)
            inner = self.importer.module(f"{module}.{alias.name}".strip("."), node.level, self.path)
            if inner is not None:
                self.found.imports.add(inner.path)
                self.modules[name] = inner
            if other is not None:
                self.take(other, alias.name, name, names)

    def take(self, other: PythonFile, name: str, here: str, names: dict[str, Application]) -> None:
        """What `name` is in another file is `here` in this one."""
        if name in other.applications:
            names[here] = other.applications[name]
        if name in other.factories:
            self.found.factories.setdefault(here, other.factories[name])
        if name in other.constants:
            self.keep(here, other.constants[name])
        for attribute in other.members.get(name, ()):
            self.keep(f"{here}.{attribute}", other.constants.get(f"{name}.{attribute}", UNKNOWN))

    def star(self, module: str, other: PythonFile | None, names: dict[str, Application]) -> None:
        if module == "fast_agent":
            self.origins["FastAgent"] = "fast_agent.FastAgent"
        if other is None:
            return
        for name, application in other.applications.items():
            if not self.importer.room.take():
                return
            names[name] = application
        for name, value in other.constants.items():
            if not self.keep(name, value):
                return

    def keep(self, name: str, value: Value) -> bool:
        """Note a constant; whether there was room for it."""
        if self.importer.room.take(value):
            self.found.constants[name] = value
            return True
        self.found.constants.pop(name, None)
        return False

    def origin(self, node: ast.expr) -> str:
        """The dotted name of what an expression stands for, imports followed."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < 20:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.origins.get(node.id, node.id), *reversed(parts)])

    def is_fast_agent(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name) and node.id in self.classes:
            return True
        origin = self.origin(node)
        return origin.partition(".")[0] in _PACKAGES and origin.endswith(".FastAgent")

    def application(self, node: ast.expr, names: dict[str, Application]) -> Application | None:
        """The FastAgent that an expression stands for, or makes."""
        match node:
            case ast.Name(id=name):
                return names.get(name)
            case ast.Attribute(attr=attribute):
                module = self.modules.get(ast.unparse(node.value)) if is_dotted(node.value) else None
                return module.applications.get(attribute) if module else None
            case ast.Call(func=function) if self.is_fast_agent(function):
                self.made.add(id(node))
                keywords = {each.arg: each.value for each in node.keywords}
                said = text(self.fold(node.args[0] if node.args else keywords.get("name")))
                return Application(
                    file=self.path,
                    line=node.lineno,
                    name=said,
                    docstring=self.docstring,
                    own_settings=not _SETTINGS.isdisjoint(keywords),
                )
            case ast.Call(func=ast.Name(id=name)) if name in self.found.factories:
                return self.found.factories[name].application
            case ast.Await(value=value):
                return self.application(value, names)
        return None

    def bind(self, target: ast.expr, value: ast.expr, names: dict[str, Application]) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for each, part in zip(target.elts, value.elts, strict=False):
                self.bind(each, part, names)
        elif isinstance(target, ast.Name):
            made = self.application(value, names)
            if made is not None:
                names[target.id] = made
            else:
                self.expression(value, names)
            self.keep(target.id, UNKNOWN if made else self.fold(value))

    def expression(self, node: ast.expr, names: dict[str, Application]) -> None:
        """An expression that is evaluated for what it does: `fast.agent(…)(function)`, `fast.load_agents(…)`."""
        if not isinstance(node, ast.Call):
            return
        if self.origin(node.func) in _RUNNERS:
            message = "runs the agents when the file is imported"
            remedy = 'put this line below `if __name__ == "__main__":`'
            self.found.problems.append(Problem(self.path, node.lineno, "", message, remedy))
        elif isinstance(node.func, ast.Call):
            self.register(node.func, names)
        elif isinstance(node.func, ast.Attribute) and (made := self.application(node.func.value, names)):
            if node.func.attr in {"load_agents", "load_agents_from_url"}:
                path = text(self.fold(node.args[0])) if node.args else None
                if path is None or node.func.attr != "load_agents":
                    made.complete = False
                else:
                    made.card_paths.append(path)
        else:
            self.called(node, names)

    def called(self, node: ast.Call, names: dict[str, Application]) -> None:
        """A function that is called on import: its body is executed, with the FastAgents that it is given."""
        function = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        given = [self.application(each, names) for each in node.args if isinstance(each, ast.Name)]
        if function is None:
            for made in given:
                if made is not None:
                    made.complete = False
            return
        self.functions.pop(function.name)
        inner = dict(names)
        for argument, value in zip(function.args.args, node.args, strict=False):
            if (made := self.application(value, names)) is not None:
                inner[argument.arg] = made
        for statement in executed(function.body):
            self.statement(statement, inner, module=False)

    def register(self, node: ast.expr, names: dict[str, Application], docstring: str | None = None) -> None:
        if (made := self.registering(node, names)) is not None and isinstance(node, ast.Call):
            made.definitions.append(self.definition(node, docstring))

    def registering(self, node: ast.expr, names: dict[str, Application]) -> Application | None:
        """The FastAgent on which a call defines an agent."""
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=kind)) if kind in KINDS:
                return self.application(of, names) if not isinstance(of, ast.Call) else None
        return None

    def definition(self, node: ast.Call, docstring: str | None) -> Definition:
        kind = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        said = {each.arg: each.value for each in node.keywords if each.arg}
        whole = len(said) == len(node.keywords)  # without `**options`
        arguments = node.args[1:] if kind == "custom" else node.args
        first = arguments[0] if arguments else said.get("name")
        name = text(self.fold(first)) if first is not None else ("default" if whole else None)
        instruction = said.get("instruction") or (arguments[1] if len(arguments) > 1 else None)
        if kind == "smart":
            remedy = "write `@fast.agent(…, subagents=True, harness_tools=True)`"
            message = "`smart` is gone since fast-agent 0.10"
            self.found.problems.append(Problem(self.path, node.lineno, "", message, remedy))
        parts = [part for key in KINDS[kind] for part in texts(self.fold(said.get(key)))]
        return Definition(
            name=name,
            kind=kind,
            file=self.path,
            line=node.lineno,
            text=text(self.fold(instruction)) or docstring,
            parts=tuple(parts),
            servers=texts(self.fold(said.get("servers"))),
            has_model=kind not in WITH_MODEL or not whole or "model" in said,
            default=self.fold(said.get("default")) is True,
        )

    def factory(self, function: Function) -> None:
        """Notes the function if it returns a FastAgent, with the agents that are defined on that inside it."""
        if function.decorator_list:
            return
        mentioned = any(
            isinstance(node, ast.Call) and self.is_fast_agent(node.func) for node in ast.walk(function)
        )
        if not mentioned:
            return
        constants = dict(self.found.constants)
        names: dict[str, Application] = {}
        own = set(self.made)
        result: Application | None = None
        for statement in executed(function.body):
            if isinstance(statement, ast.Return) and statement.value is not None:
                result = self.application(statement.value, names) or result
            else:
                self.statement(statement, names, module=False)
        self.found.constants.clear()
        self.found.constants.update(constants)
        if result is None:
            self.made = own
            return
        signature = function.args
        positional = [each.arg for each in (*signature.posonlyargs, *signature.args)]
        required = positional[: len(positional) - len(signature.defaults)]
        required += [
            each.arg
            for each, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
            if default is None
        ]
        self.found.factories[function.name] = Factory(result, tuple(required), function.lineno)

    def late(self, function: Function, names: dict[str, Application]) -> None:
        """Agents that are defined on the module's FastAgents only once the function is called."""
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node not in function.decorator_list:
                made = self.registering(node, names)
                if made is not None:
                    made.late.append(self.definition(node, None))

    def ports(self, names: dict[str, Application]) -> None:
        """Notes on which port the file itself serves a FastAgent, wherever it does."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="start_server")) if (
                    name in names
                ):
                    port = next(
                        (self.fold(each.value) for each in node.keywords if each.arg == "port"), UNKNOWN
                    )
                    if isinstance(port, int) and not isinstance(port, bool):
                        names[name].port = port

    def unreachable(self) -> None:
        """Notes each FastAgent that the module makes where nobody can take it from."""
        waiting: list[tuple[ast.AST, str]] = [(self.tree, "")]
        while waiting:
            node, inside = waiting.pop()
            if isinstance(node, ast.Call) and id(node) not in self.made and self.is_fast_agent(node.func):
                self.found.problems.append(unreachable(node, inside, self.path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = node.name
            elif isinstance(node, ast.If) and is_main_guard(node.test):
                inside = ""
            waiting.extend((child, inside) for child in ast.iter_child_nodes(node))

    def fold(self, node: ast.expr | None) -> Value:
        return fold(node, self.found.constants, self.path)
