"""Long texts cut to a bounded length without cutting through a secret: half of one would not be recognised.

Pure; the cost is linear in what is kept, not in what is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.secrets.patterns import credentials, redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_common.secrets.values import KnownSecrets

MARGIN = 4096
"""Characters on each side of a cut that are looked at, or as many as the longest known secret has: what may lie across
it."""


def without_secrets(text: str, longest: int, secrets: KnownSecrets) -> str:
    """The text without secrets; of one of more than `longest` characters, what is in the middle is left out."""
    if len(text) <= longest:
        return redact(secrets.strike(text))
    head, _ = seam(text, longest // 2, secrets)
    _, tail = seam(text, len(text) - longest // 2, secrets)
    kept = [redact(secrets.strike(part)) for part in (text[:head], text[tail:])]
    return f" … [{tail - head} characters left out] … ".join(kept)


def seam(text: str, at: int, secrets: KnownSecrets) -> tuple[int, int]:
    """Where the text may be cut near `at`: how far what comes before may reach, and where what comes after may begin.

    Both are `at`, unless it lies within a secret or between one and that by which it is recognised; what is between
    the two is that, then.
    """
    margin = max(MARGIN, secrets.longest)
    begin = max(at - margin, 0)
    first = last = at - begin
    low = high = 0
    for one_low, one_high in sorted(_extents(text[begin : at + margin], secrets)):
        if one_low >= high:  # those that overlap count as one
            low = one_low
        high = max(high, one_high)
        if low < at - begin < high:
            first, last = low, high
    return begin + first, begin + last


def _extents(text: str, secrets: KnownSecrets) -> Iterator[tuple[int, int]]:
    """Where each secret, and that by which it is recognised, begins and ends."""
    for found in credentials(text):
        yield found.first, found.last
    for form in secrets.found_in(text):
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + 1)
