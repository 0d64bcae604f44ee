"""Metrics as text: Prometheus' format 0.0.4 and OpenMetrics 1.0, and the choice between them. Pure.

Knows the formats; nothing of where values come from. Both write a sample alike; they differ in what stands around.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.http.answers import preferences

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_NO_METRIC_CHARACTER = re.compile(r"[^a-zA-Z0-9_:]|^(?=[0-9])")
_NO_LABEL_CHARACTER = re.compile(r"[^a-zA-Z0-9_]|^(?=[0-9])")


class Family(NamedTuple):
    """One metric with all its samples."""

    name: str
    """Without the `_total` of a counter."""
    type: str
    help: str
    lines: bytes
    """Each sample's line, ended."""


def sample_prefix(sample: str, labels: Iterable[tuple[str, str]]) -> str:
    """All of a sample's line but its value."""
    pairs = ",".join(f'{label_name(name)}="{_escaped(text)}"' for name, text in sorted(labels))
    return f"{metric_name(sample)}{{{pairs}}} " if pairs else f"{metric_name(sample)} "


def metric_name(name: str) -> str:
    """The name with an underscore for whatever a metric's name may not hold."""
    return _NO_METRIC_CHARACTER.sub("_", name)


def label_name(name: str) -> str:
    """The name with an underscore for whatever a label's name may not hold."""
    return _NO_LABEL_CHARACTER.sub("_", name)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """A sample's value."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def clean_text(text: str) -> str:
    """The text as it is when it has been encoded."""
    return text if text.isascii() else encoded(text).decode()


def encoded(text: str) -> bytes:
    """UTF-8; what it cannot say becomes a question mark."""
    return text.encode("utf-8", "replace")


def page(families: Iterable[Family], content_type: str) -> bytes:
    """The whole answer to a scrape."""
    openmetrics = content_type == OPENMETRICS
    parts = []
    for family in families:
        name = metric_name(family.name)
        if openmetrics:
            type_, text = family.type, _escaped(family.help)
        else:
            name += "_total" if family.type == "counter" else ""
            type_ = "untyped" if family.type == "unknown" else family.type
            text = family.help.replace("\\", r"\\").replace("\n", r"\n")
        parts += [encoded(f"# HELP {name} {text}\n# TYPE {name} {type_}\n"), family.lines]
    if openmetrics:
        parts.append(b"# EOF\n")
    return b"".join(parts)


def choose(accept: str) -> str:
    """The content type for an `Accept` header: OpenMetrics where that is wanted at least as much as text.

    prometheus_client's `choose_encoder` looks at no weights: it gives OpenMetrics to who would rather have text.
    """
    wanted = {TEXT: 0.0, OPENMETRICS: 0.0}
    for media, parameters, weight in preferences(accept):
        version = parameters.get("version", "").strip('"')
        if media == "application/openmetrics-text" and version in ("", "1.0.0"):
            wanted[OPENMETRICS] = max(wanted[OPENMETRICS], weight)
        elif media == "text/plain" and version in ("", "0.0.4"):
            wanted[TEXT] = max(wanted[TEXT], weight)
    return OPENMETRICS if wanted[OPENMETRICS] >= max(wanted[TEXT], 0.001) else TEXT
