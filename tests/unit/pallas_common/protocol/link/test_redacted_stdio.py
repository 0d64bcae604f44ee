"""What a worker's code prints holds no secret, wherever its descriptors have been before."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pallas_common.protocol.link.redacted_stdio import RedactedStream, redact_stdio
from pallas_worker.redact import CallSecrets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_is_printed_is_struck_also_on_a_descriptor_that_was_a_file_before(tmp_path: Path) -> None:
    with (tmp_path / "was.txt").open("w") as stream:
        stream.write("as long as it is a file\n")
        stream.flush()
        read_end, write_end = os.pipe()
        os.dup2(write_end, stream.fileno())
        os.close(write_end)
        secrets = CallSecrets(["key-of-the-process"])
        redacted = RedactedStream(stream, secrets)
        with secrets.during("token-of-the-call"):
            print("it is", "key-of-the-process", "and token-of-the-call", file=redacted)
        assert redacted.write("token-of-the-call\n") == 18
        redacted.flush()
        redacted.close()
    with os.fdopen(read_end) as printed:
        assert printed.read() == "it is [redacted] and [redacted]\ntoken-of-the-call\n"


def test_streams_that_are_none_or_closed_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "closed.txt").open("w") as closed:
        pass
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", closed)
    redact_stdio(CallSecrets())
    assert sys.stdout is None
    assert sys.stderr is closed
