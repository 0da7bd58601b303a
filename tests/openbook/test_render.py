"""The renderer sees the fences that a reader sees, and knows the lines of the page where they stand."""

import inspect

import pytest
from pymdownx.snippets import SnippetPreprocessor
from pymdownx.superfences import RE_NESTED_FENCE_START, SuperFencesBlockPreprocessor

from openbook import ROOT
from openbook.findings import Misuse
from openbook.render import Line, Renderer, aligned, attributes_of

CONFIG = """\
site_name: Test
markdown_extensions:
  [admonition, attr_list, def_list, footnotes, md_in_html, tables, pymdownx.details, pymdownx.highlight,
  pymdownx.inlinehilite, pymdownx.snippets, pymdownx.superfences, pymdownx.critic: {mode: accept},
  pymdownx.tabbed: {alternate_style: true}]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with files to include, whose one page is written anew by each test."""
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    (root / "mkdocs.yml").write_text(CONFIG)
    (root / "three.py").write_text("import os\n\nprint(1)\n")
    (root / "four.md").write_text("An included paragraph.\n\n```python\nincluded = 1\n```\n\nEnd.\n")
    (root / "parts.py").write_text("# --8<-- [start:a]\na = 1\n# --8<-- [end:a]\nb = 2\n")
    return root, Renderer(root / "mkdocs.yml")


def render(site, text, **options):
    root, renderer = site
    page = root / "docs" / "index.md"
    page.write_bytes(text if isinstance(text, bytes) else text.encode())
    return renderer.page(page, "index.md", **options)


# Name: the page, and (first line, last line, language, source) of each fence.
SEEN = {
    "plain": ("```python\nx = 1\n```", [(1, 3, "python", "x = 1")]),
    "empty": ("```python\n```", [(1, 2, "python", "")]),
    "alias": ("text\n\n```py\nx = 1\n```", [(3, 5, "py", "x = 1")]),
    "upper case": ("```Python\nx = 1\n```", [(1, 3, "Python", "x = 1")]),
    "space before the language": ("``` python\nx = 1\n```", [(1, 3, "python", "x = 1")]),
    "trailing blanks": ("```python   \nx = 1\n```   ", [(1, 3, "python", "x = 1")]),
    "options": ('```python title="x.py" hl_lines="1"\nx = 1\n```', [(1, 3, "python", "x = 1")]),
    "line numbers": ('```python linenums="1"\nx = 1\n```', [(1, 3, "python", "x = 1")]),
    "braces": ('```python {check=run title="x.py"}\nx = 1\n```', [(1, 3, "python", "x = 1")]),
    "class": ("```python { .annotate }\nx = 1\n```", [(1, 3, "python", "x = 1")]),
    "language as a class": ("``` { .python .annotate }\nx = 1\n```", [(1, 3, "python", "x = 1")]),
    "class and title": ('```{.python title="x.py"}\nx = 1\n```', [(1, 3, "python", "x = 1")]),
    "tilde": ("~~~python\n```\n~~~", [(1, 3, "python", "```")]),
    "four backticks": ("````python\n```\nx\n```\n````", [(1, 5, "python", "```\nx\n```")]),
    "inside md": ("````md\n```python\nx = 1\n```\n````", [(1, 5, "md", "```python\nx = 1\n```")]),
    "bullet": ("- item\n\n    ```python\n    x = 1\n    ```", [(3, 5, "python", "x = 1")]),
    "ordered, three blanks": ("1. item\n\n   ```python\n   x = 1\n   ```", [(3, 5, "python", "x = 1")]),
    "admonition": ("!!! note\n\n    ```python\n    if x:\n\n        y\n    ```", [(3, 7, "python", "if x:\n\n    y")]),
    "tab": ('=== "A"\n\n    ```bash\n    ls\n    ```', [(3, 5, "bash", "ls")]),
    "tab in admonition": (
        '!!! note\n\n    === "A"\n\n        ```bash\n        ls\n        ```',
        [(5, 7, "bash", "ls")],
    ),
    "details": ("??? question\n\n    ```bash\n    ls\n    ```", [(3, 5, "bash", "ls")]),
    "markdown in HTML": ('<details markdown="1">\n\n```bash\nls\n```\n\n</details>', [(3, 5, "bash", "ls")]),
    "blockquote": ("> ```python\n> x = 1\n>\n> y = 2\n> ```", [(1, 5, "python", "x = 1\n\ny = 2")]),
    "footnote": ("a[^1]\n\n[^1]: note\n\n    ```bash\n    ls\n    ```", [(5, 7, "bash", "ls")]),
    "definition list": ("term\n:   meaning\n\n    ```bash\n    ls\n    ```", [(4, 6, "bash", "ls")]),
    "included body": (
        '```python\n--8<-- "three.py"\n```\n\n```bash\nls\n```',
        [(1, 3, "python", "import os\n\nprint(1)\n"), (5, 7, "bash", "ls")],
    ),
    "included section": (
        '```python\n--8<-- "parts.py:a"\n```\n\n```bash\nls\n```',
        [(1, 3, "python", "a = 1"), (5, 7, "bash", "ls")],
    ),
    "included fence": (
        'text\n\n--8<-- "four.md"\n\n```bash\nls\n```',
        [(3, 3, "python", "included = 1"), (5, 7, "bash", "ls")],
    ),
    "block of includes": (
        "--8<--\nfour.md\nfour.md\n--8<--\n\n```bash\nls\n```",
        [(2, 2, "python", "included = 1"), (3, 3, "python", "included = 1"), (6, 8, "bash", "ls")],
    ),
    "escaped include": (
        '```text\n;--8<-- "three.py"\n```\n\n```bash\nls\n```',
        [(1, 3, "text", '--8<-- "three.py"'), (5, 7, "bash", "ls")],
    ),
    "comment": ("<!--\n```python\nx = 1\n```\n-->\n\n```bash\nls\n```", [(7, 9, "bash", "ls")]),
    "comment marks in a fence": (
        "```html\n<!-- a\n```\n\n```bash\nls\n```",
        [(1, 3, "html", "<!-- a"), (5, 7, "bash", "ls")],
    ),
    "indented block": ("text\n\n    ```python\n    x = 1\n    ```\n\n```bash\nls\n```", [(7, 9, "bash", "ls")]),
    "inline code": ("Write `` ```python `` there.\n\n```bash\nls\n```", [(3, 5, "bash", "ls")]),
    "CRLF": (b"text\r\n\r\n```python\r\nx = 1\r\n\r\ny = 2\r\n```\r\n", [(3, 7, "python", "x = 1\n\ny = 2")]),
    "tabs": ("- item\n\n\t```python\n\tif x:\n\t\ty\n\t```", [(3, 6, "python", "if x:\n    y")]),
    "byte order mark": ("\ufeff```python\nx = 1\n```", [(1, 3, "python", "x = 1")]),
    "front matter": ("---\ntitle: x\ncode: |\n  ```\n---\n\n\n```python\nx = 1\n```", [(8, 10, "python", "x = 1")]),
    "front matter, CRLF": (b"---\r\ntitle: x\r\n---\r\n\r\n```python\r\nx = 1\r\n```\r\n", [(5, 7, "python", "x = 1")]),
    "dashes that are no front matter": ("---\n\n```python\nx = 1\n```", [(3, 5, "python", "x = 1")]),
    "lines taken away by an extension": (
        "a {++b++} c\n\n{--\nold\n\nolder\n--}\n\n```bash\nls\n```\n\nend",
        [(9, 11, "bash", "ls")],
    ),
    "separators that end no line": ("a\x0cb\u2028c\x85d\n\n```bash\nls\n```", [(3, 5, "bash", "ls")]),
    "prose about fences": ("```python notest\nx = 1\n```", []),
    "on the marker's line": ("- ```python\n  x = 1\n  ```", []),
    "unclosed": ("```python\nx = 1", []),
}


