"""Whatever bytes stand in a deployment's files: they are read, or refused with problems that people can read.

The files are the quickstart's and a `.env`, with bytes changed, taken away, doubled and put in; and YAML of any shape
that has our keys in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pallas_common.problems import MOST_PROBLEMS, ConfigurationError, Problem
from pallas_common.secrets.values import secrets_in
from pallas_registry.deployment import agent_entry, agents_file, gateway_section
from pallas_registry.deployment.agent_entry import Look
from pallas_registry.deployment.agents_file import parse_deployment
from pallas_registry.deployment.model import Deployment
from pallas_registry.environment.dotenv import parse_dotenv, worker_environment
from pallas_registry.fastagent_files.literal_keys import literal_keys
from pallas_registry.fastagent_files.models import parse_model_settings
from pallas_registry.reading.nodes import compose, plain
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

QUICKSTART = ROOT / "examples" / "quickstart"
AGENTS = (QUICKSTART / "agents.yaml").read_bytes()
SETTINGS = (QUICKSTART / "fastagent.config.yaml").read_bytes()
DOTENV = b"""\
# keys
export OPENAI_API_KEY=sk-not-a-real-one # theirs
QUOTED="two\\nlines"
SINGLE='it\'s'
EMPTY=
ALONE
MANY="one
two"
"""
PATH = Path("file")

SPECIAL = [
    *(
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xed\xa0\xbd",
        b"\r",
        b"\n",
        b"\t",
        b"\x1b[2J",
        b"\xe2\x80\xae",
    ),
    *(
        b"'",
        b'"',
        b"[" * 70,
        b"{a: ",
        b"- " * 70,
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!python/object:x ",
        b"? ",
        b"---\n",
        b"%YAML 9.9\n",
    ),
    *(
        b": ",
        b"#",
        b"|\n",
        b">-\n",
        b"\\",
        b"\\U00110000",
        b"9" * 400,
        b"1e999",
        b".nan",
        b"-1",
        b"~",
        b"=",
        b" " * 300,
    ),
]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """The data after a few changes at random places."""
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        new = draw(st.sampled_from(SPECIAL) | st.binary(max_size=4) | st.just(data[place : place + 40]))
        data = data[:place] + new + data[place + length :]
    return data


def or_problems[T](read: Callable[[], T]) -> T | None:
    """What `read` gives; None where it refuses, with problems that a person can read and act upon."""
    try:
        return read()
    except ConfigurationError as error:
        problems = error.problems
    assert 0 < len(problems) <= MOST_PROBLEMS + 1
    for problem in problems:
        assert problem.remedy
        assert str(problem).isprintable()
        assert len(str(problem)) < 1_000
    return None


@given(mutated(AGENTS))
@example(AGENTS)
def test_agents_yaml(data: bytes) -> None:
    deployment = or_problems(lambda: parse_deployment(data, PATH, Look(lambda _: True, lambda _: None)))
    assert deployment is None or isinstance(deployment, Deployment)


@given(mutated(SETTINGS))
@example(SETTINGS)
def test_fastagent_config_yaml(data: bytes) -> None:
    or_problems(lambda: parse_model_settings(data, PATH, {"NAME": "value"}))
    if (root := or_problems(lambda: compose(data, "file"))) is not None:
        list(secrets_in(plain(root)))
        assert all(isinstance(found, Problem) for found in literal_keys(root, "file", "move it"))


@given(mutated(DOTENV))
@example(DOTENV)
def test_dotenv(data: bytes) -> None:
    values = or_problems(lambda: parse_dotenv(data, "file", {}))
    for name, value in worker_environment(values or {}, {}).items():
        assert name
        assert "=" not in name
        assert "\0" not in name + value
        (name + value).encode()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.text(max_size=6),
    st.sampled_from(
        [
            *("a", "b", "none", "always", "512MiB", "https://example.com/", "agents.a", "0.0.0.0", "${A}"),
            *("sqlite:a", "postgresql://a:b@c/d", "run:agents:a", "behind", "https://[::1", "http://a:b@c"),
        ]
    ),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(*agents_file.KEYS, *agent_entry.KEYS, "a", "b"),
                    *(*gateway_section.KEYS, *gateway_section.LIMIT_KEYS, *gateway_section.OIDC_KEYS),
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(agents_file.KEYS), TREES))
def test_any_tree_with_our_keys(tree: dict[str, object]) -> None:
    data = yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")
    or_problems(lambda: parse_deployment(data, PATH, Look(lambda _: True, lambda _: None)))
    or_problems(lambda: parse_model_settings(data, PATH, {}))
