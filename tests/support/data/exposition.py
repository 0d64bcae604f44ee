"""What prometheus_client has for metrics files and their texts and gives no types, with types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import mmap_dict, multiprocess
from prometheus_client.openmetrics import exposition, parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric

MmapedDict: Any = mmap_dict.MmapedDict
merge: Callable[[Iterable[str]], Iterable[Metric]] = multiprocess.MultiProcessCollector.merge
parse_openmetrics: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families
generate_openmetrics: Callable[[Any], bytes] = exposition.generate_latest
