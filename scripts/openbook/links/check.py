"""The whole check: read all pages, then look up what they want from each other."""

import gc
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from openbook.links.address import INSIDE, Home, resolve
from openbook.links.page import Link, css_addresses, svg_addresses
from openbook.links.problem import THEME, Problem
from openbook.links.rules import Report, examine, is_page, missing_anchor, offers
from openbook.links.site import Site

PARALLEL_FROM = 100  # pages; below, starting processes costs more than it saves
_SVG_ID = re.compile(r"""\sid\s*=\s*(?:"([^"]*)"|'([^']*)')""")

_shared: tuple[Site, Home] | None = None


@dataclass
class Result:
    """The problems of a site, and what the other checks build on: a report for each page, the files in use."""

    site: Site
    home: Home
    reports: dict[str, Report]
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


def check(site: Site, home: Home) -> Result:
    """Check every page, style sheet and drawing of the site."""
    reports = {report.file: report for report in _reports(site, home)}
    result = Result(site, home, reports)
    problems = [problem for report in reports.values() for problem in report.problems]
    problems += _anchors(site, reports)
    for report in reports.values():
        result.used |= report.used
    for name in sorted(site.files):
        if name.endswith((".css", ".svg")):
            problems += _other(name, site, home, result.used)
    result.problems = merged(problems)
    return result


def _share(site: Site, home: Home) -> None:
    global _shared
    _shared = (site, home)
    gc.disable()  # such a process lives for one check and leaves no cycles


def _examine(file: str) -> Report:
    assert _shared is not None
    return examine(file, *_shared)


def _reports(site: Site, home: Home) -> Iterable[Report]:
    pages = site.pages
    workers = min(os.cpu_count() or 1, 8)
    if len(pages) < PARALLEL_FROM or workers < 2:
        return [examine(file, site, home) for file in pages]
    from concurrent.futures import ProcessPoolExecutor  # late: loading it takes a tenth of a small check

    with ProcessPoolExecutor(workers, initializer=_share, initargs=(site, home)) as pool:
        return list(pool.map(_examine, pages, chunksize=max(1, len(pages) // (workers * 4))))


def _anchors(site: Site, reports: dict[str, Report]) -> Iterator[Problem]:
    drawings: dict[str, frozenset[str]] = {}
    for report in reports.values():
        for target, fragment, link in report.wanted:
            if is_page(target):
                found = offers(reports[target].ids, fragment)
            elif target.endswith(".svg") and link.element != "a" and "(" not in fragment and "=" not in fragment:
                if target not in drawings:
                    drawings[target] = _ids(site.bytes(target).decode("utf-8", "replace"))
                found = offers(drawings[target], fragment)
            else:  # `#page=3` of a PDF, `#t=10` of a video, a line of a text: nothing to look up
                found = True
            if not found:
                yield missing_anchor(report.file, target, fragment, link)


def _ids(drawing: str) -> frozenset[str]:
    return frozenset(one or two for one, two in _SVG_ID.findall(drawing))


def _other(file: str, site: Site, home: Home, used: set[str]) -> Iterator[Problem]:
    """What a style sheet or a drawing asks for. A drawing is also looked through for its own ids."""
    text = site.bytes(file).decode("utf-8", "replace")
    is_drawing = file.endswith(".svg")
    what = "drawing" if is_drawing else "style sheet"
    for url in dict.fromkeys(svg_addresses(text) if is_drawing else css_addresses(text)):
        address = resolve(url, file, home)
        if address.kind != INSIDE or not url:
            continue
        target = site.file_for(address.path)
        message = f"the {what} wants {url[:200]}: {target} is not in the site"
        if target == file:
            if is_drawing and address.fragment and not offers(_ids(text), address.fragment):
                message = f'the drawing wants "{url[:200]}", which it does not have'
                yield Problem(file, "missing-anchor", message, url, f"{file}#{address.fragment}")
        elif target in site.files:
            used.add(target)
        elif spelt := site.spelt(target):
            used.add(spelt)
            yield Problem(file, "case-mismatch", message, url, target, hint=f"the file is {spelt}")
        else:
            yield Problem(file, "missing-target", message, url, target)


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Report what the theme repeats on many pages once, with their number."""
    kept: list[Problem] = []
    theme: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        if problem.nth != THEME:
            kept.append(problem)
        else:
            key = problem.target if problem.rule != "duplicate-id" else problem.literal
            theme.setdefault((problem.rule, key or problem.url), []).append(problem)
    for same in theme.values():
        pages = len({problem.page for problem in same})
        first = same[0]
        where = first.page if pages == 1 else f"{pages} pages, the first is {first.page}"
        kept.append(replace(first, message=f"{first.message} (outside of the article, on {where})"))
    return kept


def external_links(result: Result) -> dict[str, list[tuple[str, Link]]]:
    """Every address on another site, with the pages and links that name it."""
    found: dict[str, list[tuple[str, Link]]] = {}
    for report in result.reports.values():
        for link in report.external:
            found.setdefault(link.url, []).append((report.file, link))
    return found
