"""What surrounds a spec: documents, lists of them, metadata, names; places of what is wrong."""

from __future__ import annotations

import json

import pytest

from pallas_registry.resources.documents import MOST_DOCUMENTS, MOST_PROBLEMS, read_resources
from pallas_registry.resources.model import Metadata, ResourceId
from support.data.resource_texts import SAMPLE, document, refusals, resource, text_of


def said(text: str | bytes) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    return [str(problem) for problem in read_resources(data, "f.yaml").problems]


def test_a_document_of_the_other_system_is_read_as_it_stands() -> None:
    (found,), problems, _ = read_resources(SAMPLE.encode(), "f.yaml")
    assert problems == ()
    assert found.id == ResourceId("agent", "deployer")
    assert found.spec == {
        "description": "I help you deploy code",
        "llm": "qwen3-thinking",
        "project": "mcpctl-dev",
        "systemPrompt": "You are a deployment assistant for mcpctl. Always check fulldeploy.sh\n"
        "and the k8s context before suggesting actions.\n",
        "defaultParams": {"temperature": 0.2, "top_p": 0.9, "max_tokens": 4096, "stop": ["</deploy>"]},
    }
    assert (found.line("spec.llm"), found.line("spec.models[3]"), found.line("")) == (6, 4, 1)


def test_short_and_long_forms_say_the_same() -> None:
    short = resource("agent", "a", {"llm": "q", "servers": ["s"], "tools": ["*"]})
    long = resource(
        "agent",
        "a",
        {
            "llm": {"name": "q"},
            "servers": [{"name": "s"}],
            "tools": ["*", "*"],
            "maxIterations": 12,
            "models": [],
            "run": {"start": "on-demand"},
            "extras": {},
            "defaultParams": {},
        },
    )
    assert short == long
    assert short.resource_version == long.resource_version


@pytest.mark.parametrize("kind", ["List", None])
def test_a_list_is_read_as_what_is_in_it(kind: str | None) -> None:
    items = [document("secret", "k", {"data": {"A": "b"}}), document("llm", "q", {"type": "openai"})]
    listed = {"apiVersion": "v1" if kind else "pallas/v1", "kind": kind, "items": items}
    if kind is None:
        del listed["kind"], listed["apiVersion"]
    else:
        listed["apiVersion"] = "pallas/v1"
    found, problems, _ = read_resources(json.dumps(listed).encode(), "f")
    assert [each.id.name for each in found] == ["k"]
    assert [problem.field for problem in problems] == ["items[1].spec.model"]


def test_what_pallas_notes_itself_is_read_and_ignored_where_it_is_no_note() -> None:
    kept = {
        "uid": "u-1",
        "owner": "ann",
        "version": 3,
        "createdAt": "2026-01-02T03:04:05Z",
        "updatedAt": "later",
    }
    one = document("secret", "k", {"data": {"A": "b"}}, **kept, resourceVersion="abc")
    two = document("secret", "l", {"data": {"A": "b"}}, uid=None, version="x")
    found, problems, versions = read_resources(text_of({**one, "status": {"state": ["any"]}}, two), "f")
    assert not problems
    assert found[0].metadata == Metadata(
        uid="u-1", owner="ann", version=3, created_at="2026-01-02T03:04:05Z", updated_at="later"
    )
    assert found[1].metadata is None
    assert versions == {ResourceId("secret", "k"): "abc"}


def test_unquoted_times_are_read_as_they_are_written() -> None:
    assert said(HEAD.replace("name: q", "name: q, createdAt: 2026-01-02T03:04:05Z") + SPEC) == []


