"""Documents and values as YAML that a terminal shows as it is, and that says the same once it is read.

Knows PyYAML, which is loaded when it is used, and what our reader takes for a number; no document.
"""

from __future__ import annotations

from typing import Any

from pallas_common.terminal_text import terminal_text

_ENDLESS = 1_000_000
"""Columns: lines are not folded."""
_IN_LISTS = ",:?[]{}"
"""What a text in brackets may not hold unless it is in quotes."""


def yaml_document(document: object) -> str:
    """The document as YAML, keys in their order, without a line feed at the end.

    Texts of several lines stand in blocks.
    """
    return _dumped(document, one_line=False)


def yaml_value(value: object) -> str:
    """A value on one line, lists and mappings in brackets."""
    return _bracketed(value) if isinstance(value, list | dict) else _dumped(value)


def _bracketed(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_bracketed, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_bracketed(key)}: {_bracketed(item)}' for key, item in value.items())}}}"
    return _dumped(value, _IN_LISTS)


def _dumped(value: object, quoted: str = "", *, one_line: bool = True) -> str:
    """The value as YAML; texts with one of the characters `quoted` in double quotes.

    Several lines of a text stand below each other unless all has to be on `one_line`.
    """
    import yaml

    from pallas_registry.reading.values import NUMBER

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None
        if terminal_text(value) != value or any(sign in value for sign in quoted) or value == "\n":
            style = '"'  # there alone, what a terminal would obey can be written as an escape
        elif NUMBER.fullmatch(value):
            style = '"'  # YAML 1.1 does not take all of them for numbers, and our reader does
        elif "\n" in value:
            style = '"' if one_line else "|"  # in quotes as well, where lines would not be the same again
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_ENDLESS)
    return terminal_text(dumped.removesuffix("\n").removesuffix("\n..."))
