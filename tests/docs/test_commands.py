"""Every verb and option of our programs that the documentation names is there."""

from __future__ import annotations

import re

import click
import pytest

from pallas.server import pallas
from pallasctl.main import pallasctl
from support.documents.blocks import commands_of
from support.documents.pages import pages
from support.repository import ROOT


def _verbs(program: str) -> dict[str, set[str]]:
    """Verb → its options, as the program itself has them."""
    group = {"pallas": pallas, "pallasctl": pallasctl}[program]
    context = click.Context(group)
    verbs = {name: group.get_command(context, name) for name in group.list_commands(context)}
    commands = {name: command for name, command in verbs.items() if command}
    own = {"": {option for param in group.params for option in param.opts} | {"--help", "-h"}}
    return own | {name: {"--help", "-h", *_options(command)} for name, command in commands.items()}


def _options(command: click.Command) -> set[str]:
    """Of a verb; of one with verbs of its own, theirs as well."""
    own = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(_options, below))


VERBS = {program: _verbs(program) for program in ("pallas", "pallasctl")}


def faults_of_calls(text: str) -> list[str]:
    """Verbs and options of our programs that a text names and they do not have."""
    called = re.findall(
        r"(?:`|^|[|;&] |\$\()(?:\S*/)?(pallasctl|pallas)(?![\w-])((?: [\w.…/<>=-]+)*)", text, re.MULTILINE
    )
    found = []
    for program, rest in called:
        words = rest.split()
        verb = words[0] if words and not words[0].startswith("-") else ""
        if verb not in VERBS[program]:
            found.append(f"{program} {verb}")
            continue
        options = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        known = VERBS[program][verb]
        found += [f"{program} {verb} {option}" for option in sorted(options - known)]
    return found


@pytest.mark.parametrize("page", pages())
def test_every_command_that_a_page_names_is_there(page: str) -> None:
    prose = re.sub(
        r"^( *)```.*?^\1```$|``.*?``", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    named = "\n".join(" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))
    commands = "\n".join(commands_of(ROOT / page))
    assert not faults_of_calls(named) + faults_of_calls(commands)


def test_a_command_that_is_not_there_is_found() -> None:
    assert faults_of_calls("`pallasctl stauts`") == ["pallasctl stauts"]
    assert faults_of_calls("pallas up --detatch\npallas up -d | tee x") == ["pallas up --detatch"]
    assert faults_of_calls("`pallasctl create secret x --dada y`") == ["pallasctl create --dada"]
    assert faults_of_calls("x=$(pallasctl status -w --watsh)") == ["pallasctl status --watsh"]
