"""What reading a project costs, whatever its files hold: nothing grows with the square of their size."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from pallas_registry.projects.code.applications import Sources
from pallas_registry.projects.code.constants import Room
from pallas_registry.projects.code.files import Tree
from pallas_registry.projects.code.python_file import read_python

if TYPE_CHECKING:
    from pallas_registry.projects.code.facts import PythonFile

AGENT = """\
from fast_agent import FastAgent

fast = FastAgent("x")

@fast.agent(name="a")
async def main(): ...
"""


class _Alone:
    """The importer of a file that is the only one of its project."""

    def __init__(self) -> None:
        self.room = Room()

    def module(self, name: str, level: int, file: str) -> PythonFile | None:
        return None


def _read(code: str) -> PythonFile:
    return read_python(code.encode(), "a.py", _Alone())


def _sources(**files: str) -> Sources:
    texts = {f"{name}.py": text.encode() for name, text in files.items()}
    return Sources(Tree(texts, (), frozenset(), None))


def test_a_number_of_thousands_of_digits_is_no_part_of_a_text() -> None:
    found = _read(f'from fast_agent import FastAgent\nX = 0x{"f" * 5000}\nfast = FastAgent(f"a{{X}}")\n')
    assert found.applications["fast"].name is None


def test_functions_that_call_each_other_on_and_on_are_a_problem_of_the_file() -> None:
    deep = sys.getrecursionlimit()
    code = AGENT + "".join(f"def g{i}(f):\n  g{i + 1}(f)\n" for i in range(deep)) + "g0(fast)\n"
    assert "call each other too deeply" in _read(code).problems[0].message


def _finishes(read: object) -> bool:
    """Whether it comes to an end within a time that is a thousand times what it takes."""
    assert callable(read)
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(30)
    return not thread.is_alive()


def test_a_long_line_of_imports_is_looked_at_once() -> None:
    assert _finishes(lambda: _sources(app=AGENT, other="import " * 60_000))


def test_a_file_that_takes_the_fastagent_from_another_is_read_without_a_word_of_fast_agent() -> None:
    sources = _sources(app=AGENT, other="from app import fast as mine\n")
    assert "mine" in sources.file("other.py").applications


def test_constants_are_taken_one_by_one_from_another_file() -> None:
    number = 12_000
    names = "".join(f"x{i} = {i}\n" for i in range(number))
    taken = "".join(f"from names import x{i}\n" for i in range(number))
    assert _finishes(lambda: _sources(names=names, app=AGENT + taken))


def test_a_constant_of_a_class_is_known_where_the_class_is_imported() -> None:
    enum = "class Names:\n    FIRST = 'first'\n"
    sources = _sources(names=enum, app="from names import Names as N\n" + AGENT.replace('"a"', "N.FIRST"))
    [definition] = sources.file("app.py").applications["fast"].definitions
    assert definition.name == "first"


def test_what_files_hand_on_to_each_other_is_bounded() -> None:
    importer = _Alone()
    importer.room = Room(1_000)
    code = AGENT + "".join(f"x{i} = {'v' * 50!r}\n" for i in range(100))
    found = read_python(code.encode(), "a.py", importer)
    assert 0 < len(found.constants) < 20
    assert found.applications["fast"].definitions
