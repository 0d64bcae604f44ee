"""The status page in a real browser, on a real fleet: live, through a restart of the supervisor, by keyboard alone."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from support.documents.browser.axe import violations
from support.documents.browser.browser import Page, find_chromium, run_chromium
from support.fleet.deployment import MODULES, Deployment, make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
HELD = """\
import contextlib

with contextlib.suppress(FileNotFoundError):
    open("hold").read()  # until the test lets go
""" + MODULES["passthrough"]
"""An agent that stays on its way while there is a FIFO called `hold`."""


@dataclass
class Scene:
    """A fleet, and a browser that looks at it."""

    deployment: Deployment
    fleet: Fleet
    page: Page

    def state(self, agent: str) -> str:
        """What the page says is the agent's state."""
        state: str = self.page.evaluate(f"document.getElementById('agent-{agent}').dataset.state")
        return state

    def until_state(self, agent: str, state: str) -> None:
        self.page.until(f"document.getElementById('agent-{agent}')?.dataset.state === '{state}'")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    find_chromium()
    deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
    deployment.add("research", title="Research <b>Agent</b>")
    deployment.add("jarvis", depends_on=["research"])
    deployment.add("aside")
    (deployment.directory / "agents" / "research.py").write_text(HELD.format(name="research", servers=[]))
    with Fleet(deployment) as fleet, run_chromium() as page:
        page.look_like()
        yield Scene(deployment, fleet, page)


@pytest.fixture(autouse=True)
def opened(scene: Scene) -> None:
    """Each test begins with a page that has just been opened, of a fleet that is all ready."""
    assert scene.fleet.process is not None
    if scene.fleet.process.poll() is not None:
        scene.fleet.start()
    scene.fleet.wait()
    scene.page.open(scene.deployment.registry)
    for agent in scene.deployment.agents:
        scene.until_state(agent, "ready")


@contextmanager
def hold(scene: Scene) -> Iterator[None]:
    """Keep the next worker of `research` on its way."""
    fifo = scene.deployment.directory / "hold"
    os.mkfifo(fifo)
    try:
        yield
    finally:
        writer = os.open(fifo, os.O_RDWR)  # which does not wait for a reader
        fifo.unlink()
        os.close(writer)


def test_a_killed_worker_is_seen_to_fall_and_to_come_back(scene: Scene) -> None:
    page, before = scene.page, scene.fleet.agent("research")
    page.evaluate("window.witness = document.getElementById('agent-research')")
    with hold(scene):
        os.kill(before["pid"], signal.SIGKILL)
        scene.until_state("research", "starting")
        page.until("document.querySelector('[role=status]').textContent.includes('2 of 3 agents ready')")
        page.until("document.title.startsWith('2/3 ready')")
        assert page.evaluate("document.querySelector('.trouble').textContent").split() == [
            "starting",
            "research",
            "pallasctl",
            "logs",
            "research",
        ]
    scene.until_state("research", "ready")
    page.until("document.querySelector('[role=status]').textContent.includes('All 3 agents ready')")
    restarts = page.evaluate(
        "[...document.getElementById('agent-research').cells]"
        ".find(cell => cell.textContent.startsWith('Restarts')).lastChild.data"
    )
    assert restarts == str(before["restarts"] + 1)
    assert "starting" in page.evaluate(
        "document.querySelector('#agent-research .strip').getAttribute('aria-label')"
    )
    assert page.evaluate("window.witness === document.getElementById('agent-research')"), (
        "the page was changed, not loaded again"
    )


def test_the_page_survives_a_restart_of_the_supervisor(scene: Scene) -> None:
    page = scene.page
    page.evaluate("window.witness = 1")
    assert scene.fleet.stop() == 0
    page.until("!document.getElementById('lost').hidden")
    assert page.evaluate("document.getElementById('lost').innerText").startswith("Connection lost since ")
    assert page.evaluate("document.getElementById('live').innerText") == "Not live"
    # It may have looked while the agents were being stopped.
    assert scene.state("jarvis") in ("ready", "stopping", "stopped"), "what was known stays"
    scene.fleet.start()
    page.until("document.getElementById('lost').hidden")
    scene.until_state("jarvis", "ready")
    assert page.evaluate("document.getElementById('live').innerText") == "Live"
    assert page.evaluate("window.witness") == 1, "the page was not loaded again"


