"""Values on a command line: `KEY=VALUE`, `@FILE`, numbers, JSON; and what is wrong with them.

Knows files, stdin and the environment; nothing of resources.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

import click

from pallas_common.http.json_bounds import read_json
from pallas_common.problems import ConfigurationError, quoted
from pallas_registry.reading.files import MAXIMUM_BYTES, read_file, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

STDIN = "-"


class Pair(click.ParamType[tuple[str, str]]):
    """`KEY=VALUE`; the value may be empty, and may hold more `=`."""

    name = "pair"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, said = str(value).partition("=")
        if not equals or not key:
            # Without what was given: it may be a secret whose name was forgotten.
            self.fail("give it as KEY=VALUE", param, ctx)
        return key, said


class FiniteNumber(click.ParamType[float]):
    """A number that JSON has; whole ones stay whole."""

    name = "number"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{quoted(str(value))} is no number", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{quoted(str(value))} is no number that can be sent", param, ctx)
        return int(number) if number.is_integer() and "." not in str(value) else number


class JsonOrWord(click.ParamType[Any]):
    """JSON, where it begins with a bracket; else the text as it is."""

    name = "json"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).lstrip().startswith(("{", "[")):
            return value
        try:
            return read_json(value)
        except (ValueError, RecursionError) as error:
            self.fail(f"{quoted(str(value))} is no JSON: {error}", param, ctx)


def pairs_of(given: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """The pairs as a mapping.

    Raises:
        click.UsageError: a key is there twice.
    """
    found: dict[str, str] = {}
    for key, value in given:
        if key in found:
            raise click.UsageError(f"{option} gives {quoted(key)} twice")
        found[key] = value
    return found


def text_or_file(value: str) -> str:
    """The text, or what is in the file of `@FILE`; `@-` is stdin."""
    if not value.startswith("@"):
        return value
    return _stdin() if value == f"@{STDIN}" else _file(value[1:])


def json_or_file(value: str) -> Any:
    """What JSON says, which may be in the file of `@FILE`.

    Raises:
        click.UsageError: it is no JSON.
    """
    text = text_or_file(value)
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{quoted(value)} is no JSON: {error}") from None


def secret_value(value: str) -> str:
    """The value, or what stdin has for `-`, without the line feed at its end."""
    return _without_line_feed(_stdin()) if value == STDIN else value


def secret_file(path: str) -> str:
    """What is in a file, without the line feed at its end, which editors add."""
    return _without_line_feed(_file(path))


def variable(name: str) -> str:
    """What the environment has.

    Raises:
        click.UsageError: it has no such variable.
    """
    if (value := os.environ.get(name)) is None:
        raise click.UsageError(f"the environment has no variable {quoted(name)}")
    return value


def _without_line_feed(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _stdin() -> str:
    return _text(sys.stdin.buffer.read(MAXIMUM_BYTES + 1), "<stdin>")


def _file(path: str) -> str:
    try:
        data = read_file(Path(path), "name a regular file")
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    if data is None:
        raise click.UsageError(f"there is no file {quoted(path, 200)}")
    return _text(data, path)


def _text(data: bytes, name: str) -> str:
    try:
        return text_of(data, name)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
