"""What verbs share that ask the gateway itself: the options that say which one, and with which token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pallas_control.errors import ControlError
from pallasctl.options import control, supervisor_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_control.gateway import Gateway

_URL = "pallasctl.gateway.url"
_TOKEN_FILE = "pallasctl.gateway.token_file"  # noqa: S105 - where an option is remembered


def gateway_options[F: Callable[..., Any]](function: F) -> F:
    """`--gateway`, `--token-file` and `--socket` of a verb that asks the gateway."""
    for option in (supervisor_options, _token_file_option, _url_option):
        function = option(function)
    return function


def gateway() -> Gateway:
    """The gateway that the command line means, with a token for it."""
    from pallas_control.gateway import open_gateway

    meta = click.get_current_context().meta
    supervisor: Any
    try:
        supervisor = control()
    except ControlError as error:
        # Of no interest where both the address and a token are named.
        supervisor = error
    return open_gateway(supervisor, url=meta.get(_URL), token_file=meta.get(_TOKEN_FILE))


def named_gateway() -> str | None:
    """The address that the command line names, if any."""
    url: str | None = click.get_current_context().meta.get(_URL)
    return url


def _remember(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        ctx.meta[key] = value

    return remember


_url_option = click.option(
    "--gateway",
    "gateway_url",
    metavar="URL",
    expose_value=False,
    callback=_remember(_URL),
    help="Address of the gateway (or PALLAS_GATEWAY_URL) [default: the deployment's].",
)
_token_file_option = click.option(
    "--token-file",
    metavar="FILE",
    expose_value=False,
    callback=_remember(_TOKEN_FILE),
    help="Token to ask with; - for stdin (or PALLAS_TOKEN) [default: the operator's].",
)
