"""The rules for one page: where each link leads, and whether that exists."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from openbook.links.address import EXTERNAL, INSIDE, MALFORMED, OTHER, OUTSIDE, Address, Home, page_path, resolve
from openbook.links.page import Link, Page, read
from openbook.links.problem import THEME, Problem
from openbook.links.site import PAGES, Site

_NAMES = {
    "a": "link",
    "area": "link",
    "img": "image",
    "image": "image",
    "link": "<link>",
    "meta": "<meta>",
    "use": "drawing",
    "script": "script",
    "iframe": "frame",
    "style": "style",
}
_MAY_BE_EMPTY = {"form", "button", "input", "meta"}
NOT_FOUND = "404.html"


@dataclass(slots=True)
class Report:
    """What one page says: its problems, and what it wants from other pages."""

    file: str
    ids: frozenset[str]
    headings: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    wanted: list[tuple[str, str, Link]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    external: list[Link] = field(default_factory=list)
    canonical: str | None = None
    redirect: tuple[str, str] | None = None
    noindex: bool = False
    count: int = 0


def examine(file: str, site: Site, home: Home) -> Report:
    """First pass over one page. Anchors of other files are left for the second pass (`Report.wanted`)."""
    page = read(file, site.page(file))
    report = Report(file, page.ids, page.headings, noindex=page.noindex, count=len(page.links))
    place, foreign, adrift = _base(page, home)
    seen: dict[str, tuple[Address, Problem | None, str]] = {}
    for link in page.links:
        key = link.url.strip() or f"<{link.element}>"  # an empty address is judged by its element
        if key not in seen:
            seen[key] = _follow(link, file, place, adrift, site, home)
        address, problem, target = seen[key]
        if foreign and address.relative:
            continue
        _record(report, page, link, address, problem, target)
    for name, in_article in page.repeated:
        message = f'the id "{name}" stands more than once on the page, so a link reaches only the first'
        report.problems.append(
            Problem(
                file, "duplicate-id", message, target=f"{file}#{name}", nth=0 if in_article else THEME, literal=name
            )
        )
    report.problems += _leaked(page)
    return report


def _base(page: Page, home: Home) -> tuple[str, bool, bool]:
    """(the path that relative links start from, whether that is on another site, whether it is unknown)."""
    own = page_path(page.file)
    adrift = page.file == NOT_FOUND  # shown in place of any page
    if page.base is None:
        return own, False, adrift
    base = resolve(page.base, own, home)
    return base.path if base.kind == INSIDE else own, base.kind == EXTERNAL, adrift and base.relative


def _follow(
    link: Link, file: str, place: str, adrift: bool, site: Site, home: Home
) -> tuple[Address, Problem | None, str]:
    """(address, what is wrong with it, the file it leads to)."""
    what, url = _NAMES.get(link.element, f"<{link.element}>"), link.url
    if not url.strip():
        if link.element in _MAY_BE_EMPTY:
            return Address(OTHER), None, ""
        return Address(OTHER), Problem(file, "empty-href", f"this {what} has no address", url), ""
    address = resolve(url, place, home)
    if address.kind == MALFORMED:
        return (
            address,
            Problem(file, "malformed-url", f"the address {url[:200]!r} {_clause(address.text)}", url, url),
            "",
        )
    if address.kind == OUTSIDE:
        return address, Problem(file, "outside-site", f"the {what} to {url[:200]} {address.text}", url, url), ""
    if address.kind != INSIDE:
        return address, None, ""
    if adrift and address.relative:
        message = f"the {what} to {url[:200]} is relative: the 404 page is shown at any depth, so it fails there"
        return address, Problem(file, "relative-in-404", message, url, url), ""
    target = site.file_for(address.path)
    if target in site.files:
        return address, None, target
    shown = f"{target}#{address.fragment}" if address.fragment else target
    if (spelt := site.spelt(target)) is not None:
        message = f"the {what} to {url[:200]} finds {target} only where letter case does not count"
        return address, Problem(file, "case-mismatch", message, url, shown, hint=f"the file is {spelt}"), spelt
    if address.path.rstrip("/") in site.folders:
        message = f"the {what} to {url[:200]} leads to a folder without index.html"
    elif target.endswith(".md"):  # MkDocs leaves the address of a page that it does not know as it is
        message = f"the {what} to {url[:200]} leads nowhere: no page was built from that file"
    else:
        message = f"the {what} to {url[:200]} leads nowhere: {target} is not in the site"
    return address, Problem(file, "missing-target", message, url, shown), ""


def _clause(text: str) -> str:
    return text if text.startswith(("has", "names")) else f"is malformed: {text}"


def _record(report: Report, page: Page, link: Link, address: Address, problem: Problem | None, target: str) -> None:
    if problem is not None:
        report.problems.append(
            Problem(problem.page, problem.rule, problem.message, link.url, problem.target, link.nth, hint=problem.hint)
        )
    if address.kind == EXTERNAL:
        report.external.append(link)
        if link.url == page.canonical and link.element == "link" and page.redirect is None and page.base is None:
            message = f"the page calls {link.url[:200]} its own address, which is not in this site"
            report.problems.append(
                Problem(report.file, "outside-site", message, link.url, link.url, link.nth, "warning")
            )
    if not target:
        return
    report.used.add(target)
    if link.url == page.canonical and link.element == "link":
        report.canonical = target
    if link.url == page.redirect and link.element == "meta":
        report.redirect = (target, address.fragment)
    if not address.fragment:
        return
    if target != report.file:
        report.wanted.append((target, address.fragment, link))
    elif not offers(page.ids, address.fragment):
        report.problems.append(missing_anchor(report.file, target, address.fragment, link))


def offers(ids: frozenset[str], fragment: str) -> bool:
    """Whether a page scrolls to the fragment.

    Source: https://html.spec.whatwg.org/multipage/browsing-the-web.html#the-indicated-part-of-the-document
    """
    if fragment in ids or fragment.lower() == "top":
        return True
    return "%" in fragment and unquote(fragment) in ids


def missing_anchor(file: str, target: str, fragment: str, link: Link) -> Problem:
    name = unquote(fragment)
    where = "this page" if target == file else page_path(target) or "the start page"
    message = f'there is no "#{name}" on {where}'
    return Problem(file, "missing-anchor", message, link.url, f"{target}#{name}", link.nth)


def _leaked(page: Page) -> Iterator[Problem]:
    counts: dict[str, int] = {}
    for text, meaning in page.leaked:
        nth = counts[text] = counts.get(text, -1) + 1
        yield Problem(page.file, "leaked-markup", f"{text!r} is shown to the reader: {meaning}", nth=nth, literal=text)


def is_page(file: str) -> bool:
    return file.endswith(PAGES)
