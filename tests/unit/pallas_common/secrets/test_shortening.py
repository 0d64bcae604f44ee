"""Long texts cut short: to a bound, and with no half of a secret left on either side of a cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallas_common.logs.records import LONGEST_LINE, parse_record, record_line
from pallas_common.secrets.patterns import REDACTED
from pallas_common.secrets.shortening import MARGIN, seam, without_secrets
from pallas_common.secrets.values import KnownSecrets

KNOWN = "hunter2-" + "Zq7" * 30
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
SECRETS = {
    "known": (KNOWN, KNOWN),
    "token": (JWT, JWT),
    "name and value": ("api_key='S3cr3t-Va1ue with spaces'", "S3cr3t-Va1ue with spaces"),
    "URL": ("https://user:S3cr3t-Va1ue@host/", "S3cr3t-Va1ue"),
    "bearer": ("Bearer S3cr3tVa1ueS3cr3tVa1ue", "S3cr3tVa1ueS3cr3tVa1ue"),
    "two that touch": (f"{KNOWN}{JWT}", KNOWN),
}


def leaks(text: str, secret: str) -> bool:
    """Whether a good part of the secret is in the text."""
    return any(secret[at : at + 8] in text for at in range(len(secret) - 7))


@pytest.mark.parametrize("name", SECRETS)
def test_no_half_of_a_secret_is_left_wherever_the_cut_is(name: str) -> None:
    written, secret = SECRETS[name]
    known = KnownSecrets([KNOWN])
    for longest in range(1_000, 1_000 + 2 * len(written) + 10, 2):
        text = "." * 490 + f" {written} " + "." * 2_000 + f" {written} " + "." * 490
        short = without_secrets(text, longest, known)
        assert not leaks(short, secret), longest
        assert len(short) < longest + 60
        for at in (490 + longest - 1_000, len(text) - 490 - longest + 1_000):
            before, after = seam(text, at, known)
            assert before <= at <= after
            assert not leaks(without_secrets(text[:before], 10_000, known), secret)
            assert not leaks(without_secrets(text[before:], 10_000, known), secret)


def test_what_is_left_out_is_said() -> None:
    short = without_secrets("a" * 5_000 + "b" * 5_000, 100, KnownSecrets())
    assert short == f"{'a' * 50} … [9900 characters left out] … {'b' * 50}"
    assert without_secrets("a" * 100, 100, KnownSecrets()) == "a" * 100


def test_a_secret_longer_than_the_margin_is_seen_if_it_is_known() -> None:
    secret = "".join(f"{number:05d}" for number in range(MARGIN))
    text = "x" * 30_000 + secret + "x" * 30_000
    short = without_secrets(text, 64_000, KnownSecrets([secret]))
    assert not leaks(short, secret)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(max_size=300), st.text(max_size=5) | st.lists(st.text(max_size=3)), max_size=5),
    st.sampled_from(["é", "a", "\x00", "token=x ", f"{KNOWN} ", "😀"]),
    st.integers(10, 200_000),
)
def test_a_record_is_never_longer_than_a_line_may_be(
    record: dict[str, object], piece: str, length: int
) -> None:
    long = piece * (length // len(piece))
    record |= {"message": long, "exception": long, "more": [long] * 5, "key " + long: 1}
    line = record_line(record, KnownSecrets([KNOWN]))
    assert len(line) <= LONGEST_LINE + 1
    assert parse_record(line) is not None
    assert KNOWN[:20] not in line.decode()


def test_a_record_of_countless_values_is_cut_and_says_so() -> None:
    record = {"message": "the token is", "values": list(range(100_000)), "last": "sk-hunter2hunter2"}
    cut = json.loads(record_line(record))
    assert cut["message"] == "the token is"
    assert cut["values"][0] == 0
    assert cut["values"][-1].endswith(" more")
    assert cut["last"] == REDACTED
    deep = {f"k{number}": {f"l{inner}": "token" for inner in range(100)} for number in range(1_000)}
    assert len(record_line(deep)) <= LONGEST_LINE + 1


def test_the_last_line_of_a_long_traceback_is_kept() -> None:
    cut = json.loads(record_line({"message": "failed", "exception": "frame\n" * 50_000 + "ValueError: why"}))
    assert cut["exception"].startswith("frame\n")
    assert cut["exception"].endswith("ValueError: why")