@pytest.mark.parametrize("name", SEEN)
def test_sees_what_the_reader_sees(site, name):
    text, expected = SEEN[name]
    page = render(site, text)
    assert page.failure is None
    assert [(f.start, f.end, f.language, f.source) for f in page.fences] == expected


def test_all_cases_on_one_page(site):
    """One odd fence must not shift the others."""
    sound = {name: (text, seen) for name, (text, seen) in SEEN.items() if seen and isinstance(text, str)}
    text, expected = "", []
    for case, seen in sound.values():
        if case.startswith(("---", "\ufeff", "a[^1]", "a {++")):
            continue
        offset = text.count("\n")
        text += case + "\n\nBetween.\n\n<!-- end of lists -->\n\n"
        expected += [(start + offset, end + offset) for start, end, *_ in seen]
    assert [(f.start, f.end) for f in render(site, text).fences] == expected


def test_attributes_classes_and_info(site):
    page = render(site, "``` { .python .annotate #here check=run reason='a } b' x }\nx = 1\n```")
    fence = page.fences[0]
    assert fence.attributes == {"id": "here", "check": "run", "reason": "a } b", "x": "x"}
    assert fence.classes == ("annotate",)
    assert attributes_of("python {check=run check=skip .output}")[:2] == [("check", "run"), ("check", "skip")]
    assert attributes_of('python title="x" hl_lines="1"') == [("title", "x"), ("hl_lines", "1")]
    assert attributes_of("python") == []


def test_lines_of_the_source(site):
    fence = render(site, 'a\n\n```python\nx = 1\n--8<-- "three.py"\ny = 2\n```').fences[0]
    assert fence.source.split("\n") == ["x = 1", "import os", "", "print(1)", "", "y = 2"]
    assert fence.lines == (4, 5, 5, 5, 5, 6)
    assert [fence.line_of(n) for n in (1, 3, 6, 0, 7)] == [4, 5, 6, 3, 6]


