"""The verbs `gateway start`, `gateway stop` and `gateway restart`.

Knows these requests and their answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallas_control.client import GRACE
from pallas_control.errors import RefusedError
from pallasctl import options
from pallasctl.failures import Failure
from pallasctl.verbs.gateway.status import line_of

if TYPE_CHECKING:
    from pallas_control.documents import GatewayVerbDocument

no_wait_option = click.option(
    "--no-wait", is_flag=True, help="Return when the supervisor has taken the request."
)


def ask_gateway(verb: str, goal: str, *, wait: bool, timeout: float, **flags: bool) -> None:
    """Ask for a goal of the gateway, and say where it has come to.

    Raises:
        Failure: it was refused, or not reached in time.
    """
    body: dict[str, object] = {
        "wait": wait,
        "timeout": timeout,
        **{flag: True for flag, is_set in flags.items() if is_set},
    }
    if verb == "wait":
        body["for"] = goal
    try:
        document: GatewayVerbDocument = options.control().post(
            f"/v1/gateway/{verb}", body, timeout=timeout + GRACE
        )
    except RefusedError as refusal:
        late = refusal.document.get("gateway")
        raise Failure(
            refusal.message, details=[*refusal.details, *([] if late is None else [line_of(late)])]
        ) from None
    if wait and not document["done"]:
        raise Failure(
            f"not {goal}: `pallasctl logs gateway` says more", details=[line_of(document["gateway"])]
        )
    click.echo(line_of(document["gateway"]))


@click.command()
@no_wait_option
@options.timeout_option("How long to wait until it is ready.")
@options.supervisor_options
def start(*, no_wait: bool, timeout: float) -> None:
    """Start the gateway, and wait until it is ready."""
    ask_gateway("start", "ready", wait=not no_wait, timeout=timeout)


@click.command()
@no_wait_option
@options.timeout_option("How long to wait until it is stopped.")
@options.supervisor_options
def stop(*, no_wait: bool, timeout: float) -> None:
    """Stop the gateway; agents go on.

    Requests in flight are finished, within stop_timeout. Callers get a 503 from then on.
    """
    ask_gateway("stop", "stopped", wait=not no_wait, timeout=timeout)


@click.command()
@click.option("--now", is_flag=True, help="Stop the old process first; callers get a 503 meanwhile.")
@no_wait_option
@options.timeout_option("How long to wait until it is ready.")
@options.supervisor_options
def restart(*, now: bool, no_wait: bool, timeout: float) -> None:
    """Restart the gateway without losing a request.

    The new process is ready before the old one drains. Waits until the old one is gone.
    """
    ask_gateway("restart", "ready", wait=not no_wait, timeout=timeout, now=now)
