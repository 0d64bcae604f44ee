"""fast-agent's own output, put where a worker's output belongs: records to the root logger, no painting.

Knows the loggers and consoles of fast-agent and the MCP SDK; must not know agents.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fast_agent.ui import console

from pallas_common.logs.setup import set_level

if TYPE_CHECKING:
    from fast_agent.config import Settings

_FILTERED = ("mcp.client.sse", "mcp.client.streamable_http", "mcp.client.auth.oauth2")


def disable_output_files(settings: Settings) -> None:
    """Before fast-agent's runtime is entered: no session files, no log file, no progress display."""
    settings.session_history = False
    settings.logger.type = "none"
    settings.logger.progress_display = False
    settings.logger.show_chat = False
    settings.logger.show_tools = False
    settings.logger.streaming = "none"


def join_logging() -> None:
    """After it is entered: let its records reach the root handler again, and silence what paints."""
    for name in ("fast_agent", "fastmcp"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        set_level(logger, logging.NOTSET)
    for name in ("httpx2", "httpcore2"):
        # By these names fast-agent and the SDK use httpx and httpcore, which are pinned as the reference says.
        set_level(logging.getLogger(name), logging.WARNING)
    for terminal in (console.console, console.error_console, console.server_console):
        terminal.quiet = True


def trim_filters() -> None:
    """Keep one of each filter that fast-agent's connection managers add to loggers and never remove."""
    for name in _FILTERED:
        logger = logging.getLogger(name)
        kept = {type(entry).__qualname__: entry for entry in logger.filters}
        if len(kept) < len(logger.filters):
            logger.filters[:] = kept.values()
