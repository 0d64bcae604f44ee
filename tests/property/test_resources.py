"""Whatever bytes come as resources: they are read, or refused with place and remedy; what is read can be written.

Bad ones are made from good ones of every kind: a value of another type, a key that is not known, one that is missing,
something too deep or too large, at any place. Texts are any that YAML and JSON can say.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from pallas_registry.resources.deploy import deploy
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.kinds.table import TABLE
from pallas_registry.resources.model import KINDS, ResourceSet
from pallas_registry.resources.text import to_document, to_file_text, to_text
from support.data.agents_text import parse
from support.data.resource_specs import FREE, SPECS, WRONG, at, places
from support.data.resource_texts import FILE, digest, digest_of, document, resource, text_of

if TYPE_CHECKING:
    from pallas_common.problems import Problem

BASE = parse("name: demo\nagents: {old: {module: m.old, port: 9001}}\n")


def test_two_hundred_bad_resources_are_refused_with_place_and_remedy() -> None:
    refused = 0
    for kind, spec in SPECS:
        lines = json.dumps(document(kind, "x", spec), indent=1).count("\n") + 1
        for path in places(spec):
            for name, wrong in WRONG.items():
                if name == "huge" and len(path) > 1:
                    continue
                changed = copy.deepcopy({"spec": spec})
                at(changed, ("spec", *path)[:-1])[("spec", *path)[-1]] = wrong
                text = text_of(document(kind, "x", changed["spec"]))
                found, problems, _ = read_resources(text, FILE)
                assert bool(found) != bool(problems)
                if problems:
                    check(problems, lines + (200 if name in ("deep", "huge", "unknown", "nested") else 10))
                    refused += 1
                else:
                    read_again(text)
            if isinstance(at(spec, path), dict):
                refused += unknown_and_missing(kind, spec, path)
    assert refused > 500


def unknown_and_missing(kind: str, spec: dict[str, Any], path: tuple[str | int, ...]) -> int:
    if path and path[-1] in FREE:
        return 0
    changed = copy.deepcopy(spec)
    at(changed, path)["un known"] = "x"
    problems = read_resources(text_of(document(kind, "x", changed)), FILE).problems
    if path not in (("data",), ("run", "env"), ("headers",), ("env",)) or problems:
        check(problems, 1000)
        whole = path[:1] in (("data",), ("defaultParams",))  # told as one value
        assert whole or any("un known" in problem.field for problem in problems)
    for key in at(spec, path):
        changed = copy.deepcopy(spec)
        del at(changed, path)[key]
        read_again(text_of(document(kind, "x", changed)))
    return 1


def check(problems: tuple[Problem, ...], lines: int) -> None:
    assert problems
    for problem in problems:
        assert problem.file == FILE
        assert problem.line is None or 1 <= problem.line <= lines
        assert problem.message
        assert problem.remedy
        text = str(problem)
        assert "\n" not in text
        assert len(text) < 2000


def read_again(text: bytes) -> None:
    """What is good stays what it is by being written, in each of the ways; what is bad is said."""
    found, problems, _ = read_resources(text, FILE)
    for each in found:
        again = read_resources(to_file_text(each).encode(), FILE)
        assert again.resources == (each,)
        assert again.resources[0].resource_version == each.resource_version
        if each.id.kind != "secret":
            shown = to_document(each, digest=digest_of)
            assert read_resources(to_text(shown).encode(), FILE).resources == (each,)
            assert read_resources(json.dumps(shown).encode(), FILE).resources == (each,)
    if problems:
        check(problems, 10_000)
    deployed = deploy(BASE, ResourceSet(found), digest, lambda _: False)
    assert {"old"} <= set(deployed.deployment.agents)
    for told in deployed.problems.values():
        check(told, 10_000)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([key for rules in TABLE.values() for key in rules.keys] + ["name", "key", "data", "digest"])
        | st.text(max_size=3),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.sampled_from(KINDS), st.text(max_size=4) | st.just("x"), TREES, TREES)
def test_documents_of_any_shape(kind: str, name: str, spec: Any, metadata: Any) -> None:
    whole = document(kind, name, spec)
    if isinstance(metadata, dict):
        whole["metadata"] |= metadata
    read_again(json.dumps(whole).encode())
    read_again(json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    read_again(json.dumps([spec, {"items": spec}, {"items": [whole, metadata]}][len(name) % 3]).encode())


GOOD = b"---\n".join(to_file_text(resource(kind, "x", spec)).encode() for kind, spec in SPECS)
PIECES = [
    *(b"\0", b"\xff", b"\t", b"'", b'"', b"[" * 70, b"{a: ", b"- " * 70, b"&a ", b"*a", b"<<: *a", b"? ", b"9" * 400),
    *(b"!!python/object:x ", b"---\n", b"...\n", b"%YAML 9.9\n", b": ", b"#", b"|\n", b"\\ud800", b"\xe2\x80\xa8"),
]  # fmt: skip
CHANGES = st.tuples(
    st.integers(0, len(GOOD)), st.integers(0, 30), st.sampled_from(PIECES) | st.binary(max_size=4)
)


@given(st.lists(CHANGES, max_size=4))
def test_bytes_of_any_kind(changes: list[tuple[int, int, bytes]]) -> None:
    text = GOOD
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    read_again(text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@example("a\r\nb")
@example(" a\nb")
@example("\ta\nb\n\n")
@example("\n")
@example("\n a")
@example("a \nb ")
@example("a\u2028b\n\x85")
@example("---\n...\n")
@example("1e5")
@example("=")
@example("<<")
@given(TEXTS | st.text("\n \t'\"|>-:#a", min_size=1, max_size=12))
def test_any_text_comes_back(text: str) -> None:
    spec = {"systemPrompt": text, "extras": {"a": [text]}}
    whole = [document("agent", "x", spec), document("secret", "x", {"data": {"A": text}})]
    found, problems, _ = read_resources(text_of(*whole), FILE)
    assume(not problems)
    assert found[0].spec == spec
    assert found[1].spec == {"data": {"A": text}}
    for each in found:
        assert read_resources(to_file_text(each).encode(), FILE).resources == (each,)
