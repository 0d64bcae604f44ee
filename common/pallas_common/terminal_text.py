"""Text that others have written, made safe for a person's terminal: `terminal_text`, `terminal_line`, `terminal_json`.

Pure. For whatever is printed and comes from an agent, a model, a file, a name of a process, or a caller: a control
sequence in it could repaint the screen, a bidirectional control (Unicode Standard Annex 9) shows words in another
order than they have, and a line feed makes up a line of its own.
"""

from __future__ import annotations

import json
import re

# C0 and C1 controls; bidirectional controls; line and paragraph separators; surrogates, which no encoding can write;
# invisible operators, the byte order mark, interlinear annotations and tags, which hide text from the reader.
_UNSAFE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f"
)
_IN_TEXT = re.compile(rf"[{_UNSAFE}]")
_IN_LINE = re.compile(rf"[\t\n{_UNSAFE}]")


def terminal_text(text: str) -> str:
    r"""The text with all that a terminal would obey or hide written as an escape, `\x1b`; line feeds and tabs stay."""
    return _IN_TEXT.sub(_escape, text)


def terminal_line(text: str) -> str:
    r"""The text as one line: like `terminal_text`, and line feeds and tabs are escapes too, `\n`."""
    return _IN_LINE.sub(_escape, text)


def terminal_json(document: object) -> str:
    """The document as indented JSON, the same once it is parsed, with escapes as `terminal_text` has them."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _IN_TEXT.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
