"""Mistakes before and with `pallas init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mistakes.cases.parts import GOOD, SETTINGS, agent
from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from mistakes.mistake import Place

INSIDE_MAIN = """\
import asyncio

from fast_agent import FastAgent


async def main() -> None:
    fast = FastAgent("demo")

    @fast.agent(name="jarvis", instruction="Help.")
    async def jarvis() -> None:
        async with fast.run() as app:
            await app.interactive()

    await jarvis()


if __name__ == "__main__":
    asyncio.run(main())
"""


def _a_file_for_a_folder(place: Place) -> None:
    (place.folder / "new").write_text("")


def _read_only(place: Place) -> None:
    place.folder.chmod(0o555)


MISTAKES = (
    Mistake(name="file-there", files={"agents.yaml": GOOD}, commands=["pallas init"]),
    Mistake(name="unwritable-folder", prepare=_read_only, apart=True, commands=["pallas init"]),
    Mistake(name="not-a-folder", prepare=_a_file_for_a_folder, commands=["pallas init new"]),
    Mistake(name="bad-name", commands=["pallas init --name 'My Project!'"]),
    Mistake(
        name="old-import",
        files={
            "agent.py": agent("jarvis").replace(
                "from fast_agent import", "from mcp_agent.core.fastagent import"
            ),
            "fastagent.config.yaml": SETTINGS,
        },
        commands=["pallas init"],
    ),
    Mistake(
        name="hyphens",
        files={"my-agent.py": agent("my-agent"), "fastagent.config.yaml": SETTINGS},
        commands=["pallas init", "pallas check --offline"],
    ),
    Mistake(name="inside-main", files={"agent.py": INSIDE_MAIN}, commands=["pallas init"]),
    Mistake(name="no-agents", files={"tool.py": "print('hello')\n"}, commands=["pallas init"]),
    Mistake(
        name="projects-below",
        files={"one/agent.py": agent("one"), "one/fastagent.config.yaml": SETTINGS},
        commands=["pallas init"],
    ),
    Mistake(
        name="syntax-error",
        files={"agent.py": agent("jarvis") + "def broken(:\n"},
        commands=["pallas init"],
    ),
)
