"""A headless Chromium, driven over its own DevTools protocol.

Knows Chromium's flags and the protocol; nothing of what is looked at. Waits for changes of the page, never for time.
"""

from __future__ import annotations

import base64
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0
"""Seconds after which something that has to happen has not happened."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

_UNTIL = """new Promise(done => {
    const look = () => { const found = (%s); if (found) { observer.disconnect(); done(found); } };
    const observer = new MutationObserver(look);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    look();
})"""


_UNTIL_DRAWN = """new Promise(done => {
    const look = () => { const found = (%s); found ? done(found) : requestAnimationFrame(look); };
    look();
})"""


def find_chromium() -> str:
    """Its path; without it the test is not run, or fails where peers are required."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        message = "not run: needs chromium (apt-get install chromium)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


class DevToolsError(RuntimeError):
    """Chromium refuses a command, or a script of ours raises."""


class Pipe:
    """Messages of the protocol, each ended by a zero byte."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._selector = selectors.DefaultSelector()
        self._selector.register(answers, selectors.EVENT_READ)
        self._rest = b""
        self.numbers = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        os.close(self._commands)
        os.close(self._answers)

    def send(self, message: dict[str, Any]) -> None:
        """Hand one over."""
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._commands, data) :]

    def receive(self, deadline: float) -> dict[str, Any]:
        """The next one; TimeoutError at the deadline, EOFError when nobody is there any more."""
        while b"\0" not in self._rest:
            if not self._selector.select(max(deadline - monotonic(), 0.0)):
                raise TimeoutError
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise EOFError
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received


class Page:
    """One tab; without a session, the browser itself."""

    def __init__(self, pipe: Pipe, session: str | None) -> None:
        self._pipe = pipe
        self._session: dict[str, str] = {} if session is None else {"sessionId": session}
        self.events: list[dict[str, Any]] = []
        """All that Chromium told since the tab was opened: console, log, requests."""

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Carry out a command of the protocol; its result."""
        number = next(self._pipe.numbers)
        self._pipe.send({"id": number, "method": method, "params": parameters, **self._session})
        deadline = monotonic() + PATIENCE
        while True:
            message = self._pipe.receive(deadline)
            if "method" in message:
                self.events.append(message)
            elif message["id"] != number:
                continue  # the answer to a command that nobody waits for any more
            elif "error" in message:
                raise DevToolsError(f"{method}: {message['error']}")
            else:
                result: dict[str, Any] = message["result"]
                return result

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page, or of what it promises."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise DevToolsError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true of the page, which is looked at after each of its changes."""
        return self._until(_UNTIL, expression)

    def until_drawn(self, expression: str) -> Any:
        """The same of what no change of the document tells of: focus, what is loaded. Looked at before each frame."""
        return self._until(_UNTIL_DRAWN, expression)

    def _until(self, script: str, expression: str) -> Any:
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self.evaluate(script % expression)
            except DevToolsError as error:
                reloaded = re.search(
                    "context was destroyed|navigated|Cannot find context|was collected", str(error)
                )
                if not reloaded or monotonic() > deadline:
                    raise
            except TimeoutError:
                text = self.evaluate("document.body.innerText")
                raise AssertionError(f"not within {PATIENCE:g} s: {expression}\n{text}") from None

    def open(self, url: str) -> None:
        """Go there, and return once that page has loaded, not one before it."""
        before = len(self.events)
        loader = self.send("Page.navigate", url=url)["loaderId"]
        deadline = monotonic() + PATIENCE
        while not self._has_loaded(before, loader):
            message = self._pipe.receive(deadline)
            if "method" in message:
                self.events.append(message)

    def _has_loaded(self, before: int, loader: str) -> bool:
        """Whether a navigation has become the page's, and that has loaded since."""
        is_there = False
        for event in self.events[before:]:
            if event["method"] == "Page.frameNavigated":
                is_there = is_there or event["params"]["frame"]["loaderId"] == loader
            elif event["method"] == "Page.loadEventFired" and is_there:
                return True
        return False

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key that is called as in `KeyboardEvent.key`."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        text = {"Enter": "\r"}.get(key, "")
        common = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": codes[key],
            "modifiers": 8 if shift else 0,
        }
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Write a text where the focus is."""
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element."""
        place = self.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def new_tab(self) -> Page:
        """Another tab of the same browser, with the same cookies."""
        return _tab(
            self._pipe, Page(self._pipe, None).send("Target.createTarget", url="about:blank")["targetId"]
        )

    def look_like(self, *, width: int = 1280, height: int = 800, scale: float = 1.0, **media: str) -> None:
        """Take on a size, in pixels of the style sheet, and media features such as `prefers_color_scheme`."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.send("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, *, whole: bool = True) -> bytes:
        """What it looks like, as PNG; all of it, or what fits the window."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of a kind so far."""
        self.evaluate("0")  # takes in what is on its way
        return [event["params"] for event in self.events if event["method"] == method]

    def complaints(self) -> list[str]:
        """What Chromium had to say against the page: errors and warnings of console, log and policy."""
        console = [
            f"console: {event['args']}"
            for event in self.of("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        thrown = [f"exception: {event['exceptionDetails']}" for event in self.of("Runtime.exceptionThrown")]
        logged = [
            f"{entry['source']}: {entry['text']} ({entry.get('url', '')})"
            for event in self.of("Log.entryAdded")
            if (entry := event["entry"])["level"] in ("error", "warning")
        ]
        return console + thrown + logged

    def requested(self) -> list[str]:
        """The URLs of all requests so far."""
        return [event["request"]["url"] for event in self.of("Network.requestWillBeSent")]


@contextmanager
def run_chromium() -> Iterator[Page]:
    """A new browser with an empty profile and one tab; it has gone when the block ends."""
    command = find_chromium()
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        said = Path(profile, "stderr")
        with said.open("w") as stderr:
            process = subprocess.Popen(
                # The protocol is spoken on descriptors 3 and 4.
                [
                    *("bash", "-c", f'exec "$@" 3<&{read_commands} 4>&{write_answers}', "bash"),
                    *(command, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
                ],
                env={**os.environ, "HOME": profile},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(read_commands, write_answers),
                start_new_session=True,
            )
        os.close(read_commands)
        os.close(write_answers)
        try:
            with Pipe(commands, answers) as pipe:
                yield _first_page(pipe)
        except EOFError:
            raise AssertionError(f"Chromium has gone: {said.read_text()}") from None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _first_page(pipe: Pipe) -> Page:
    browser = Page(pipe, None)
    targets = browser.send("Target.getTargets")["targetInfos"]
    return _tab(pipe, next(target["targetId"] for target in targets if target["type"] == "page"))


def _tab(pipe: Pipe, target: str) -> Page:
    session = Page(pipe, None).send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    page = Page(pipe, session)
    for domain in ("Page", "Runtime", "Log", "Network"):
        page.send(f"{domain}.enable")
    return page
