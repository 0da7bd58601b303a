"""The closed vocabulary of a fence: what is understood, and what is a mistake."""

import pytest

from openbook.render import Renderer
from openbook.snippets.collect import collect
from openbook.snippets.contract import Expectation

CONFIG = """site_name: Test
markdown_extensions: [admonition, attr_list, pymdownx.highlight, pymdownx.superfences]
"""


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    (root / "mkdocs.yml").write_text(CONFIG)
    return Renderer(root / "mkdocs.yml")


def collected(renderer, text):
    page = renderer.docs / "index.md"
    page.write_text(text)
    return collect(renderer, page, "index.md")


@pytest.mark.parametrize(
    ("info", "expectation"),
    [
        ("python", Expectation("parse")),
        ("text", Expectation("shown")),
        ("python {check=run}", Expectation("run")),
        ("python {check=run exit=3 timeout=1.5 session=a-1}", Expectation("run", 3, "a-1", 1.5)),
        ('slurm {check=skip reason="needs GPUs"}', Expectation("skip", reason="needs GPUs")),
        ('text {.output check=skip reason="H100, 2026-10"}', Expectation("skip", reason="H100, 2026-10")),
        ('bash {check=gpu reason="two GPUs"}', Expectation("gpu", reason="two GPUs")),
        ("c {check=compile timeout=60}", Expectation("compile", timeout=60)),
        ("python {check=run ranks=4}", Expectation("run", ranks=4)),
        ("slurm {check=run}", Expectation("run")),
        ('yaml {title="a b" linenums="1" hl_lines="1" .no-copy #here}', Expectation("parse")),
    ],
)
def test_understood(renderer, info, expectation):
    page = collected(renderer, f"```bash\n```\n```{info}\nx\n```\n")
    assert page.findings == []
    assert page.items[1].expectation == expectation


@pytest.mark.parametrize(
    ("info", "rule"),
    [
        ("", "unlabelled-fence"),
        ("klingon", "unknown-language"),
        ("python {chekc=run}", "unknown-attribute"),
        ("python {notest}", "unknown-attribute"),
        ("python {.ouput}", "unknown-class"),
        ("python {check=yes}", "unknown-value"),
        ("yaml {check=run}", "unknown-value"),
        ("python {check=run ranks=1}", "unknown-value"),
        ("python {check=run ranks=9}", "unknown-value"),
        ("python {check=run ranks=two}", "unknown-value"),
        ("python {ranks=2}", "unused-attribute"),
        ("bash {check=run ranks=2}", "unused-attribute"),
        ("python {check=run ranks=2 session=a}", "unused-attribute"),
        ("text {check=run}", "unknown-value"),
        ("python {check=skip}", "skip-without-reason"),
        ('python {check=skip reason=" "}', "skip-without-reason"),
        ('python {reason="why"}', "unused-attribute"),
        ("python {exit=1}", "unused-attribute"),
        ("python {session=a}", "unused-attribute"),
        ("python {check=lint timeout=3}", "unused-attribute"),
        ("python {check=run exit=256}", "unknown-value"),
        ("python {check=run exit=-1}", "unknown-value"),
        ("python {check=run exit=one}", "unknown-value"),
        ("python {check=run timeout=0}", "unknown-value"),
        ("python {check=run timeout=1e9}", "unknown-value"),
        ('python {check=run session="a b"}', "unknown-value"),
        ("python {check=run check=lint}", "repeated-attribute"),
        ('python {hl_lines="2"}', "unknown-value"),
        ('python {hl_lines="0"}', "unknown-value"),
        ('python {hl_lines="x"}', "unknown-value"),
        ('python {linenums="x"}', "unknown-value"),
    ],
)
def test_mistakes(renderer, info, rule):
    findings = collected(renderer, f"text\n\n```{info}\nx\n```\n").findings
    assert [(found.rule, found.line, found.severity) for found in findings] == [(rule, 3, "error")]


def test_the_known_words_are_named(renderer):
    (found,) = collected(renderer, "```pyhton\nx\n```\n").findings
    assert "python" in found.hint
    assert "slurm" in found.hint
    (found,) = collected(renderer, "```python {chekc=run}\nx\n```\n").findings
    assert found.hint.startswith("did you mean 'check'?")


def test_output_goes_with_the_fence_before(renderer):
    page = collected(renderer, "```bash {check=run}\necho a\n```\n\n```text {.output}\na\n```\n\n```bash\nls\n```\n")
    assert page.findings == []
    assert page.items[0].output is page.items[1].fence
    assert page.items[2].output is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("```text {.output}\na\n```\n", 1),
        ("```bash {check=run}\necho a\n```\n\nIt prints:\n\n```text {.output}\na\n```\n", 7),
        ("```console {check=run}\n$ echo a\na\n```\n\n```text {.output}\na\n```\n", 6),
        ("```bash {check=run}\n:\n```\n\n```text {.output}\na\n```\n\n```text {.output}\na\n```\n", 9),
    ],
)
def test_output_that_nothing_prints(renderer, text, line):
    assert [(found.rule, found.line) for found in collected(renderer, text).findings] == [("stray-output", line)]


def test_sessions(renderer):
    fence = "```{} {{check=run session={}}}\n:\n```\n\n"
    page = collected(renderer, fence.format("bash", "a") + fence.format("bash", "b") + fence.format("console", "a"))
    assert page.findings == []
    assert [len(item.before) for item in page.items] == [0, 0, 1]
    page = collected(renderer, fence.format("bash", "a") + fence.format("python", "a"))
    assert [(found.rule, found.line) for found in page.findings] == [("mixed-session", 5)]
