"""Amounts of memory, as people write and read them."""

from __future__ import annotations

import pytest

from pallas_common.sizes import describe_size, is_ambiguous_size, parse_size
from support.data.agents_text import agent, parse


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("536870912", 536870912),
        ("1024B", 1024),
        ("512MiB", 512 * 1024**2),
        ("512 mib", 512 * 1024**2),
        ("2GB", 2 * 1000**3),
        ("1.5GiB", 3 * 1024**3 // 2),
        ("0.1kB", 100),
        ("1TiB", 1024**4),
        ("512M", None),
        ("1,5GiB", None),
        ("2  GB", None),
        ("-1GB", None),
        (".5GB", None),
        ("GB", None),
        ("", None),
        ("٣GB", None),
        ("1e9", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


def test_a_unit_may_be_ambiguous() -> None:
    assert is_ambiguous_size("512M")
    assert not is_ambiguous_size("512MB")
    assert not is_ambiguous_size("512")
    assert not is_ambiguous_size("M")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (512 * 1024**2, "512 MiB"),
        (430_300_000, "410 MiB"),
        (3 * 1024**3 // 2, "1.5 GiB"),
        (2000**3, "7.5 GiB"),
    ],
)
def test_descriptions(size: int, text: str) -> None:
    assert describe_size(size) == text


def test_an_agents_limit_is_read_in_every_spelling() -> None:
    assert agent("memory_limit: 512MiB").memory_limit == 512 * 1024**2
    assert agent("memory_limit: '1 GB'").memory_limit == 10**9
    assert agent("memory_limit: 1073741824").memory_limit == 2**30
    assert agent("memory_limit: none").memory_limit is None


def test_none_takes_back_what_the_defaults_say() -> None:
    agents = parse(
        """
        name: demo
        defaults: {memory_limit: 1GiB, liveness_misses: 0}
        agents:
          a: {module: m.a, port: 9000}
          b: {module: m.b, port: 9001, memory_limit: none, liveness_misses: 3}
        """
    ).agents
    assert (agents["a"].memory_limit, agents["b"].memory_limit) == (2**30, None)
    assert (agents["a"].liveness_misses, agents["b"].liveness_misses) == (0, 3)
