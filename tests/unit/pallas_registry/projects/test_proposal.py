"""What is proposed for projects of many shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_registry.deployment.agents_file import files_in, parse_deployment
from pallas_registry.projects.agents_text import agents_text
from pallas_registry.projects.code.files import Tree, read_tree
from pallas_registry.projects.proposal import propose
from support.data.projects import MODEL, SHAPES, agent, application, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pallas_registry.projects.model import Proposal


def proposed(
    files: Mapping[str, str], is_free: Callable[[int], bool] = lambda port: True, *, has_model: bool = True
) -> Proposal:
    tree = Tree(
        {path: text.encode() for path, text in files.items()},
        (),
        frozenset(path.removesuffix("/__init__.py") for path in files if path.endswith("/__init__.py")),
        None,
    )
    return propose(tree, "folder", is_free=is_free, has_model=has_model)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str, tmp_path: Path) -> None:
    _, entries, mend, _ = SHAPES[shape]
    write(SHAPES[shape], tmp_path)
    proposal = propose(read_tree(tmp_path), tmp_path.name, is_free=lambda port: True)
    found = {
        entry.name: f"{entry.source.key}: {entry.source.value} = {entry.source.served and entry.source.served.name}"
        for entry in proposal.entries
    }
    assert found == entries
    said = [str(problem) for problem in proposal.notes.mend]
    assert len(said) == len(mend), said
    for part in mend:
        assert any(part in line for line in said), said
    assert proposal.notes.unknown == []
    if entries:
        (tmp_path / "cards").mkdir(exist_ok=True)  # where people are told to move theirs
        (tmp_path / "cards" / "moved.md").touch()
        deployment = parse_deployment(
            agents_text(proposal).encode(), tmp_path / "agents.yaml", files_in(tmp_path)
        )
        assert deployment.agents.keys() == entries.keys()


def test_the_deployment_is_called_like_the_one_fast_agent() -> None:
    assert proposed({"a.py": application("My App!") + agent()}).name == "my-app"


def test_the_deployment_of_several_is_called_like_the_folder() -> None:
    files = {"a.py": application("A") + agent(), "b.py": application("B") + agent(name="miner")}
    assert proposed(files).name == "folder"


def test_ports_are_free_and_none_is_given_twice() -> None:
    files = {"a.py": application() + agent(), "b.py": application() + agent(name="miner")}
    proposal = proposed(files, is_free=lambda port: port not in {24200, 24201, 24203})
    assert [entry.port for entry in proposal.entries] == [24202, 24204]
    assert proposal.registry_port == 24198, "24199 is the gateway's by default"


SERVERS = """\
mcp:
  servers:
    scout: {url: "http://localhost:8001/mcp"}
    digger: {url: "http://127.0.0.1:8002"}
    copy: {command: uv, args: [run, b.py, --transport, stdio]}
    far: {url: "http://example.com:8001/mcp", headers: {Authorization: "Bearer ${X}"}}
