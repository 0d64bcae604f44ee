"""Lines that repeat: said once, then counted, and the count said now and then. Bounded in memory and in lines.

Pure: the clock is handed in. Numbers in a text do not make it another one: `attempt 3` repeats `attempt 2`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.logs.console.lines import Say

WINDOW = 30.0
"""Seconds after which a count is said for the first time; each further time takes twice as long."""
LONGEST_WINDOW = 960.0
MOST = 200
"""Texts that are remembered."""
BURST = 20
"""Different lines of one agent that are said within a window; further ones are counted together."""
MOST_COUNTS = 5
"""Counts of one agent that are said one by one."""
KEY_LENGTH = 160

_NUMBERS = re.compile(r"\d+|0x[0-9a-f]+|\b[0-9a-f]{8,}\b")


@dataclass(slots=True)
class _Repeated:
    say: Say
    """What stands for all of them."""
    since: float
    window: float = WINDOW
    count: int = 0
    """Of those that have not been said yet."""
    various: bool = False
    """Whether these are different lines that were too many."""

    @property
    def due(self) -> float:
        return self.since + self.window


class Repeats:
    """Decides which lines are said."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, str], _Repeated] = {}
        self._bursts: dict[str, tuple[float, int]] = {}
        """Agent → since when its lines are counted, and how many have been said since."""

    def take(self, say: Say, now: float) -> list[Say]:
        """What to say for one more line."""
        said = self.tick(now)
        key = (say.about, say.word, _NUMBERS.sub("#", say.text)[:KEY_LENGTH])
        if key not in self._texts and self._too_many(say.about, now):
            key = (say.about, "", "")
            if key not in self._texts:
                self._texts[key] = _Repeated(say, now, various=True)
        if (repeated := self._texts.get(key)) is not None:
            repeated.count += 1
            repeated.say = say
            return said
        if len(self._texts) >= MOST:
            oldest = self._texts.pop(next(iter(self._texts)))
            said += _counted(oldest, now)
        self._texts[key] = _Repeated(say, now)
        return [*said, say]

    def tick(self, now: float) -> list[Say]:
        """What to say because time has passed."""
        due = [(key, repeated) for key, repeated in self._texts.items() if now >= repeated.due]
        said = _summed([repeated for _, repeated in due], now)
        for key, repeated in due:
            if repeated.count == 0 or repeated.various:
                del self._texts[key]
                continue
            repeated.count, repeated.since = 0, now
            repeated.window = min(repeated.window * 2, LONGEST_WINDOW)
        return said

    def finish(self, now: float) -> list[Say]:
        """What is left to say at the end."""
        said = _summed(self._texts.values(), now)
        self._texts.clear()
        self._bursts.clear()
        return said

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        return min((repeated.due for repeated in self._texts.values()), default=None)

    def _too_many(self, about: str, now: float) -> bool:
        since, count = self._bursts.get(about, (now, 0))
        if now - since >= WINDOW:
            since, count = now, 0
        self._bursts[about] = (since, count + 1)
        if len(self._bursts) > MOST:
            del self._bursts[next(iter(self._bursts))]
        return count >= BURST


def _summed(many: Iterable[_Repeated], now: float) -> list[Say]:
    """The counts, of an agent with many of them in one line."""
    by_agent: dict[str, list[_Repeated]] = {}
    for repeated in many:
        if repeated.count:
            by_agent.setdefault(repeated.say.about, []).append(repeated)
    said: list[Say] = []
    for of_one in by_agent.values():
        if len(of_one) > MOST_COUNTS:
            last, since = of_one[-1], min(repeated.since for repeated in of_one)
            count = sum(repeated.count for repeated in of_one)
            of_one = [_Repeated(last.say, since, count=count, various=True)]
        said += [line for repeated in of_one for line in _counted(repeated, now)]
    return said


def _counted(repeated: _Repeated, now: float) -> list[Say]:
    if repeated.count == 0:
        return []
    seconds = round(now - repeated.since)
    times = "once more" if repeated.count == 1 else f"{repeated.count} times"
    if repeated.various:
        text = f"… {repeated.count} more like these in {seconds} s, the last: {repeated.say.text}"
        return [replace(repeated.say, text=text, details=())]
    return [
        replace(repeated.say, text=f"… (repeated {times} in {seconds} s) {repeated.say.text}", details=())
    ]
