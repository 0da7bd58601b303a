"""Anchors that were published once: links from elsewhere rely on them, so they stay.

The file has a line for each, `page#anchor`, sorted; the page is its address without `index.html` or `.html`
(`index` for the start page), so that the record holds for both kinds of addresses that MkDocs builds.
"""

from collections.abc import Iterator
from pathlib import Path

from openbook.findings import Misuse
from openbook.links.check import Result
from openbook.links.problem import Problem
from openbook.links.rules import NOT_FOUND, is_page, offers

FILE = "data/anchors.txt"  # below docs


def key_of(file: str) -> str:
    """`a/b/index.html` and `a/b.html` → `a/b`; `index.html` → `index`."""
    return file.removesuffix(".htm").removesuffix(".html").removesuffix("/index")


def headings(result: Result) -> set[str]:
    """`page#anchor` of every heading of every article. Redirects and the 404 page are no articles."""
    return {
        f"{key_of(report.file)}#{name}"
        for report in result.reports.values()
        if report.file != NOT_FOUND and report.redirect is None
        for name in report.headings
    }


def recorded(file: Path) -> dict[str, int]:
    """Each recorded anchor with its line; empty when nothing has been published."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"{file} cannot be read: {problem}") from problem
    anchors = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        page, mark, name = line.strip().partition("#")
        if not (page and mark and name):
            raise Misuse(f"{file}:{number}: a line is page#anchor, not {line.strip()[:80]!r}")
        anchors[line.strip()] = number
    return anchors


def record(file: Path, result: Result) -> int:
    """Add the site's headings to the file; return how many were new."""
    known = set(recorded(file))
    new = headings(result) - known
    if new:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{anchor}\n" for anchor in sorted(known | new)), encoding="utf-8")
    return len(new)


def lost(file: Path, result: Result) -> Iterator[tuple[Problem, int]]:
    """The recorded anchors that lead nowhere now, with their line in the file."""
    pages = {key_of(name): name for name in result.reports}
    for anchor, line in recorded(file).items():
        key, _, name = anchor.partition("#")
        page = pages.get(key)
        if page is None:
            message = f'the page "{key}" was published and is gone; a redirect must take its place'
        elif _leads(result, page, name):
            continue
        else:
            message = f'"#{name}" was published on "{key}" and is gone; keep it with {{ #{name} }}'
        yield Problem(page or "", "lost-anchor", message, anchor, f"{page or key}#{name}"), line


def _leads(result: Result, page: str, name: str) -> bool:
    """Whether the anchor exists, there or where the page redirects to."""
    for _ in range(5):
        report = result.reports[page]
        if offers(report.ids, name):
            return True
        if report.redirect is None:
            return False
        page, fragment = report.redirect
        if fragment or not is_page(page):
            return True
    return False
