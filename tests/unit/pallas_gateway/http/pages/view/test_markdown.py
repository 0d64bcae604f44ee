from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_gateway.http.pages.view.markdown import LONGEST, SHOWN, markdown, split

SOURCE = """# Title

Some *words* and `code`.
Another line.

- one
- two

  more of two

| a | b |
|---|---|
| 1 | 2 |

```python
def f():

    return 1
```

Last words"""


def test_markdown_is_rendered() -> None:
    html = markdown(SOURCE)
    for found in (
        "<h3>Title</h3>",
        "<em>words</em>",
        "<code>code</code>.<br>",
        "<ul>",
        "<td>2</td>",
        "<pre><code>def f():\n\n    return 1\n</code></pre>",
        "<p>Last words</p>",
    ):
        assert found in html


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt&#58;alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "<a href='javascript:x'>y</a>",
        "![x](javascript:alert(1))",
        '```"onmouseover=alert(1)\n</code><script>\n```',
        '[x](https://a/"onclick="alert(1))',
        "<svg/onload=alert(1)>",
        "<style>*{display:none}</style>",
        "<iframe src=//evil></iframe>",
        "<form action=//evil><input name=csrf>",
    ],
)
def test_nothing_that_runs_is_left(source: str) -> None:
    html = markdown(source)
    tags = set(re.findall(r"<([a-z0-9]+)", html))
    assert tags <= {"p", "a", "pre", "code", "br"}
    for attribute in re.findall(r"<[^>]*>", html):
        assert not re.search(r"\bon\w+=", attribute)
        assert "javascript:" not in attribute
        assert "vbscript:" not in attribute
        assert "data:" not in attribute


def test_an_image_is_a_link_and_not_fetched() -> None:
    html = markdown("![a cat](https://tracker.example/cat.png) and ![](https://b.example/x.png)")
    assert "<img" not in html
    assert '<a href="https://tracker.example/cat.png"' in html
    assert ">a cat</a>" in html
    assert ">https://b.example/x.png</a>" in html


def test_a_link_opens_elsewhere_and_tells_nothing() -> None:
    html = markdown("[x](https://example.org/a)")
    assert 'target="_blank"' in html
    assert 'rel="noopener noreferrer nofollow"' in html


def test_a_long_text_is_shown_as_it_is() -> None:
    html = markdown("*a* " * (LONGEST // 2))
    assert "<em>" not in html
    assert html.count("*a*") == LONGEST // 2
    assert "…" not in html
    html = markdown("\U0001f600" * (SHOWN + 7))
    assert len(html) < SHOWN + 200
    assert "… 7 more characters" in html


@pytest.mark.parametrize("depth", [200, 5000])
@pytest.mark.parametrize("mark", ["> ", "- ", "[", "*", "![", "`", "1. "])
def test_depth_is_no_way_to_break_it(mark: str, depth: int) -> None:
    assert markdown(mark * depth + "x")


def test_what_is_not_last_is_settled() -> None:
    parts = split(SOURCE)
    assert parts.open == "Last words"
    assert "".join(parts.settled) + parts.open == SOURCE
    assert [each.split()[0] for each in parts.settled] == ["#", "Some", "-", "|", "```python"]


def test_parts_rendered_alone_are_the_whole() -> None:
    parts = split(SOURCE)
    alone = "".join(markdown(each) for each in (*parts.settled, parts.open))
    assert alone.split() == markdown(SOURCE).split()


@given(st.text(alphabet=st.sampled_from("ab \n\r\t#*`->|[]()1.\u2028\x85\x0c"), max_size=200))
def test_nothing_is_lost_in_the_parts(text: str) -> None:
    parts = split(text)
    whole = "".join(parts.settled) + parts.open
    assert whole == text or whole == text.replace("\r\n", "\n").replace("\r", "\n")
