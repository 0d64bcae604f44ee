"""YAML for terminals: it says the same once it is read, and obeys nobody's control sequences."""

from __future__ import annotations

import pytest
import yaml

from pallasctl.yaml_text import yaml_document, yaml_value

VALUES = [
    "a",
    "yes",
    "010",
    "1e5",
    "1e-05",
    "a: b",
    "a, b",
    "x]\u202e",
    "é 日本",
    "",
    "- a",
    "#x",
    'q"x\\',
    "a\nb\t",
    "null",
    " a ",
    "\x1b[2J\x9b",
    "\U000e0041\ufeff",
    5,
    2.5,
    True,
    None,
    ["a", "b,c", "]", "::1", "x: y", ["z,"]],
    [],
    {},
    {
        "type": "object",
        "a: b": {"pattern": "^[a-z]{2,}?$", "enum": ["no", None, "?x", ""]},
        "-": [{"#": 1.5}],
    },
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_read_back(value: object) -> None:
    text = yaml_value(value)
    assert yaml.safe_load(f"key: {text}  # comment") == {"key": value}
    assert "\n" not in text
    assert not {"\x1b", "\x9b", "\u202e", "\U000e0041", "\ufeff"} & set(text)


def test_a_document_is_read_back_in_its_order() -> None:
    shared = ["same"]
    document = {"z": VALUES, "a": {"x": shared, "y": shared}}
    text = yaml_document(document)
    assert yaml.safe_load(text) == document
    assert text.startswith("z:")
    assert "&" not in text