HEAD = "apiVersion: pallas/v1\nkind: llm\nmetadata: {name: q}\n"
SPEC = "spec: {type: openai, model: m}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello\n", "f.yaml:1: is text, not a mapping; write"),
        ("- a\n", "f.yaml:1: is a list, not a mapping"),
        ("{}\n", "f.yaml:1: apiVersion: is missing; write `apiVersion: pallas/v1`"),
        (HEAD + SPEC + HEAD, "f.yaml:5: apiVersion: is given twice, first on line 1"),
        (HEAD + SPEC + "---\n" + HEAD + SPEC, "f.yaml:8: metadata: llm/q is there twice, first on line 1"),
        (HEAD.replace("pallas/v1", "v2") + SPEC, "f.yaml:1: apiVersion: 'v2' is not known; write `pallas/v1`"),
        (HEAD.replace("llm", "lm") + SPEC, "f.yaml:2: kind: 'lm' is not a known value; did you mean `llm`?"),
        (HEAD.replace("llm", "agents") + SPEC, "f.yaml:2: kind: 'agents' is not a known value; did you mean"),
        (HEAD, "f.yaml:1: spec: is missing; say what the resource is"),
        (HEAD + "spec:\n", "f.yaml:4: spec: is empty, not a mapping"),
        (HEAD + "spec: [a]\n", "f.yaml:4: spec: is a list, not a mapping"),
        (HEAD + SPEC + "stats: {}\n", "f.yaml:5: stats: is not a known key; did you mean `status`?"),
        (HEAD.replace("{name: q}", "{}") + SPEC, "f.yaml:3: metadata.name: is missing; name the resource"),
        (HEAD.replace("{name: q}", "{name: 4}") + SPEC, "f.yaml:3: metadata.name: is a whole number, not text"),
        (HEAD.replace("name: q", "name: q, nmae: r") + SPEC, "metadata.nmae: is not a known key; did you mean `name`?"),
        (HEAD.replace("name: q", "name: q, uid: [1]") + SPEC, "f.yaml:3: metadata.uid: is a list, not a text"),
        (HEAD.replace("name: q", f"name: q, owner: {'o' * 300}") + SPEC, "metadata.owner: has 300 characters"),
        ("kind: List\n", "f.yaml:1: items: is missing; list the resources there"),
        ("items: {}\n", "f.yaml:1: items: is a mapping, not a list"),
        ("items: [1]\n", "f.yaml:1: items[0]: is a whole number, not a mapping"),
        ("items: []\nspec: {}\n", "f.yaml:2: spec: is not a known key"),
        (HEAD + "spec: {type: openai, model: 'm}\n", "not valid YAML"),
        (b"\xff", "f.yaml:1: the byte 0xff is not UTF-8"),
        ("a: " + "[" * 80, "nests too deeply"),
        ("a: " + "[1," * 50_001, "nests too deeply"),
        ("[" + "1," * 50_001 + "]", "holds more than 50000 values"),
        ("a: &a [1]\nb: &b [*a, *a]\n" + "".join(
            f"c{n}: &c{n} [{','.join([f'*c{n - 1}' if n else '*b'] * 9)}]\n" for n in range(9)
        ), "holds more than 50000 values"),
        ("a: &a [*a]\n", "f.yaml:1: holds itself"),
        ("--- {}\n" * (MOST_DOCUMENTS + 1), f"holds more than {MOST_DOCUMENTS} documents; split the file"),
        ("a" * ((1 << 20) + 1), "has 1048577 bytes"),
    ],
    ids=range(30),
)  # fmt: skip
def test_what_is_no_resource(text: str | bytes, problem: str) -> None:
    found = said(text)
    assert any(problem in each for each in found), found
    assert all("; " in each for each in found)


def test_the_first_of_two_stays_and_good_ones_are_told_beside_bad_ones() -> None:
    found, problems, _ = read_resources((HEAD + SPEC + "---\n" + HEAD + SPEC + "---\n- 1\n").encode(), "f")
    assert ([each.line("") for each in found], len(problems)) == ([1], 2)


def test_lists_of_lists_have_no_more_resources_than_documents() -> None:
    lists = [{"items": [document("project", f"p{n}-{m}", {}) for n in range(1500)]} for m in range(2)]
    (told,) = said("\n---\n".join(map(json.dumps, lists)))
    assert told == f"f.yaml:3: holds more than {MOST_DOCUMENTS} resources; split the file"


def test_documents_that_are_empty_are_passed_over() -> None:
    assert read_resources(b"", "f") == ((), (), {})
    assert read_resources(b"# nothing\n---\n---\nnull\n---\n~\n", "f") == ((), (), {})


@pytest.mark.parametrize(
    ("kind", "name", "part"),
    [
        ("agent", "a__b", "has two underscores"),
        ("agent", "acme.helper", "`<tenant>.<name>` is reserved"),
        ("agent", ".", "has a dot"),
        ("agent", "1st", "cannot be the name of a tool"),
        ("agent", "send_message", "every agent has"),
        ("agent", "a" * 65, "cannot be the name"),
        ("agent", "../x", "has a dot"),
        ("agent", "a/b", "cannot be the name"),
        ("llm", "a/b", "is no name"),
        ("llm", "..", "is no name"),
        ("llm", ".hidden", "is no name"),
        ("llm", "a__b", "has two underscores"),
        ("secret", "a.b", "has a dot"),
        ("secret", "a\nb", "is no name"),
        ("project", "", "is no name"),
        ("server", "agent-deployer", "is reserved"),
        ("server", "Agent-X", "is reserved"),
        ("server", "s_", "ends with an underscore"),
    ],
)
def test_names(kind: str, name: str, part: str) -> None:
    problems = read_resources(text_of(document(kind, name, {})), "f").problems
    named = [problem for problem in problems if problem.field == "metadata.name"]
    assert len(named) == 1
    assert part in named[0].message
    assert named[0].remedy


def test_llms_may_have_dots() -> None:
    assert resource("llm", "gpt-4.1", {"type": "openai", "model": "m"}).id.name == "gpt-4.1"


def test_characters_beyond_the_first_plane_as_json_writes_them() -> None:
    assert json.dumps("\U0001f600") == '"\\ud83d\\ude00"'
    prompt = 'smile \U0001f600, and \\ud83d\\ude00, "quoted" \\'
    assert resource("agent", "a", {"systemPrompt": prompt}).spec["systemPrompt"] == prompt


def test_a_flood_of_problems_ends() -> None:
    bad = document("llm", "q", {"type": 1, "model": 2, "url": 3})
    problems = read_resources(json.dumps({"items": [bad] * 1000}).encode(), "f").problems
    assert MOST_PROBLEMS < len(problems) < MOST_PROBLEMS + 10


def test_all_is_told_in_one_run_in_the_order_of_the_file() -> None:
    assert refusals("agent", {"llm": 1, "project": 2, "servers": 3})[0][0] == "spec.llm"
    assert len(refusals("agent", {"llm": 1, "project": 2, "servers": 3})) == 3
