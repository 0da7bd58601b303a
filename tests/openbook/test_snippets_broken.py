"""Fences that MkDocs breaks are found on the right line, and nothing else is."""

import pytest

from openbook.render import Renderer
from openbook.snippets.collect import collect

CONFIG = """site_name: Test
markdown_extensions: [admonition, attr_list, def_list, footnotes, md_in_html, pymdownx.highlight,
  pymdownx.inlinehilite, pymdownx.snippets, pymdownx.superfences]
"""
GOOD = "```bash\nls\n```\n"


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    (root / "mkdocs.yml").write_text(CONFIG)
    (root / "bad.md").write_text("included\n\n```python notest\nx\n```\n")
    return Renderer(root / "mkdocs.yml")


def findings(renderer, text):
    page = renderer.docs / "index.md"
    page.write_text(text)
    return [(found.rule, found.line) for found in collect(renderer, page, "index.md").findings]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- ```python\n  x = 1\n  ```\n", [1]),
        ("1. ```python\n   x = 1\n   ```\n", [1]),
        ("text\n\n```python notest\nx = 1\n```\n", [3]),
        ("```python title=x.py\nx = 1\n```\n", [1]),
        ('```python test="skip"\nx = 1\n```\n', [1]),
        ("```python,no_run\nx = 1\n```\n", [1]),
        ("```python {check=run\nx = 1\n```\n", [1]),
        ("---\ntitle: x\n---\n\n```python\nx = 1\n", [5]),
        ("```python\nx = 1\n\nSome text.\n", [1]),
        ("!!! note\n\n    ```python\n    x = 1\n\nSome text.\n", [3]),
        ("> ```python\n> x = 1\n\nSome text.\n", [1]),
        ("~~~python\nx = 1\n", [1]),
        ("a[^1]\n\n[^1]: ```python\n    x\n    ```\n", [3]),
        ("Text\n```\n", [2]),
        ('--8<-- "bad.md"\n', [1]),
    ],
)
def test_broken_fences(renderer, text, lines):
    assert findings(renderer, text) == [("broken-fence", line) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "<!--\n```python notest\nx\n```\n-->\n",
        "Text:\n\n    ```python notest\n    x\n    ```\n",
        "````markdown\n```python notest\nx\n```\n````\n",
        "Write `` ``` `` here.\n\n``` `` ``` starts a line.\n\n" + GOOD,
        "<pre>\n```text\nx\n```\n</pre>\n",
        "~~~markdown\n```python\nx\n```\n~~~\n",
        "````markdown\n```python\nx\n```\n````\n",
    ],
)
def test_sound_fences(renderer, text):
    assert findings(renderer, text) == []


def test_a_broken_fence_does_not_hide_the_next(renderer):
    text = "```python notest\nx\n```\n\ntext\n\n" + GOOD
    # The closing line opens a fence that swallows the text: one mistake, told once.
    assert findings(renderer, text) == [("broken-fence", 1)]
    assert findings(renderer, "- ```python\n  x\n  ```\n\nText.\n\n" + GOOD + "\n```text x\n") == [
        ("broken-fence", 1),
        ("broken-fence", 11),
    ]


def test_a_forgotten_closing_line(renderer):
    assert findings(renderer, "```python\nx = 1\n\nText.\n\n" + GOOD) == [("broken-fence", 6)]


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ("python notest", "cannot read 'python notest'"),
        ("python {check=run} more", "cannot read"),
        ("python {check=run", "cannot read"),
        ('python test="skip"', "cannot read"),
        ("python", "never closed"),
        ('python title="x"', "never closed"),
        ("python {check=run}", "never closed"),
        ("", "never closed"),
    ],
)
def test_what_the_message_says(renderer, info, said):
    page = renderer.docs / "index.md"
    page.write_text(f"```{info}\nx = 1\n")
    (found,) = collect(renderer, page, "index.md").findings
    assert said in found.message
    assert found.hint
