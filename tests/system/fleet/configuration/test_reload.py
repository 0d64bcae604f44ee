"""Reloads of one real fleet, one after the other: what moves, what stays, what is said, and who runs on what."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest
import yaml

from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet, Record
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAYS = "\nimport os\nprint('TEST_WORD is', os.environ.get('TEST_WORD'))\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("reload") / "fleet", "base", "left", "right")
    deployment.add("top", depends_on=["base"])
    module = deployment.directory / "agents" / "base.py"
    module.write_text(module.read_text() + SAYS)
    (deployment.directory / ".env").write_text("TEST_WORD=first\n")
    with Fleet(deployment) as running:
        running.wait()
        yield running


@pytest.fixture(autouse=True)
def as_it_was(fleet: Fleet) -> Iterator[None]:
    """Every test begins and ends with all agents as the files say, but for code, which a reload leaves alone."""
    yield
    write(fleet)
    agents = fleet.status()["agents"]
    older = [agent["name"] for agent in agents if set(agent["outdated"]) - set(agent["changed_code"])]
    reload_and_see_replaced(fleet, *older)
    fleet.wait()


def write(fleet: Fleet, text: str | None = None) -> None:
    """Put `agents.yaml` there in one go, as editors do."""
    path = fleet.deployment.directory / "agents.yaml"
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(fleet.deployment.document, sort_keys=False) if text is None else text)
    new.replace(path)


def reload(fleet: Fleet, *options: str) -> str:
    """What `pallasctl reload` says."""
    done = fleet.ctl("reload", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outdated(fleet: Fleet) -> dict[str, list[str]]:
    return {agent["name"]: agent["outdated"] for agent in fleet.status()["agents"] if agent["outdated"]}


def generations(fleet: Fleet) -> dict[str, int]:
    return {agent["name"]: agent["generation"] for agent in fleet.status()["agents"]}


def is_replaced(name: str, generation: int) -> Callable[[Record], bool]:
    """Whether a record says that a worker of the agent is ready that is newer than that."""
    return lambda r: r.get("agent") == name and r.get("state") == "ready" and r["generation"] > generation


def reload_and_see_replaced(fleet: Fleet, *names: str) -> dict[str, list[str]]:
    """Reload, and return what of each agent changed once new workers of these agents are ready."""
    before = generations(fleet)
    with fleet.follow() as log:
        answer = fleet.post("/v1/reload")
        assert answer.status_code == 200, answer.text
        for name in names:
            log.until(is_replaced(name, before[name]))
    return {change["agent"]: change["fields"] for change in answer.json()["changed"]}


def served(fleet: Fleet) -> dict[str, str]:
    """The agents in the registry, and their descriptions."""
    document = httpx.get(f"{fleet.deployment.registry}/.well-known/mcp/server.json").json()
    return {
        entry["server"]["name"].partition("/")[2]: entry["server"]["description"]
        for entry in document["servers"]
    }


def labelled(fleet: Fleet) -> set[str]:
    """The agents of which there is any series."""
    lines = httpx.get(f"{fleet.deployment.registry}/metrics").text.splitlines()
    agents = {line.partition('agent="')[2].partition('"')[0] for line in lines if 'agent="' in line}
    return agents - {""}  # which is what is nobody's own


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def ask(fleet: Fleet, agent: str) -> str:
    return asyncio.run(send_message(fleet.deployment.url(agent), "hello"))


def test_one_edit_adds_removes_changes_and_renames_while_ports_change_hands(fleet: Fleet) -> None:
    agents = fleet.deployment.agents
    before, as_written = fleet.pids(), {name: dict(agent) for name, agent in agents.items()}
    assert reload(fleet) == "nothing changed\n"
    assert fleet.pids() == before

    agents["left"]["port"], agents["right"]["port"] = agents["right"]["port"], agents["left"]["port"]
    agents["summit"] = {**agents.pop("top"), "icon": "https://example.com/icon.svg"}
    agents["joins"] = {**agents["left"], "port": free_ports(1)[0], "depends_on": ["summit"]}
    agents["base"]["stop_timeout"] = 3
    write(fleet)
    said = reload(fleet, "--dry-run").splitlines()
    assert said == [
        "a reload would do this:",
        "+ summit",
        "+ joins",
        "- top",
        "~ base: stop_timeout (no restart)",
        "~ left: port (restart on another port)",
        "~ right: port (restart on another port)",
    ]
    assert fleet.pids() == before
    assert reload(fleet).splitlines() == said[1:]
    assert agents.keys() == served(fleet).keys() == labelled(fleet), "at once"
    assert set(httpx.get(f"{fleet.deployment.registry}/health").json()["agents"]) == set(agents)
    fleet.wait()
    after = fleet.pids()
    assert after["base"] == before["base"]
    assert {name: ask(fleet, name) for name in agents} == dict.fromkeys(agents, "hello")
    for name, other in (("left", "right"), ("right", "left")):
        own = httpx.get(f"http://127.0.0.1:{as_written[other]['port']}/metrics").text
        assert f'agent="{name}"' in own, "the ports have changed hands"

    left_behind = [agents.pop("joins")["port"], agents["right"]["port"]]
    agents["top"] = as_written["top"]
    del agents["summit"]
    agents["right"]["port"] = free_ports(1)[0]
    write(fleet)
    reload(fleet)
    assert agents.keys() == served(fleet).keys() == labelled(fleet)
    fleet.wait()
    assert fleet.pids()["base"] == before["base"]
    assert ask(fleet, "right") == "hello"
    assert not any(listens(port) for port in left_behind)


def test_an_invalid_file_changes_nothing_and_says_all_of_why(fleet: Fleet) -> None:
    before = fleet.pids()
    head = yaml.safe_dump(fleet.deployment.document, sort_keys=False)
    write(fleet, head.replace("    port:", "    prot:", 1) + "extra: 1\n")
    refused = fleet.ctl("reload")
    assert refused.returncode == 1
    problems = refused.stderr.splitlines()[1:]
    assert len(problems) == 3
    assert all("agents.yaml:" in problem for problem in problems)
    with fleet.follow() as log:
        os.kill(fleet.pid, signal.SIGHUP)
        log.until(lambda r: "nothing was changed" in r["message"])
        logged = {record["message"] for record in log._seen if record["level"] == "ERROR"}
        assert {problem.strip() for problem in problems} <= logged
    assert fleet.pids() == before
    assert "agents.yaml: changed, with 3 problems, and not in use" in fleet.ctl("status").stdout


def test_what_only_a_start_reads_is_refused(fleet: Fleet) -> None:
    head = dict(fleet.deployment.document)
    try:
        fleet.deployment.document |= {"registry_port": free_ports(1)[0], "bind": "127.0.0.2"}
        write(fleet)
        refused = fleet.ctl("reload", "--dry-run")
        assert refused.returncode == 1
        assert "registry_port and bind changed, which needs a restart of the supervisor" in refused.stderr
    finally:
        fleet.deployment.document.clear()
        fleet.deployment.document |= head


def test_changed_code_is_named_and_a_restart_takes_it_over(fleet: Fleet) -> None:
    module = fleet.deployment.directory / "agents" / "left.py"
    source, before = module.read_text(), fleet.pids()
    module.touch()
    assert outdated(fleet) == {}, "what is in it is the same"
    module.write_text(source + "\n# changed\n")
    assert outdated(fleet) == {"left": ["agents/left.py"]}
    shown = fleet.ctl("status").stdout
    assert shown.count("ready*") == 1
    assert shown.splitlines()[-1] == (
        "* code has changed since the start of left (agents/left.py); `pallasctl restart left` takes it over"
    )
    assert reload(fleet) == (
        "nothing changed in the configuration\n"
        "code has changed since the start of left: a reload leaves that alone; "
        "`pallasctl restart left` takes it over\n"
    )
    assert fleet.pids() == before
    assert fleet.ctl("restart", "left").returncode == 0
    assert outdated(fleet) == {}
    module.write_text(source)
    assert outdated(fleet) == {"left": ["agents/left.py"]}
    assert fleet.ctl("restart", "left").returncode == 0
    assert "*" not in fleet.ctl("status").stdout


def test_variables_follow_the_file(fleet: Fleet) -> None:
    dotenv = fleet.deployment.directory / ".env"
    before = fleet.pids()

    def words() -> list[str]:
        return [r["message"] for r in fleet.records() if r["message"].startswith("TEST_WORD")]

    assert words()[-1] == "TEST_WORD is first"
    dotenv.touch()
    assert outdated(fleet) == {}
    dotenv.write_text("TEST_WORD=second-opensesame\n")
    assert outdated(fleet) == {name: [".env"] for name in before}
    shown = fleet.ctl("status").stdout
    assert shown.count("ready*") == len(before)
    assert shown.splitlines()[-1] == (
        f"* started with an older configuration: {', '.join(before)} (.env); `pallasctl reload` replaces them"
    )
    assert "opensesame" not in fleet.get("/v1/status").text
    reload_and_see_replaced(fleet, *before)
    assert outdated(fleet) == {}
    assert "*" not in fleet.ctl("status").stdout
    assert not set(fleet.pids().values()) & set(before.values())
    assert words()[-1] == "TEST_WORD is second-opensesame"
    dotenv.unlink()
    reload_and_see_replaced(fleet, *before)
    assert words()[-1] == "TEST_WORD is None"
    assert reload(fleet) == "nothing changed\n"


def test_what_fast_agent_reads_moves_only_those_that_read_it(fleet: Fleet) -> None:
    home = fleet.deployment.directory / "home"
    home.mkdir()
    (home / "fast-agent.yaml").write_text("logger: {type: none}\nsession_history: false\n")
    fleet.deployment.agents["top"]["env"] = {"FAST_AGENT_HOME": str(home)}
    write(fleet)
    reload_and_see_replaced(fleet, "top")
    before = fleet.pids()
    (home / "fast-agent.secrets.yaml").write_text("openai: {api_key: opensesame}\n")
    assert outdated(fleet) == {"top": ["home/fast-agent.secrets.yaml"]}
    assert reload_and_see_replaced(fleet, "top") == {"top": ["home/fast-agent.secrets.yaml"]}
    config = fleet.deployment.directory / "fastagent.config.yaml"
    config.write_text("# said in other words\n" + config.read_text())
    assert outdated(fleet) == {}
    after = fleet.pids()
    assert {name for name in before if before[name] != after[name]} == {"top"}
    config.write_text(config.read_text().replace("info", "debug"))
    assert outdated(fleet).keys() == {"base", "left", "right", "top"}, "its own level is told to it as well"
    config.write_text(config.read_text().replace("debug", "info"))
    assert outdated(fleet) == {}
    del fleet.deployment.agents["top"]["env"]


def test_an_agent_that_could_not_be_replaced_stays_marked(fleet: Fleet) -> None:
    module = fleet.deployment.directory / "agents" / "left.py"
    source, before = module.read_text(), fleet.pids()
    module.write_text("import nothing_that_exists\n")
    fleet.deployment.agents["left"]["description"] = "Says it differently now"
    write(fleet)
    with fleet.follow() as log:
        reload(fleet)
        log.until(lambda r: r.get("agent") == "left" and "nothing_that_exists" in r["message"])
        log.until(lambda r: r.get("agent") == "left" and "could not be replaced" in r["message"])
    assert outdated(fleet) == {"left": ["agents.yaml", "agents/left.py"]}
    assert ask(fleet, "left") == "hello", "the old one goes on"
    assert served(fleet)["left"] == "Says it differently now"
    module.write_text(source)
    assert reload(fleet, "--dry-run").splitlines()[1] == "~ left: agents.yaml (new process)"
    assert reload_and_see_replaced(fleet, "left") == {"left": ["agents.yaml"]}
    assert outdated(fleet) == {}
    after = fleet.pids()
    assert {name for name in before if before[name] != after[name]} == {"left"}


def test_a_storm_of_reloads_ends_where_the_last_valid_file_says(fleet: Fleet) -> None:
    agents = fleet.deployment.agents
    guest = {"module": "agents.right", "port": free_ports(1)[0]}
    process = psutil.Process(fleet.pid)
    before = fleet.pids()

    def storm(rounds: int) -> None:
        with ThreadPoolExecutor(4) as callers:
            for number in range(rounds):
                agents["base"]["stop_timeout"] = 5 + number
                agents.pop("guest", None)
                if number % 4 == 1:
                    agents["guest"] = guest
                write(fleet, None if number % 3 else "agents: {")
                os.kill(fleet.pid, signal.SIGHUP)
                answer = callers.submit(fleet.post, "/v1/reload", dry_run=number % 5 == 0)
                os.kill(fleet.pid, signal.SIGHUP)
            assert answer.result().status_code in (200, 422)
        agents.pop("guest", None)
        agents["base"]["stop_timeout"] = 5 + rounds
        write(fleet)
        assert fleet.post("/v1/reload").status_code == 200
        write(fleet, "agents: {")
        with fleet.follow() as log:
            os.kill(fleet.pid, signal.SIGHUP)
            log.until(lambda r: "nothing was changed" in r["message"])

    descriptors = process.num_fds()
    storm(8)
    memory = process.memory_info().rss
    storm(20)
    assert fleet.pids() == before
    assert served(fleet).keys() == labelled(fleet) == before.keys()
    write(fleet)
    assert fleet.status()["configuration"] == {"changed": [], "problems": 0}, "the last valid one counts"
    assert reload(fleet) == "nothing changed\n"
    assert process.memory_info().rss - memory < 4 * 1024 * 1024
    fleet.await_that(lambda: process.num_fds() <= descriptors, "connections and the guest's are closed")
