"""The manual pages of the commands, in roff, from the same declarations as their `--help`.

Knows click's commands and the macros of man(7).
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from pallas.server import pallas
from pallas_common import __version__
from pallasctl.main import pallasctl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUMMARIES = {
    "pallas": "serve LLM agents as supervised MCP servers",
    "pallasctl": "operate a running Pallas",
}

ENVIRONMENT = {
    "PALLAS_AGENTS_CONFIG": "path of agents.yaml, in place of the one in the working directory",
    "PALLAS_CONTROL_SOCKET": "control socket of the supervisor that pallasctl talks to",
    "PALLAS_LOG_FILE": "the log file, in place of ~/.local/state/pallas/pallas.log",
    "PALLAS_LOG_LEVEL": "least level of Pallas's own log records",
    "PALLAS_LOG_STDERR": "1: log records in JSON on stderr, too, as for journald",
    "NO_COLOR": "set: no colours",
}

SEE_ALSO = {"pallas": ("pallasctl", "systemctl"), "pallasctl": ("pallas", "systemctl", "journalctl")}


def pallas_page() -> str:
    """Of `pallas`."""
    return _page("pallas", pallas)


def pallasctl_page() -> str:
    """Of `pallasctl`."""
    return _page("pallasctl", pallasctl)


def _page(name: str, command: click.Group) -> str:
    context = click.Context(command, info_name=name)
    lines = [
        f'.TH {name.upper()} 1 "" "Pallas {__version__}" "Pallas manual"',
        ".SH NAME",
        f"{name} \\- {_escape(SUMMARIES[name])}",
        ".SH SYNOPSIS",
        *_usage(context),
        ".SH DESCRIPTION",
        *_text(command.help or ""),
        ".SH OPTIONS",
        *_options(context),
        ".SH COMMANDS",
    ]
    for verb in command.list_commands(context):
        found = command.get_command(context, verb)
        assert found is not None
        if found.hidden:
            continue
        lines += _verb(click.Context(found, info_name=verb, parent=context))
    lines.append(".SH ENVIRONMENT")
    for variable, meaning in ENVIRONMENT.items():
        lines += [".TP", f".B {variable}", _escape(meaning)]
    others = ", ".join(f"\\fB{_escape(other)}\\fR(1)" for other in SEE_ALSO[name])
    return "\n".join([*lines, ".SH SEE ALSO", others, ""])


def _verb(context: click.Context) -> Iterator[str]:
    """A verb, and those that it has itself."""
    command = context.command
    yield from (f'.SS "{context.command_path}"', *_usage(context), ".PP", *_text(command.help or ""))
    yield from _options(context)
    if not isinstance(command, click.Group):
        return
    for verb in command.list_commands(context):
        found = command.get_command(context, verb)
        assert found is not None
        yield from _verb(click.Context(found, info_name=verb, parent=context))


def _usage(context: click.Context) -> Iterator[str]:
    words = " ".join(context.command.collect_usage_pieces(context))
    yield f"\\fB{_escape(context.command_path)}\\fR {_escape(words)}"


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.params:  # without --help, which all have
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None:
            names, meaning = record
            yield from (".TP", f".B {_escape(names)}", _escape(meaning))


def _text(text: str) -> Iterator[str]:
    r"""Paragraphs; those that click prints as they are (marked `\b`) stay as they are."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(text).strip())):
        if number:
            yield ".PP"
        first, _, rest = paragraph.partition("\n")
        if first.strip() == "\b":
            yield from (".nf", *_lines(rest.splitlines()), ".fi")
        else:
            yield from _lines([" ".join(paragraph.split())])


def _lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        # A dot or quote at the beginning of a line is a macro.
        yield ("\\&" if line[:1] in {".", "'"} else "") + _escape(line)


def _escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("`", "\\(ga")
