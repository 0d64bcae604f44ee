"""The verb `completion`: print what makes a shell complete `pallas` and `pallasctl`.

The script asks the commands themselves at each completion, so it does not go stale with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete the commands.

    \b
    bash:  eval "$(pallas completion bash)"          in ~/.bashrc
    zsh:   eval "$(pallas completion zsh)"           in ~/.zshrc, after compinit
    fish:  pallas completion fish | source           in ~/.config/fish/config.fish
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    from click.shell_completion import get_completion_class

    from pallasctl.main import pallasctl

    kind = get_completion_class(shell)
    assert kind is not None
    for name, command in (("pallas", context.find_root().command), ("pallasctl", pallasctl)):
        click.echo(_script(kind(command, {}, name, f"_{name.upper()}_COMPLETE")))


def _script(complete: ShellComplete) -> str:
    # Not source(): for bash it starts a shell to ask for its version.
    return (complete.source_template % complete.source_vars()).strip("\n")