def test_everything_is_reached_by_keyboard_in_the_order_in_which_it_is_seen(scene: Scene) -> None:
    page = scene.page
    wanted = page.evaluate(
        "[...document.querySelectorAll('a, button, summary, [tabindex=\"0\"]')].filter(e => e.checkVisibility())"
        ".map(e => e.textContent.trim() || e.getAttribute('aria-label'))"
    )
    reached = []
    for _ in wanted:
        page.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.textContent.trim() || document.activeElement.getAttribute('aria-label')"
            )
        )
        assert page.evaluate(
            "(e => { const s = getComputedStyle(e), r = e.querySelector('rect'); return s.outlineStyle !== 'none'"
            " || r && getComputedStyle(r).strokeWidth === '2.5px'; })(document.activeElement)"
        ), f"the focus on {reached[-1]} is not seen"
    assert reached == wanted
    page.evaluate("document.querySelector('.graph a').focus()")
    page.press("Enter")
    agent = page.evaluate("location.hash")
    assert agent.startswith("#agent-")
    assert page.evaluate("document.querySelector(':target').id") == agent[1:]


def test_focus_stays_where_it_is_while_the_page_changes(scene: Scene) -> None:
    page = scene.page
    page.evaluate("document.querySelector('.graph a[href=\"#agent-research\"]').focus()")
    with hold(scene):
        os.kill(scene.fleet.agent("research")["pid"], signal.SIGKILL)
        page.until(
            "document.querySelector('.graph a[href=\"#agent-research\"]').ariaLabel.includes(', starting')"
        )
        assert page.evaluate("document.activeElement.getAttribute('href')") == "#agent-research"


def test_a_screen_reader_finds_headings_landmarks_and_a_table(scene: Scene) -> None:
    scene.page.look_like(width=390)  # rows are cards there, and still a table
    try:
        nodes = scene.page.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        scene.page.look_like()
    seen = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
    ]
    assert {("banner", ""), ("main", ""), ("contentinfo", ""), ("navigation", "Raw data")} <= set(seen)
    headings = {name for role, name in seen if role == "heading"}
    assert headings == {"test-fleet", "Agents", "Dependencies", "Connect"}
    assert ("table", "Agents: state, health, use") in seen
    roles = [role for role, _ in seen]
    assert (roles.count("rowheader"), roles.count("row")) >= (3, 3)
    assert next(name for role, name in seen if role == "rowheader").startswith("Research <b>Agent</b>")
    assert ("link", "jarvis, ready, needs research") in seen
    assert not [role for role, name in seen if role in ("link", "image", "region", "table") and not name]


def test_a_page_of_another_version_loads_itself_anew(scene: Scene) -> None:
    page = scene.page
    page.evaluate("window.witness = 1; document.getElementById('view').dataset.build = 'of before'")
    os.kill(scene.fleet.agent("research")["pid"], signal.SIGKILL)
    page.until(
        "window.witness === undefined && document.readyState === 'complete'"
        " && document.getElementById('view').dataset.build !== 'of before'"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_that_keeps_people_out(scene: Scene, width: int, scheme: str) -> None:
    page = scene.page
    page.look_like(width=width, prefers_color_scheme=scheme)
    try:
        page.evaluate("document.querySelectorAll('#connect details').forEach(e => e.open = true)")
        assert violations(page, least=31) == []
    finally:
        page.look_like()


def test_nothing_is_wrong_and_nothing_comes_from_elsewhere(scene: Scene) -> None:
    page = scene.page
    held = len(page.complaints())
    page.open(scene.deployment.registry + "/?anew")
    page.until("document.getElementById('live').innerText === 'Live'")
    page.until("performance.getEntriesByName(location.origin + '/page/view').length > 1")
    assert page.complaints()[held:] == []
    elsewhere = {
        url for url in page.requested() if urlsplit(url).netloc != urlsplit(scene.deployment.registry).netloc
    }
    assert elsewhere <= {"about:blank"}
    policy = httpx.get(scene.deployment.registry).headers["content-security-policy"]
    assert "default-src 'none'" in policy


def test_a_phone_shows_all_of_it_without_scrolling_sideways(scene: Scene) -> None:
    page = scene.page
    for width in (320, 390, 760, 1280):
        page.look_like(width=width)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels on a screen of {width}"
    page.look_like()


def test_without_scripts_it_is_a_page_that_reloads(scene: Scene) -> None:
    page = scene.page
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(scene.deployment.registry + "/?still")
        assert page.evaluate("document.getElementById('live').innerText") == "Reloads every 10 s"
        assert page.evaluate("document.querySelector('meta[http-equiv=refresh]').content") == "10"
        assert page.evaluate("document.querySelectorAll('.agents tbody tr').length") == 3
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)


