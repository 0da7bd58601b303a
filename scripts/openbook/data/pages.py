"""How pages use the figures: fences, references, numbers that repeat a record, tables typed by hand."""

from collections.abc import Sequence
from pathlib import Path

from openbook import ROOT
from openbook.data.load import Data, shown
from openbook.data.prose import check_prose
from openbook.fences import base, calculator, chart, figures
from openbook.findings import Finding
from openbook.render import Fence, Page, Renderer

CORES = {"figures": figures.core, "chart": chart.core, "calculator": calculator.core}


def check_pages(paths: Sequence[Path], data: Data) -> list[Finding]:
    renderer = Renderer(ROOT / "mkdocs.yml")
    renderer.md.openbook_tolerant = True
    found = []
    for path in paths:
        renderer.md.openbook_unresolved = []
        page = renderer.page(path, shown(path))
        text = path.read_text(encoding="utf-8").split("\n")
        if page.failure:
            message = f"the page cannot be rendered: {type(page.failure).__name__}: {page.failure}"
            found.append(Finding(page.path, 0, 0, "render-error", "error", message))
        for fence in page.fences:
            if fence.language in CORES:
                found += check_fence(fence, data)
        found += unresolved(page, text, renderer.md.openbook_unresolved)
        found += [problem.finding(page.path) for problem in check_prose(page.html, text, data)]
    return found


def check_fence(fence: Fence, data: Data) -> list[Finding]:
    """All mistakes of one of the book's fences, at their lines of the page; then a table's cells without a record."""
    problems = base.attribute_problems(fence.attributes)
    problems += base.problems_of(CORES[fence.language], fence.source)[1]
    if not problems and fence.language == "figures":
        root = base.body_of(fence.source, [])
        problems += figures.cells_without_record(root, data) if root else []
    return [problem.finding(fence.path, fence.line_of(problem.line)) for problem in problems]


def unresolved(page: Page, text: Sequence[str], references: Sequence[tuple[str, str]]) -> list[Finding]:
    found = []
    for literal, message in dict.fromkeys(references):
        lines = [number for number, line in enumerate(text, 1) if literal in line] or [0]
        found += [Finding(page.path, line, 0, "unknown-figure", "error", message) for line in lines]
    return found