"""


def test_servers_that_are_other_agents_give_ports_and_dependencies() -> None:
    proposal = proposed(
        {
            "fastagent.config.yaml": SERVERS,
            "a.py": application() + agent(),
            "b.py": application()
            + agent(name="miner")
            + "async def main():\n    await fast.start_server(port=8002)\n",
            "c.py": application() + agent(name="boss", more=', servers=["scout", "digger", "far"]'),
            "d.py": application() + agent(name="chief", more=', servers=["copy"]'),
        }
    )
    found = {entry.name: (entry.port, entry.depends_on) for entry in proposal.entries}
    assert found == {
        "scout": (8001, ()),
        "miner": (8002, ()),
        "boss": (24201, ("scout", "miner")),
        "chief": (24202, ("miner",)),
    }
    text = agents_text(proposal)
    assert "depends_on: [scout, miner] # started before it, stopped after it" in text
    assert "# it runs a copy of b.py; to use this one: `url: http://localhost:8002/mcp`" in text
    assert "Bearer" not in text


def test_a_port_of_the_settings_that_is_taken_is_said() -> None:
    files = {"fastagent.config.yaml": SERVERS, "a.py": application() + agent()}
    proposal = proposed(files, is_free=lambda port: port != 8001)
    assert proposal.entries[0].port == 8001
    said = "who listens on port 8001, which fastagent.config.yaml names for scout: end it before the start"
    assert proposal.notes.unknown == [said]


def test_no_agent_gets_the_port_at_which_the_settings_reach_the_gateway() -> None:
    servers = SERVERS.replace("8001/mcp", "24199/mcp/agents/scout", 1)
    proposal = proposed({"fastagent.config.yaml": servers, "a.py": application() + agent()})
    assert [entry.port for entry in proposal.entries] == [24201]


def test_agents_that_call_each_other_wait_for_each_other_in_one_direction() -> None:
    servers = SERVERS.replace("digger", "miner")
    files = {
        "fastagent.config.yaml": servers,
        "a.py": application() + agent(more=', servers=["miner"]'),
        "b.py": application() + agent(name="miner", more=', servers=["scout"]'),
    }
    assert [entry.depends_on for entry in proposed(files).entries] == [("miner",), ()]


def test_two_agents_of_one_name_that_both_need_it() -> None:
    two = agent(name="scout", more=", default=True") + agent(name="x", function="y")
    proposal = proposed({"a.py": application() + two, "b.py": application() + two})
    assert [entry.source.value for entry in proposal.entries] == ["a.py"]
    assert proposal.left_out == ["b.py:6: another agent is called scout; rename one to serve both"]
    assert "# Found, and not served:\n#   b.py:6: another agent" in agents_text(proposal)


def test_a_name_that_only_running_would_tell() -> None:
    two = '@fast.agent(name=input(), default=True)\n@fast.agent("x")\nasync def run() -> None: ...\n'
    proposal = proposed({"a.py": application() + two})
    assert proposal.notes.unknown == ["the name of the agent at a.py:6, which the entry must have"]


def test_agents_that_others_define() -> None:
    files = {"a.py": application() + "from elsewhere import define\ndefine(fast)\n"}
    assert proposed(files).notes.unknown[0] == "which agents a.py:3 has: others define them"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"a.py": application() + agent()},
            "no model is set for scout; add `default_model: …` to fastagent.config.yaml",
        ),
        (
            {"a.py": application() + agent(), "fast-agent.yaml": "logger: {}\n"},
            "add `default_model: …` to fast-agent.yaml",
        ),
        ({"a.py": application() + agent(more=', model="passthrough"')}, None),
        ({"a.py": application() + agent(), ".fast-agent/fast-agent.yaml": "default_model: x\n"}, None),
        ({"a.py": application().replace('"Demo"', '"Demo", home="x"') + agent()}, None),
        ({"cards/x.md": "---\ntype: agent\n---\n"}, "no model is set for x"),
        ({"cards/x.md": "---\ntype: agent\nmodel: y\n---\n"}, None),
    ],
)
def test_a_model_that_is_missing_is_said(files: Mapping[str, str], said: str | None) -> None:
    lines = [str(problem) for problem in proposed(files, has_model=False).notes.mend]
    assert (said is None and lines == []) or (said is not None and said in lines[0])
    assert proposed(files).notes.mend == []


def test_the_comments_name_other_agents_of_the_source() -> None:
    two = agent(name="scout") + agent(name="miner", function="dig")
    text = agents_text(proposed({**MODEL, "a.py": application() + two}))
    assert "# also defined there, each served by an entry of its name: miner" in text


@pytest.mark.parametrize("path", ["a:b.py", "~/a.py", "a: b/c.py"])
def test_a_path_that_agents_yaml_cannot_name_is_left_out(path: str) -> None:
    proposal = proposed({path: application() + agent(), "good.py": application() + agent(name="good")})
    assert [entry.name for entry in proposal.entries] == ["good"]
    assert proposal.left_out == [
        f"{path}: agents.yaml cannot name a path like this one; rename the file or its folder"
    ]


def test_cards_that_use_each_other_in_a_circle_are_said() -> None:
    card = "---\ntype: agent\nname: {}\nagents: [{}]\n---\nYou help.\n"
    proposal = proposed({"agents/a.md": card.format("a", "b"), "agents/b.md": card.format("b", "a")})
    assert proposal.entries == []
    assert [problem.message for problem in proposal.notes.mend] == [
        "these agents use each other in a circle, which fast-agent refuses: 'a', 'b'"
    ]