def open_client(page: Page, agent: str, client: str) -> str:
    """Open what there is for a client of an agent; an expression for its element."""
    page.evaluate(f"document.querySelector('a[href=\"#connect-{agent}\"]').click()")
    found = (
        f"[...document.querySelectorAll('#connect-{agent} details')]"
        f".find(e => e.querySelector('summary').innerText === '{client}')"
    )
    page.evaluate(f"{found}.querySelector('summary').click()")
    page.until(f"{found}.querySelector('pre').checkVisibility()")
    return found


def test_what_is_opened_and_selected_stays_while_the_page_and_the_agents_change(scene: Scene) -> None:
    page, deployment = scene.page, scene.deployment
    opened = open_client(page, "research", "Claude Code")
    page.evaluate(f"getSelection().selectAllChildren({opened}.querySelector('pre'))")
    wanted = f"claude mcp add --transport http research {deployment.url('research')}".replace(
        "127.0.0.1", "localhost"
    )
    assert page.evaluate("getSelection().toString()") == wanted
    with hold(scene):
        os.kill(scene.fleet.agent("research")["pid"], signal.SIGKILL)
        scene.until_state("research", "starting")
        assert page.evaluate("getSelection().toString()") == wanted
    deployment.add("newcomer")
    try:
        assert scene.fleet.ctl("reload").returncode == 0
        page.until("document.getElementById('connect-newcomer')")
        assert page.evaluate("getSelection().toString()") == wanted
        assert page.evaluate(f"{opened}.querySelector('pre').checkVisibility()")
    finally:
        del deployment.agents["newcomer"]
        deployment.write()
        assert scene.fleet.ctl("reload").returncode == 0
    page.until("!document.getElementById('connect-newcomer')")
    assert page.evaluate(f"{opened}.querySelector('pre').checkVisibility()")


@pytest.mark.parametrize("secure", [True, False], ids=["clipboard", "plain HTTP from elsewhere"])
def test_a_button_copies_what_stands_below_it(scene: Scene, secure: bool) -> None:
    page = scene.page
    page.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.send("Page.bringToFront")
    page.evaluate("navigator.clipboard.writeText('of before')")
    opened = open_client(page, "jarvis", "Cursor")
    read = "navigator.clipboard.readText()"
    if not secure:  # there, a page has no `navigator.clipboard`
        page.evaluate("window.kept = navigator.clipboard; 0")
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined}); 0")
        read = "kept.readText()"
    page.send("Runtime.evaluate", expression=f"{opened}.querySelector('button').click()", userGesture=True)
    page.until(f"{opened}.querySelector('button').innerText === 'Copied'")
    copied = json.loads(page.evaluate(read))
    assert list(copied["mcpServers"]) == ["jarvis"]
    assert copied["mcpServers"]["jarvis"]["url"].endswith(f":{scene.deployment.agents['jarvis']['port']}/mcp")
    if secure:
        page.until(f"{opened}.querySelector('button').innerText === 'Copy'")


def test_without_scripts_what_to_paste_stands_on_a_page_that_stays(scene: Scene) -> None:
    page = scene.page
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(scene.deployment.registry + "/?still")
        page.open(page.evaluate("document.querySelector('#connect noscript a').href"))
        assert urlsplit(page.evaluate("location.href")).path == "/page/connect"
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        shown = "[...document.querySelectorAll('#connect-aside pre')].filter(e => e.checkVisibility()).length"
        assert page.evaluate(shown) >= 1
        assert page.evaluate("getComputedStyle(document.querySelector('.copy')).display") == "none"
        assert not page.evaluate("document.querySelector('meta[http-equiv]')")
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)
