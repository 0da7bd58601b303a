"""Every fence of the book, one test each: `pytest tests/content/test_snippets.py -k hung-job`."""

import functools
import os
from collections import defaultdict
from dataclasses import replace

import pytest

from openbook import ROOT
from openbook.findings import as_github, as_text
from openbook.render import Renderer
from openbook.snippets import execute, lab, levels, sandbox, static, tools
from openbook.snippets.cache import Cache
from openbook.snippets.collect import collect
from openbook.snippets.dialects import BY_SUFFIX

DOCS = ROOT / "docs"
RENDERER = Renderer(ROOT / "mkdocs.yml")
PAGES = [collect(RENDERER, path, str(path.relative_to(DOCS))) for path in sorted(DOCS.rglob("*.md"))]
FENCES = [item for page in PAGES for item in page.items if item.level not in ("own", "unknown")]
PROCESSES = [process for page in PAGES for process in execute.processes(page)]
FILES = sorted(path for path in DOCS.rglob("*") if path.suffix in BY_SUFFIX)


def name_of(item):
    return f"{item.fence.path}:{item.fence.start}-{item.fence.language}"


@functools.cache
def static_findings():
    """All fences at once, since the slow tools start once for all; by page and first line of the fence."""
    found = defaultdict(list)
    for finding in static.check(FENCES):
        item = next(
            item
            for item in FENCES
            if item.fence.path == finding.path and item.fence.start <= finding.line <= item.fence.end
        )
        found[name_of(item)].append(finding)
    return found


def shown(findings):
    """For people; on GitHub the lines are annotated too, by what is printed here."""
    in_book = [replace(found, path=f"docs/{found.path}") for found in findings]
    if os.environ.get("GITHUB_ACTIONS"):
        print("", *map(as_github, in_book), sep="\n")
    return "\n".join(map(as_text, in_book))


def counted(findings):
    """Without notices: what could not be looked at is no mistake."""
    return [found for found in findings if found.severity != "notice"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_fences_render_and_expectations_are_sound(page):
    assert not page.findings, shown(page.findings)


@pytest.mark.parametrize("item", FENCES, ids=name_of)
def test_fence(item):
    found = counted(static_findings()[name_of(item)])
    assert not found, shown(found)


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: name_of(process.items[0]))
def test_run(process):
    if sandbox.unusable():
        pytest.skip(f"needs a sandbox: {sandbox.unusable()}")
    found = execute.run(process, Cache())
    if found and found[0].severity == "notice":
        pytest.skip(found[0].message)
    assert not found, shown(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DOCS)))
def test_file(path):
    found = counted(static.check_files([(path, str(path.relative_to(DOCS)))]))
    assert not found, shown(found)


def test_batch_scripts_on_a_slurm():
    """Partitions and requests, which no parser of options knows; `sbatch --test-only`, with one Slurm for all."""
    scripts = [(path, str(path.relative_to(DOCS))) for path in FILES if path.suffix == ".sbatch"]
    found = list(lab.check(PAGES, scripts, Cache()))
    if any(one.rule == "not-run" for one in found):
        pytest.skip(found[0].message)
    assert not found, shown(found)


def test_the_table_is_shown(request):
    pages = [replace(page, path=str(DOCS / page.path)) for page in PAGES]
    request.config.table_of_snippets = levels.table(pages, DOCS)


@pytest.mark.parametrize("tool", ["bash", "ruff", "shellcheck"])
def test_tools_of_the_checks(tool):
    if tools.find(tool) is None:
        pytest.skip(f"needs {tool}: {tools.FROM[tool]}")


@pytest.mark.parametrize("module", ["kubernetes_validate", "tree_sitter_cpp", "tree_sitter_cuda"])
def test_libraries_of_the_checks(module):
    pytest.importorskip(module, reason=f"needs {module}: pip install {module.replace('_', '-')}")


def test_skips_may_only_fall():
    counts = {f"docs/{page.path}": sum(item.level == "skip" for item in page.items) for page in PAGES}
    findings = levels.compare({path: count for path, count in counts.items() if count}, levels.allowed())
    assert not findings, shown(findings)
