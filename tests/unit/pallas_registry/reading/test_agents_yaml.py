"""`agents.yaml` as YAML: what is no deployment, what is not YAML, and what only a fuzzer writes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pallas_registry.fastagent_files.literal_keys import literal_keys
from pallas_registry.reading import nodes as yaml_nodes
from support.data.agents_text import parse, problems, problems_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("name: demo\nagents:\n", 2, "agents: is empty, not a mapping"),
        ("name: demo\nagents: [a]\n", 2, "agents: is a list, not a mapping"),
        ("name: demo\nagents:\n  a:\n", 3, "agents.a: is empty, not a mapping"),
        ("name: demo\nagents:\n  a: !x {}\n", 3, "agents.a: is tagged '!x', not a mapping"),
        ("- a\n", 1, "is a list, not a mapping"),
        ("demo\n", 1, "is text, not a mapping"),
        ("", None, "is empty; write at least `name:`, and your agents below `agents:`"),
        ("# nothing\n", None, "is empty"),
    ],
)
def test_what_is_no_deployment(text: str, line: int | None, part: str) -> None:
    [problem] = problems(text)
    assert problem.line == line
    assert part in str(problem)


@pytest.mark.parametrize("text", ["name: demo\n", "name: demo\nagents: {}\n"])
def test_there_may_be_none_but_declared_agents(text: str) -> None:
    assert parse(text).agents == {}


@pytest.mark.parametrize(
    ("data", "line", "part"),
    [
        (b"name: demo\n\tagents: x\n", 2, "indent with spaces, not with tabs"),
        (b"name: [demo\n", 2, "close the quote or the bracket"),
        (b"name: 'demo\n", 2, "close the quote or the bracket"),
        (b"name: a: b\n", 1, "put a value that contains a colon in quotes"),
        (b"name: @a\n", 1, "put the value in quotes"),
        (b"name: *a\n", 1, "define the anchor"),
        (b"a: &x 1\nb: &x 2\n", 2, "give each anchor a name of its own"),
        (b"a: 1\n---\nb: 2\n", 2, "keep one document"),
        (b"- a\nb: c\n", 2, "check the indentation"),
        (b"name: a\nfoo\nbar: 1\n", 3, "write the line as `key: value`"),
        (b"name: a\n\xff: b\n", 2, "the byte 0xff is not UTF-8"),
        ("name: a\n".encode("utf-16"), 1, "is UTF-16"),
        ("name: a\n".encode("utf-32"), 1, "is UTF-32"),
        (b"name: a\nb: \x01\n", 2, "U+0001 is not allowed"),
        (b"name: a\n\nb: \0\n", 3, "holds a NUL character"),
        (b"name: a\nb: \xed\xa0\xbd\n", 2, "the byte 0xed is not UTF-8"),
        (b'name: "\\UFFFFFFFF"\n', 1, "check the escapes"),
        (b'name: "\\q"\n', 1, "check the escapes"),
        (b"name: {a: b\n", 2, "close the quote or the bracket"),
        (b"a: [-1", 1, "close the quote or the bracket"),
        (b"%YAML " + b"9" * 5000 + b".1\n---\na", 1, "not valid YAML"),
        (b"name: a\nb: " + b"[" * 50_000, 2, "nests too deeply"),
        (b"- " * 50_000, 1, "nests too deeply"),
        (b"{a: " * 50_000, 1, "nests too deeply"),
        (b"a:\n - &a {b: [c]}\n" + b" - &a {b: [c]}\n", 3, "give each anchor a name of its own"),
        (b"name: a\n" + b"b: [" + b"a," * 50_000 + b"]\n", 2, "holds more than 50000 values"),
        (b"# " + b"x" * (1 << 20), None, "more than any real configuration"),
    ],
)
def test_what_is_not_yaml(data: bytes, line: int | None, part: str) -> None:
    [problem] = problems(data)
    assert problem.line == line
    assert part in str(problem)


def test_bombs_of_aliases_and_merges_end_soon() -> None:
    rows = ["a0: &a0 {k0: v}"]
    rows += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], k{n}: v}}" for n in range(1, 40)]
    found = problems("\n".join(["name: demo", *rows, "agents: {x: {<<: *a39, module: m, port: 1}}"]))
    assert ["holds more than" in problem.message for problem in found] == [True]
    rows = [*rows[:1], *(f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 100))]
    found = problems("\n".join(["name: demo", *rows, "agents: {x: {<<: *a99, module: m, port: 1}}"]))
    assert ["nests too deeply" in problem.message for problem in found] == [True]
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else 'lol')}]" for n in range(40)]
    found = problems("\n".join(["name: demo", *rows]))
    assert ["holds more than" in problem.message for problem in found] == [True]


def test_what_many_aliases_lead_to_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[int] = Counter()
    children = yaml_nodes._children

    def counted(node: yaml.Node) -> Iterator[tuple[yaml.Node, int, str]]:
        looks[id(node)] += 1
        return children(node)

    monkeypatch.setattr(yaml_nodes, "_children", counted)
    problems(f"name: demo\na: &a [{'b, ' * 50}]\nc: [{'*a, ' * 50}]\n")
    assert max(looks.values()) == 2  # when its children are to be measured, and when they have been


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    assert parse(b"\xef\xbb\xbfname: demo\nagents: {a: {module: m, port: 1}}\n").name == "demo"


def test_a_mapping_that_merges_itself_is_refused() -> None:
    found = problems("name: demo\nagents:\n  a: &a\n    module: m\n    port: 1\n    <<: *a\n")
    assert [(problem.line, problem.message) for problem in found] == [(6, "merges itself")]


@pytest.mark.parametrize(
    "text", ["name: demo\nagents: &a\n  x: *a\n", "name: demo\nx: &a [b]\ny: &b\n  - [*b]\n"]
)
def test_a_node_that_holds_itself_is_refused(text: str) -> None:
    found = problems(text)
    assert [(problem.line, problem.message) for problem in found] == [(text.count("\n"), "holds itself")]


@pytest.mark.parametrize(
    "text",
    [
        "name: d\nagents: {}\n" + "".join(f"unknown{n}: 1\n" for n in range(20_000)),
        "name: d\nagents:\n" + "".join(f" a{n}: {{module: m, port: 1}}\n" for n in range(6_000)),
        f"name: d\nagents:\n a: {{depends_on: [{','.join(map(str, range(40_000)))}]}}\n",
        "name: d\nagents:\n" + "".join(f" a{n}: {{depends_on: [b{n}]}}\n" for n in range(8_000)),
        "name: d\nagents:\n" + "".join(f" a{n}: {{depends_on: [a{n ^ 1}]}}\n" for n in range(8_000)),
        "name: " + "x" * 1_000_000,
        "x" * 1_000_000 + ": 1",
        "host: " + "a." * 500_000,
        "version: " + "1" * 1_000_000,
        f"agents: {{a: {{module: {'1.' * 160_000}, port: {'1.' * 160_000}, start_timeout: {'1.' * 160_000}}}}}",
        f"agents: {{a: {{icon: {'a/' * 160_000}, python: {'a/' * 160_000}, restart: {'a/' * 160_000}}}}}",
    ],
)
def test_a_broken_file_of_any_size_has_few_and_short_problems(text: str) -> None:
    found = problems(text)
    assert len(found) <= 101
    assert max(len(str(problem)) for problem in found) < 600


def test_a_key_that_is_no_text_has_no_name() -> None:
    root = yaml_nodes.compose(b"a:\n  ? [b, {c: d}]\n  : [sk-abcdefgh]\n", "f")
    assert root is not None
    assert yaml_nodes.plain(root) == {"a": {"?": ["sk-abcdefgh"]}}
    [found] = literal_keys(root, "f", "move it")
    assert (found.line, found.field) == (3, "a.?[0]")


MARKS = [*"[]{}:,-?&*!|>'\"%@`#\n\t ~", "  ", "\n  ", ": ", "- ", "<<: ", "*a", "&a ", "!!str ", "---\n"]
NAMES = [
    "name",
    "agents",
    "port",
    "module",
    "depends_on",
    "env",
    "python",
    "a",
    "1",
    "0x1",
    "1:30",
    ".inf",
    "true",
]
WORDS = st.lists(st.sampled_from([*MARKS, *NAMES])).map(lambda words: "".join(words).encode())
ANY_TEXT = st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(st.one_of(st.binary(), ANY_TEXT, WORDS))
@example(b"%YAML " + b"9" * 5000 + b".1\n---\na")
@example(b"a: &a [*a]")
@example(b"? {a: b}\n: c")
def test_the_reader_raises_nothing_else(data: bytes) -> None:
    for problem in problems_or_none(data):
        assert str(problem).isprintable()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.text(max_size=3), max_size=2),
)
AGENT_KEYS = [
    "module",
    "port",
    "title",
    "depends_on",
    "env",
    "icon",
    "python",
    "restart",
    "start_timeout",
    "<<",
]


@given(
    st.dictionaries(
        st.sampled_from(["name", "version", "host", "namespace", "registry_port", "bind", "agents", "x"]),
        VALUES
        | st.dictionaries(
            st.text(max_size=4),
            VALUES | st.dictionaries(st.sampled_from(AGENT_KEYS), VALUES, max_size=5),
            max_size=3,
        ),
    )
)
def test_the_reader_takes_any_shape(document: dict[str, object]) -> None:
    data = yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass")
    problems_or_none(data)


def test_what_aliases_share_is_judged_once() -> None:
    found = problems("name: d\nagents:\n  a: &a {module: m, port: 1, port: 2}\n  b: {<<: *a, port: 3}\n")
    assert [(problem.line, problem.field) for problem in found] == [(3, "agents.a.port")]
