"""The words for resources on a command line: kinds, singular or plural, and names; `agent x`, `agents x y`, `agent/x`.

Knows the kinds, and asks the control API for names only where a shell completes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pallas_common.problems import did_you_mean, quoted
from pallas_registry.resources.model import KINDS, ResourceId
from pallasctl.options import control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_registry.resources.model import Kind

_KINDS = {word: kind for kind in KINDS for word in (kind, f"{kind}s")}
_LOOK = 1.0
"""Seconds that a shell waits for names."""


def kind_of(word: str) -> Kind:
    """The kind that a word means.

    Raises:
        click.UsageError: none.
    """
    if kind := _KINDS.get(word.lower()):
        return kind
    near = did_you_mean(word, _KINDS)
    way_out = f"did you mean {near!r}?" if near else f"the kinds are: {', '.join(KINDS)}"
    raise click.UsageError(f"there is no kind {quoted(word)}; {way_out}")


def resources_of(words: Sequence[str]) -> list[ResourceId]:
    """The resources that the words name: `KIND NAME…`, or `KIND/NAME…`; each once.

    Raises:
        click.UsageError: they name none.
    """
    if "/" in words[0]:
        return list(dict.fromkeys(map(_resource, words)))
    kind = kind_of(words[0])
    if not words[1:]:
        raise click.UsageError(f"which {kind}? Name one: `pallasctl get {kind}s` lists them")
    return [ResourceId(kind, name) for name in dict.fromkeys(words[1:])]


def _resource(word: str) -> ResourceId:
    kind, slash, name = word.partition("/")
    if not slash or not name:
        raise click.UsageError(f"{quoted(word)} is no KIND/NAME, as others are: say each as `agent/jarvis`")
    return ResourceId(kind_of(kind), name)


def one_resource(words: Sequence[str]) -> ResourceId:
    """The one resource that the words name; raises as `resources_of` does."""
    first, *others = resources_of(words)
    if others:
        raise click.UsageError(f"one at a time: name one {first.kind}")
    return first


def path_of(resource: ResourceId) -> str:
    """Where the control API has it."""
    return f"/v1/resources/{resource.kind}/{quote(resource.name, safe='')}"


def names_of(kind: Kind, *, timeout: float = _LOOK) -> list[str]:
    """The names that there are; none where no supervisor answers at once."""
    from pallas_control.errors import ControlError

    try:
        found: dict[str, Any] = control().get(f"/v1/resources/{kind}", timeout=timeout)
        return [item["metadata"]["name"] for item in found["items"]]
    except (ControlError, KeyError, TypeError):
        return []


def complete_resource(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: a kind, then names of it; or `kind/name`."""
    given: Sequence[str] = ctx.params.get(parameter.name or "") or ()
    if not given and "/" not in incomplete:
        return [word for word in _KINDS if word.startswith(incomplete)]
    word, slash, _ = incomplete.partition("/")
    kind = _KINDS.get((word if slash else given[0]).lower())
    if kind is None:
        return []
    with ctx:
        names = [name for name in names_of(kind) if name not in given]
    before = f"{word}/" if slash else ""
    return [before + name for name in names if (before + name).startswith(incomplete)]


def completed_by(kind: Kind) -> Any:
    """What completes names of one kind, for an option or argument."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        with ctx:
            return [name for name in names_of(kind) if name.startswith(incomplete)]

    return complete
