"""From a folder to findings: the sequence that the command line and the tests call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from openbook import ROOT
from openbook.findings import Finding, Misuse
from openbook.links import page, published, whole
from openbook.links.address import Home
from openbook.links.book import Book
from openbook.links.check import Result, check
from openbook.links.problem import Problem
from openbook.links.site import Site

if TYPE_CHECKING:
    from openbook.links.source import Tracer
    from openbook.links.suggest import Suggester


def build(config: Path, folder: Path) -> None:
    """Build the book into the folder with MkDocs; what MkDocs said is shown only when it fails."""
    import subprocess

    scripts = str(ROOT / "scripts")
    path = os.pathsep.join(part for part in (scripts, os.environ.get("PYTHONPATH", "")) if part)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--config-file",
        str(config.resolve()),
        "--site-dir",
        str(folder),
    ]
    quiet = {"PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"}
    # MkDocs takes the paths of some options, such as snippets', from the working directory
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | quiet, cwd=config.resolve().parent)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if "No module named mkdocs" in said:
            raise Misuse("MkDocs is missing: pip install -e .   (or check a built site with --site)")
        errors = [line for line in said.splitlines() if line.startswith("ERROR")]
        raise Misuse("the book does not build:\n" + "\n".join([*errors, *said.splitlines()[-1:]]))


def home_of(site: Site, book: Book | None) -> Home:
    """The site's public place: what its start page calls canonical, and what the configuration says.

    Where neither says anything, the sitemap does.
    """
    urls = []
    if "index.html" in site.files and (canonical := page.canonical(site.page("index.html"))):
        urls.append(canonical.removesuffix("index.html"))
    if book is not None and book.site_url:
        urls.append(book.site_url)
    return Home.of(*(urls or [whole.home_in_sitemap(site)]))


def findings(site: Site, book: Book | None, shown_root: str = "") -> tuple[Result, list[Finding]]:
    """Check the site; `shown_root` is printed for the site's folder when that will not last."""
    result = check(site, home_of(site, book))
    problems = [*result.problems, *whole.sitemap(result)]
    lost: list[tuple[Problem, int]] = []
    if book is not None:
        problems += [*whole.navigation(book, result), *whole.orphans(book, result)]
        lost += published.lost(book.docs / published.FILE, result)
    if not problems and not lost:
        return result, []
    from openbook.links.source import Tracer  # late: a site without defects needs neither
    from openbook.links.suggest import Suggester

    tracer, suggester = Tracer(site, book, shown_root), Suggester(result, book)
    found = [*_findings(problems, tracer, suggester)]
    for problem, line in lost:
        place = tracer.shown(book.docs / published.FILE)
        found.append(_finding(problem, (place, line, 1, ""), suggester.hint(problem)))
    return result, _once(found)


def _once(found: Iterable[Finding]) -> list[Finding]:
    """One finding for each place and address: a definition may serve many links, a heading many lists."""
    places: dict[tuple[str, int, int, str, str], Finding] = {}
    for each in found:
        places.setdefault((each.path, each.line, each.column, each.rule, each.target), each)
    return list(places.values())


def _findings(problems: list[Problem], tracer: Tracer, suggester: Suggester) -> Iterator[Finding]:
    for problem in map(tracer.refined, problems):
        place = tracer.trace(problem)
        if place is not None:
            yield _finding(problem, place, suggester.hint(problem))


def _finding(problem: Problem, place: tuple[str, int, int, str], hint: str) -> Finding:
    path, line, column, remark = place
    hint = "\n".join(part for part in (hint, remark) if part)
    target = problem.url or problem.target or problem.literal
    if not target and problem.rule != "empty-href":
        target = problem.page
    return Finding(path, line, column, problem.rule, problem.severity, problem.message, hint, target)


def built_from(book: Book, site: Site) -> bool:
    """Whether the site looks built from the book: at least half of the book's pages are there."""
    return book.join(site) >= 0.5