def test_within_and_follows(site):
    page = render(
        site,
        "!!! warning\n\n    ```bash\n    rm x\n    ```\n\n\n    ```text\n    out\n    ```\n\nBetween.\n\n```text\nx\n```\n"
        "<!--\n```text\ny\n```\n-->\n```text\nz\n```\n",
    )
    assert [fence.follows for fence in page.fences] == [False, True, False, False]
    assert {"admonition", "warning"} <= page.fences[0].within
    assert "warning" not in page.fences[2].within


def test_tabs_kept_as_they_are(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("a\n\n```make\nall:\n\techo\n```\n\n```bash\nls\n```\n")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: x\nmarkdown_extensions: [pymdownx.snippets, {pymdownx.superfences: {preserve_tabs: true}}]\n"
    )
    page = Renderer(tmp_path / "mkdocs.yml").page(tmp_path / "docs" / "index.md")
    assert [(f.start, f.end, f.source) for f in page.fences] == [(3, 6, "all:\n\techo"), (8, 10, "ls")]


def test_one_renderer_many_pages(site):
    assert len(render(site, "```bash\nls\n```\n\n```bash\nls\n```").fences) == 2
    assert len(render(site, "no fence").fences) == 0
    assert len(render(site, "").fences) == 0


def test_custom_fences_are_known(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("```mermaid\ngraph\n```\n")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: x\nmarkdown_extensions:\n  - pymdownx.superfences:\n      custom_fences:\n"
        "        - {name: mermaid, class: mermaid}\n"
    )
    renderer = Renderer(tmp_path / "mkdocs.yml")
    assert renderer.own_fences == {"mermaid"}
    assert renderer.page(tmp_path / "docs" / "index.md").fences[0].language == "mermaid"


def test_a_failing_extension_leaves_the_fences(site):
    page = render(site, 'x\n\n```bash\nls\n```\n\n--8<-- "three.py"\n')
    assert page.failure is None
    root, _ = site
    config = root / "strict.yml"
    config.write_text(
        "site_name: x\nmarkdown_extensions: [pymdownx.superfences, {pymdownx.snippets: {check_paths: true}}]\n"
    )
    strict = Renderer(config)
    (root / "docs" / "index.md").write_text('--8<-- "absent.md"\n')
    page = strict.page(root / "docs" / "index.md")
    assert "absent.md" in str(page.failure)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("site_name: [", "parsing"),
        ("nothing: here\n", "site_name"),
        ("site_name: x\nmarkdown_extensions: [no.such.extension]\n", "no.such.extension"),
        ("site_name: x\nmarkdown_extensions: [admonition]\n", "superfences"),
        ("site_name: x\ndocs_dir: absent\n", "docs_dir"),
    ],
)
def test_a_broken_configuration_is_told(tmp_path, config, said):
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(config)
    with pytest.raises(Misuse) as told:
        Renderer(tmp_path / "mkdocs.yml")
    assert said in str(told.value).lower()


def test_what_cannot_be_read_is_told(site, tmp_path):
    with pytest.raises(Misuse, match="UTF-8"):
        render(site, b"caf\xe9")
    with pytest.raises(Misuse, match="No such file"):
        site[1].page(tmp_path / "absent.md")
    with pytest.raises(Misuse, match="no configuration"):
        Renderer(tmp_path / "absent.yml")


def test_line_keeps_its_number():
    line = Line(";--8<-- x", 7)
    assert (line.replace(";", "", 1), line.replace(";", "", 1).number) == ("--8<-- x", 7)
    assert ("  " + line, ("  " + line).number) == ("  ;--8<-- x", 7)


def test_aligned_without_line_numbers():
    assert aligned(["a", "b", "c", "d"], ["x", "a", "d", ""]) == [1, 1, 4, 4]


def test_the_books_own_configuration():
    assert Renderer(ROOT / "mkdocs.yml").docs == ROOT / "docs"


def test_superfences_internals():
    """What RecordingFences and TracingSnippets build on: after an upgrade, look here first."""

    def parameters(function):
        return list(inspect.signature(function).parameters)

    fences = SuperFencesBlockPreprocessor
    assert parameters(fences.process_nested_block) == ["self", "ws", "content", "start", "end"]
    assert parameters(fences._store) == ["self", "source", "code", "start", "end"]
    assert parameters(fences.search_nested) == ["self", "lines"]
    assert parameters(fences.rebuild_block) == ["self", "lines"]
    for name in ("self.first", "self.ws", "self.lang", "self.classes", "self.code"):
        assert name in inspect.getsource(fences), name
    assert parameters(SnippetPreprocessor.parse_snippets) == ["self", "lines", "file_name", "is_url", "is_section"]
    assert {"fence", "lang", "attrs", "options"} <= set(RE_NESTED_FENCE_START.groupindex)
