"""Projects of fast-agent in the shapes that people give them: files by path, small and all our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODEL = {"fastagent.config.yaml": "default_model: passthrough\nsession_history: false\n"}


def agent(fast: str = "fast", name: str = "scout", *, more: str = "", function: str = "run") -> str:
    """A decorated function that defines an agent."""
    said = f'name="{name}", instruction="You are a {name}."{more}'
    return f"@{fast}.agent({said})\nasync def {function}() -> None: ...\n\n\n"


def application(name: str = "Demo", *, fast: str = "fast") -> str:
    """The import of fast-agent and a FastAgent."""
    return f'from fast_agent import FastAgent\n\n{fast} = FastAgent("{name}")\n\n\n'


AS_SCRIPT = """\
async def main() -> None:
    async with fast.run() as app:
        await app.interactive()


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
"""


class Shape(NamedTuple):
    """A project and what is to be found in it."""

    files: Mapping[str, str]
    entries: Mapping[str, str]
    """Names of entries → `module: …` or `card: …`, and the agent that is served behind `=`."""
    mend: tuple[str, ...] = ()
    """Parts of what the user has to change, one each."""
    starts: bool = False
    """Whether a worker is to be tried as well."""


SHAPES: Mapping[str, Shape] = {
    "a script": Shape(
        {"agent.py": application("My App") + agent() + AS_SCRIPT},
        {"scout": "module: agent.py = scout"},
        starts=True,
    ),
    "a script with a hyphen": Shape(
        {"my-scout.py": application() + agent()}, {"scout": "module: my-scout.py = scout"}, starts=True
    ),
    "another name for the FastAgent": Shape(
        {"a.py": application(fast="crew") + agent("crew")},
        {"scout": "module: a.py:crew = scout"},
    ),
    "two names for one FastAgent": Shape(
        {"a.py": application(fast="crew") + "fast = crew\n" + agent("crew")},
        {"scout": "module: a.py = scout"},
    ),
    "two FastAgents in a file": Shape(
        {
            "a.py": application()
            + 'other = FastAgent("B")\n'
            + agent()
            + agent("other", "miner", function="dig")
        },
        {"scout": "module: a.py = scout", "miner": "module: a.py:other = miner"},
    ),
    "the package by its name": Shape(
        {"a.py": 'import fast_agent\n\nfast = fast_agent.FastAgent("A")\n' + agent()},
        {"scout": "module: a.py = scout"},
    ),
    "the package by an alias": Shape(
        {"a.py": 'import fast_agent as fa\n\nfast = fa.FastAgent("A")\n' + agent()},
        {"scout": "module: a.py = scout"},
    ),
    "the class by an alias": Shape(
        {"a.py": 'from fast_agent import FastAgent as F\n\nfast = F("A")\n' + agent()},
        {"scout": "module: a.py = scout"},
    ),
    "the class by its full path": Shape(
        {
            "a.py": 'from fast_agent.core.fastagent import FastAgent\nfast: FastAgent = FastAgent("A")\n'
            + agent()
        },
        {"scout": "module: a.py = scout"},
    ),
    "a class of their own": Shape(
        {
            "a.py": 'from fast_agent import FastAgent\nclass Mine(FastAgent): ...\nfast = Mine("A")\n'
            + agent()
        },
        {"scout": "module: a.py = scout"},
    ),
    "the old package": Shape(
        {"a.py": 'from mcp_agent.core.fastagent import FastAgent\nfast = FastAgent("A")\n' + agent()},
        {"scout": "module: a.py = scout"},
        (
            "a.py:1: `mcp_agent` is the old name of fast-agent's package; write `from fast_agent import FastAgent`",
        ),
    ),
    "the old package as a second choice": Shape(
        {
            "a.py": "try:\n    from fast_agent import FastAgent\nexcept ImportError:\n"
            '    from mcp_agent.core.fastagent import FastAgent\nfast = FastAgent("A")\n' + agent()
        },
        {"scout": "module: a.py = scout"},
    ),
    "a module of a package": Shape(
        {"crew/__init__.py": "", "crew/scout.py": application() + agent()},
        {"scout": "module: crew.scout = scout"},
    ),
    "a folder without __init__": Shape(
        {
            "crew/scout.py": "from helpers import WORDS\n" + application() + agent(),
            "crew/helpers.py": "WORDS = 3\n",
        },
        {"scout": "module: crew/scout.py = scout"},
        starts=True,
    ),
    "a package below src that stands alone": Shape(
        {"src/crew/__init__.py": "", "src/crew/scout.py": application() + agent()},
        {"scout": "module: src/crew/scout.py = scout"},
        starts=True,
    ),
    "a package below src that has to be installed": Shape(
        {
            "src/pallas_test_crew/__init__.py": "",
            "src/pallas_test_crew/words.py": 'NAME = "scout"\n',
            "src/pallas_test_crew/main.py": "from .words import NAME\n"
            + application()
            + "@fast.agent(name=NAME)\nasync def run() -> None: ...\n",
        },
        {"scout": "module: pallas_test_crew.main = scout"},
        ("run `pip install -e .`",),
    ),
    "a factory": Shape(
        {
            "a.py": "from fast_agent import FastAgent\n\ndef create(model: str | None = None) -> FastAgent:\n"
            '    app = FastAgent("A")\n    @app.agent(name="scout")\n    async def run() -> None: ...\n    return app\n'
        },
        {"scout": "module: a.py:create() = scout"},
        starts=True,
    ),
    "an asynchronous factory that returns at once": Shape(
        {
            "a.py": "from fast_agent import FastAgent\nasync def make():\n    fast = FastAgent('A')\n"
            "    fast.agent(name='scout')(run)\n    return fast\nasync def run() -> None: ...\n"
        },
        {"scout": "module: a.py:make() = scout"},
    ),
    "a factory with arguments": Shape(
        {
            "a.py": "from fast_agent import FastAgent\ndef create(model, *, key):\n    app = FastAgent('A')\n"
            '    @app.agent(name="scout")\n    async def run() -> None: ...\n    return app\n'
        },
        {"scout": "module: a.py:create() = scout"},
        ("a.py:2: create() returns a FastAgent, and needs model, key; give each of its arguments a default",),
    ),
    "a factory that is used": Shape(
        {
            "a.py": "from fast_agent import FastAgent\ndef create():\n    app = FastAgent('A')\n"
            '    @app.agent(name="scout")\n    async def run() -> None: ...\n    return app\nfast = create()\n'
        },
        {"scout": "module: a.py = scout"},
    ),
    "a FastAgent that nobody can take": Shape(
        {
            "a.py": "import asyncio\nfrom fast_agent import FastAgent\nasync def main():\n    fast = FastAgent('A')\n"
            '    @fast.agent(name="scout")\n    async def run() -> None: ...\n    async with fast.run(): ...\n'
            'if __name__ == "__main__":\n    asyncio.run(main())\n'
        },
        {},
        ("a.py:4: the FastAgent is made inside 'main', where Pallas cannot take it from; move it",),
    ),
    "a FastAgent of a script alone": Shape(
        {"a.py": 'from fast_agent import FastAgent\nif __name__ == "__main__":\n    fast = FastAgent("A")\n'},
        {},
        ("a.py:3: the FastAgent is made only where the file is run as a script",),
    ),
    "agents that are defined too late": Shape(
        {
            "a.py": application()
            + '\ndef main():\n    @fast.agent(name="scout")\n    async def run() -> None: ...\n'
        },
        {"scout": "module: a.py = scout"},
        ("a.py:8: the agents are defined inside a function, which Pallas does not run",),
    ),
    "agents that a called function defines": Shape(
        {
            "a.py": "from fast_agent import FastAgent\ndef define(app):\n    @app.agent(name='scout')\n"
            "    async def run() -> None: ...\nfast = FastAgent('A')\ndefine(fast)\n"
        },
        {"scout": "module: a.py = scout"},
        starts=True,
    ),
    "a run at import": Shape(
        {"a.py": application() + agent() + "import asyncio\nasyncio.run(run())\n"},
        {"scout": "module: a.py = scout"},
        (
            'a.py:11: runs the agents when the file is imported; put this line below `if __name__ == "__main__":`',
        ),
    ),
    "agents in files of their own": Shape(
        {
            "base.py": application(),
            "one.py": "from base import fast\n" + agent(name="scout"),
            "two.py": "from base import fast\n" + agent(name="miner", more=', agents=["scout"]'),
            "main.py": "import one\nimport two\nfrom base import fast\n",
        },
        {"miner": "module: main.py = miner"},
        starts=True,
    ),
    "agents in files that nothing imports": Shape(
        {
            "base.py": application(),
            "one.py": "from base import fast\n" + agent(name="scout"),
            "two.py": "from base import fast\n" + agent(name="miner"),
        },
        {"scout": "module: one.py = scout"},
        (
            "base.py:3: its agents are defined in 2 files, and none imports them all; import two.py at the end of one.py",  # noqa: E501
        ),
    ),
    "a default among several": Shape(
        {
            "a.py": application()
            + agent(name="scout")
            + agent(name="miner", more=", default=True", function="dig")
        },
        {"miner": "module: a.py = miner"},
    ),
    "an orchestrator": Shape(
        {
            "a.py": application()
            + agent(name="scout")
            + agent(name="miner", function="dig")
            + '@fast.orchestrator(name="boss", agents=["scout", "miner"])\nasync def lead() -> None: ...\n'
        },
        {"boss": "module: a.py = boss"},
    ),
    "a chain of workflows": Shape(
        {
            "a.py": application()
            + '@fast.chain("both", sequence=["scout", "either"])\n'
            + '@fast.parallel(name="either", fan_out=["miner"], fan_in="judge")\n'
            + '@fast.agent("scout")\n@fast.agent("miner")\n@fast.agent(name="judge")\nasync def run() -> None: ...\n'
        },
        {"both": "module: a.py = both"},
        starts=True,
    ),
    "all other kinds": Shape(
        {
            "a.py": application()
            + '@fast.router(name="route", agents=["better", "sure", "plan", "own"])\n'
            + '@fast.evaluator_optimizer(name="better", generator="scout", evaluator="judge")\n'
            + '@fast.maker(name="sure", worker="scout")\n@fast.iterative_planner(name="plan", agents=["scout"])\n'
            + '@fast.custom(Own, name="own")\n@fast.agent("scout")\n@fast.agent("judge")\nasync def run() -> None: ...\n'  # noqa: E501
        },
        {"route": "module: a.py = route"},
    ),
    "a kind that is gone": Shape(
        {"a.py": application() + '@fast.smart(name="scout")\nasync def run() -> None: ...\n'},
        {"scout": "module: a.py = scout"},
        ("a.py:6: `smart` is gone since fast-agent 0.10",),
    ),
    "names that are computed": Shape(
        {
            "words.py": 'TEAM = "red"\nclass Names:\n    SCOUT = f"{TEAM}-scout"\n',
            "a.py": "from words import Names, TEAM\n"
            + application()
            + '@fast.agent(name=Names.SCOUT)\n@fast.agent(name=TEAM + "-miner", default=True)\nasync def run() -> None: ...\n',  # noqa: E501
        },
        {"red-miner": "module: a.py = red-miner"},
        starts=True,
    ),
    "a name that cannot be a tool's, of one": Shape(
        {"a.py": application() + agent(name="Scout No. 1")},
        {"Scout-No-1": "module: a.py = Scout No. 1"},
        starts=True,
    ),
    "a name that cannot be a tool's, of several": Shape(
        {
            "a.py": application()
            + agent(name="Scout No. 1", more=", default=True")
            + agent(name="x", function="y")
        },
        {"Scout-No-1": "module: a.py = Scout No. 1"},
        ("rename the agent: 'Scout-No-1'",),
    ),
    "no name at all": Shape(
        {"lookout.py": application() + "@fast.agent()\nasync def run() -> None: ...\n"},
        {"lookout": "module: lookout.py = default"},
    ),
    "one name in two files": Shape(
        {"north.py": application() + agent(), "south.py": application() + agent()},
        {"north": "module: north.py = scout", "south": "module: south.py = scout"},
    ),
    "a card": Shape(
        {"agents/scout.md": "---\nname: scout\ndescription: Looks around\n---\nYou look around.\n"},
        {"scout": "card: agents/scout.md = scout"},
    ),
    "a card in YAML": Shape(
        {"scout.yaml": "type: agent\ninstruction: You look around.\n"}, {"scout": "card: scout.yaml = scout"}
    ),
    "cards at home": Shape(
        {".fast-agent/agent-cards/scout.md": "---\ntype: agent\n---\nYou look around.\n"},
        {"scout": "card: .fast-agent/agent-cards/scout.md = scout"},
        starts=True,
    ),
    "cards that work together": Shape(
        {
            "team/boss.md": "---\ntype: orchestrator\nagents: [scout, miner]\n---\n",
            "team/scout.md": "---\ntype: agent\n---\nYou look around.\n",
            "team/miner.md": "---\ntype: agent\n---\nYou dig.\n",
        },
        {"boss": "card: team/ = boss"},
        starts=True,
    ),
    "cards among other files": Shape(
        {
            "boss.md": "---\ntype: chain\nsequence: [scout]\n---\n",
            "scout.md": "---\ntype: agent\n---\nYou look around.\n",
        },
        {"boss": "card: cards/ = boss"},
        ("move the cards into a folder of their own, `cards/`",),
    ),
    "cards in two folders": Shape(
        {
            "team/boss.md": "---\ntype: chain\nsequence: [scout]\n---\n",
            "others/scout.md": "---\ntype: agent\n---\nYou look around.\n",
        },
        {"boss": "card: team/ = boss"},
        ("works with the agent 'scout', which is not in this folder; copy others/scout.md beside it",),
    ),
    "cards that a module loads": Shape(
        {
            "a.py": "from pathlib import Path\n"
            + application()
            + 'fast.load_agents(Path(__file__).parent / "cards")\n',
            "cards/scout.md": "---\ntype: agent\n---\nYou look around.\n",
        },
        {"scout": "module: a.py = scout"},
        starts=True,
    ),
    "files that are no cards": Shape(
        {
            "README.md": "---\ntype: agent\n---\n",
            "post.md": "---\ntitle: A post\n---\n",
            "skills/x/SKILL.md": "---\nname: x\ndescription: y\n---\n",
            "compose.yaml": "services: {}\n",
            "tool.md": "---\nname: x\ndescription: y\ntools: a, b\nmodel: z\n---\n",
        },
        {},
    ),
    "broken files": Shape(
        {
            "a.py": application() + agent(),
            "b.py": "import fast_agent\ndef (:\n",
            "cards/c.md": "---\na: [\n---\n",
        },
        {"scout": "module: a.py = scout"},
        ("b.py:2: is not valid Python", "cards/c.md:"),
    ),
}


def write(shape: Shape, directory: Path) -> None:
    """The project's files, in a new folder."""
    for path, text in {**MODEL, **shape.files}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
