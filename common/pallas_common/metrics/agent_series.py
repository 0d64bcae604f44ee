"""What of each agent's series is served: a verdict for each key, kept; a bound for each agent; what is left out, named.

Knows keys and log lines; nothing of files or of pages.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.served_series import PREFIX, RefusedError, checked, shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from pallas_common.metrics.mmap_file import Series

MAX_SERIES = 20_000
"""Series of an agent that are served; of Pallas' own, all."""
MAX_OF_METRIC = MAX_SERIES // 2
"""Series of one metric that are: one that counts by request must not keep out those that come after it."""
MAX_WARNINGS = 50
"""Different warnings about what one agent has written."""

_log = get_logger("pallas.metrics")


class Warnings:
    """Says what is wrong, once for each thing, and not of endless things.

    Args:
        owner: the agent that it is about, None if it is about none.
    """

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self._warned: set[str] = set()

    def warn(self, thing: str, message: str) -> None:
        """Say it, unless something was said of this thing, or enough of all."""
        if thing in self._warned or len(self._warned) > MAX_WARNINGS:
            return
        self._warned.add(thing)
        if len(self._warned) > MAX_WARNINGS:
            message = "there is more that is left out of the metrics"
        if self.owner is None:
            _log.warning(message)
        else:
            _log.warning(f"{self.owner}: {message}", agent=self.owner)


class AgentSeries(Warnings):
    """The verdicts on one agent's keys, whichever of its files they are in.

    Args:
        owner: the agent's name; None where its series are the only ones.
    """

    def __init__(self, owner: str | None) -> None:
        super().__init__(owner)
        self._verdicts: dict[tuple[str, bytes], Series] = {}
        self._served: Counter[str] = Counter()
        """By metric, how many series."""

    def take(self, kind: str, key: bytes) -> Series | None:
        """The series as it is served, None if it is left out."""
        place = (kind, key)
        if (known := self._verdicts.get(place)) is not None:
            return known
        try:
            series = checked(kind, key, self.owner)
        except RefusedError as error:
            named = f"its metric {shown(error.metric)}" if error.metric else "one of its metrics"
            self.warn(error.metric, f"{named} is left out of the metrics: {error}")
            return None
        if not series.family.startswith(PREFIX) and self._is_too_much(series.family):
            return None
        self._served[series.family] += 1
        self._verdicts[place] = series
        return series

    def keep(self, places: Collection[tuple[str, bytes]]) -> bool:
        """Forget all others, which are in no file any more; whether there were any."""
        before = len(self._verdicts)
        self._verdicts = {place: self._verdicts[place] for place in places if place in self._verdicts}
        self._served = Counter(series.family for series in self._verdicts.values())
        return len(self._verdicts) < before

    def _is_too_much(self, metric: str) -> bool:
        """Whether no further series of the metric can be served."""
        if len(self._verdicts) >= MAX_SERIES:
            more = f"it has more than {MAX_SERIES} series: further ones are left out of the metrics"
            self.warn(" series", more)
            return True
        if self._served[metric] >= MAX_OF_METRIC:
            more = (
                f"its metric {shown(metric)} has more than {MAX_OF_METRIC} series: further ones are left out"
            )
            self.warn(metric, more)
            return True
        return False

    @property
    def is_full(self) -> bool:
        """Whether it, or one of its metrics, has as many series as are served."""
        return len(self._verdicts) >= MAX_SERIES or max(self._served.values(), default=0) >= MAX_OF_METRIC
