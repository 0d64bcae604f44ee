"""A command with verbs, each of which is loaded only when it is used; shared by `pallasctl` and `pallas`.

Knows click and how a mistyped verb is answered; no verb.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, override

import click

from pallas_common.problems import did_you_mean, quoted
from pallas_control.errors import ControlError, UnknownAgentError
from pallasctl.failures import EXIT_INTERRUPTED, Failure, NoSuchAgent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class LazyGroup(click.Group):
    """A group of verbs.

    Args:
        verbs: verb → the module that holds the click command of that name, hyphens as underscores.
        elsewhere: another program, and its verbs, which people look for here.
    """

    def __init__(
        self,
        *args: Any,
        verbs: Mapping[str, str],
        elsewhere: tuple[str, Collection[str]] = ("", ()),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs
        self.elsewhere = elsewhere

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        module = importlib.import_module(self.verbs[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click suggests among commands that are loaded; here they are loaded only when they are used.
        if (name := args[0]) not in self.verbs and not name.startswith("-") and not ctx.resilient_parsing:
            program, others = self.elsewhere
            if name in others:
                way_out = f"did you mean `{program} {name}`?"
            elif near := did_you_mean(name, self.verbs):
                way_out = f"did you mean {near!r}?"
            else:
                way_out = f"the verbs are: {', '.join(self.verbs)}"
            ctx.fail(f"there is no verb {quoted(name)}; {way_out}")
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except UnknownAgentError as error:
            raise NoSuchAgent(error.message) from error
        except ControlError as error:
            raise Failure(error.message, details=error.details) from error
