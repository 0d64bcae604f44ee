"""What runs the commands of pages finds what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.documents.blocks import blocks_of
from support.documents.shell import Shell, matches

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """\
Some text.

```bash
here=$PWD
```

- a list

  ```bash not run: needs a moon
  fly
  ```

```text
 indented
```
"""


def test_the_blocks_of_a_page(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    first, second, third = blocks_of(tmp_path / "page.md")
    assert (first.language, first.text, first.line, first.not_run) == ("bash", "here=$PWD\n", 3, None)
    assert (second.text, second.not_run) == ("fly\n", "needs a moon")
    assert (third.language, third.text) == ("text", " indented\n")


def test_blocks_share_one_shell_and_each_has_its_output(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path, tmp_path / "home", {"GIVEN": "given"})
    printed = shell.run(["name=one; mkdir sub; cd sub", "echo $name $GIVEN; basename $PWD", "true"])
    assert printed == ["", "one given\nsub\n", ""]
    assert shell.run(["python3.13 -c 'print(1)'"]) == ["1\n"]


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(AssertionError, match=r"exit status 3 of:[\s\S]*sh -c 'exit 3'[\s\S]*wrong") as error:
        Shell(tmp_path, tmp_path / "home").run(["echo fine", "echo wrong >&2\nsh -c 'exit 3'", "echo never"])
    assert "fine" not in str(error.value)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("3 of 3 ready in … s", "3 of 3 ready in 2.1 s\n", True),
        ("NAME  STATE\n…\nlast", "NAME   STATE\na\nb\nlast", True),
        ("ready", "not rea dy", False),
        ("a.b", "axb", False),
        ("ready", "ready\nand more", False),
        ("ready\n…", "ready\nand more", True),
        ("… ready", "not ready", True),
    ],
)
def test_outputs_are_compared(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
