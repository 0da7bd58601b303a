"""Rules for the site and the book as a whole: the sitemap, the navigation, files that nothing uses."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from openbook.links.address import INSIDE, resolve
from openbook.links.book import MARKDOWN, Book, pages_of
from openbook.links.check import Result
from openbook.links.fences import fences
from openbook.links.problem import THEME, Problem
from openbook.links.rules import NOT_FOUND
from openbook.links.site import Site

SITEMAP = "sitemap.xml"
_FOR_SERVERS = ("robots.txt", "CNAME", ".nojekyll", "index.html", NOT_FOUND)
_DATA = (".yml", ".yaml", ".json", ".csv", ".toml")  # what the book's own fences show is such a file, by its name
_REFERENCE = re.compile(r"\[\[([\w-]+)\.[^\[\]\s]")
_INCLUDED = re.compile(r"""-+8<-+[ \t]+(["'])(.+?)\1|^[ \t]*([\w./-]+\.\w+)(?::[\w:,]*)?[ \t]*$""", re.MULTILINE)


def sitemap(result: Result) -> Iterator[Problem]:
    """Every page that the sitemap lists exists, and every page that names itself as canonical is listed."""
    site = result.site
    if SITEMAP not in site.files:
        return
    try:
        places = sitemap_addresses(site)
    except ElementTree.ParseError as problem:
        yield Problem(SITEMAP, "broken-sitemap", f"the sitemap is not XML: {problem}")
        return
    listed = set()
    for url in places:
        address = resolve(url, "", result.home)
        target = site.file_for(address.path) if address.kind == INSIDE else ""
        if "://" not in url:
            message = f"the sitemap lists {url[:200]!r}, which is no whole address with https://"
            yield Problem(SITEMAP, "malformed-url", message, url, url)
        elif not target:
            yield Problem(SITEMAP, "outside-site", f"the sitemap lists {url}, which is not in this site", url, url)
        elif target not in site.files:
            yield Problem(
                SITEMAP, "missing-target", f"the sitemap lists {url}: {target} is not in the site", url, target
            )
        listed.add(target)
    for report in result.reports.values():
        excluded = report.noindex or report.redirect or report.file == NOT_FOUND
        if report.canonical == report.file not in listed and not excluded:
            message = "the page is not in the sitemap, so search engines may not find it"
            yield Problem(report.file, "unlisted-page", message, severity="warning")


def sitemap_addresses(site: Site) -> list[str]:
    """What the sitemap lists: pages, their pictures and translations. Raises ParseError.

    Source: https://www.sitemaps.org/protocol.html
    """
    found = []
    for each in ElementTree.fromstring(site.bytes(SITEMAP)).iter():
        name = each.tag.rpartition("}")[2]
        if name in ("loc", "link"):
            found.append((each.text if name == "loc" else each.get("href")) or "")
    return [url.strip() for url in found]


def home_in_sitemap(site: Site) -> str:
    """The folder of the shortest address in the sitemap, if all others lie below it; else nothing."""
    try:
        places = sitemap_addresses(site) if SITEMAP in site.files else []
    except ElementTree.ParseError:
        return ""
    folder = min(places, key=len, default="").rpartition("/")[0] + "/"
    return folder if all(url.startswith(folder) for url in places) else ""


def navigation(book: Book, result: Result) -> Iterator[Problem]:
    """Pages that the navigation names exist, and pages that exist are in the navigation."""
    if book.nav is None:
        return
    named = {entry.partition("#")[0].removeprefix("./") for entry in book.nav}
    sources = set(book.sources.values())
    built = result.site.files
    shown = {problem.target for problem in result.problems if problem.nth == THEME}
    for entry in sorted(named):
        if entry in shown:
            continue  # the theme's link to it is a finding already
        if entry.endswith(MARKDOWN) and entry not in sources and not any(page in built for page in pages_of(entry)):
            message = f"the navigation names {entry}, which is not in the site"
            yield Problem("", "missing-target", message, entry, entry, nth=THEME)
    left_out = _left_out(book)
    for page, source in sorted(book.sources.items()):
        if source not in named and page != NOT_FOUND and not left_out(source):
            message = "the page is not in the navigation: add it to nav, or to not_in_nav, in the configuration"
            yield Problem(page, "not-in-nav", message, severity="warning")


def _left_out(book: Book):
    if not book.not_in_nav.strip():
        return lambda source: False
    from pathspec import PathSpec

    return PathSpec.from_lines("gitignore", book.not_in_nav.splitlines()).match_file


def orphans(book: Book, result: Result) -> Iterator[Problem]:
    """Files beside the pages that reach the site although nothing links to them, includes them or shows them."""
    built, used = result.site.files, result.used
    files = [name for name in book.files() if name in built]
    left = [name for name in files if name not in used and not name.endswith(MARKDOWN)]
    if not left:
        return
    included, shown = set(), set()
    for source in book.sources.values():
        text = _text(book.docs / source)
        included |= {PurePosixPath(two or three).name.partition(":")[0] for _, two, three in _INCLUDED.findall(text)}
        shown |= _shown(text, book.fences)
    scripts = "\n".join(_text(book.docs / name) for name in files if name.endswith((".js", ".mjs")))
    for name in left:
        path = PurePosixPath(name)
        if path.name in included or name in book.text or path.name in scripts or path.name in _FOR_SERVERS:
            continue
        if (path.suffix in _DATA and path.stem in shown) or path.stem.upper().startswith(("LICENSE", "NOTICE")):
            continue
        message = "nothing links to this file or includes it: no reader will find it"
        yield Problem(name, "orphan-file", message, severity="warning")


def _shown(text: str, languages: tuple[str, ...]) -> set[str]:
    """The words in the book's own fences, and what references such as `[[topic.record.column]]` start with."""
    words = set(_REFERENCE.findall(text))
    for fence in fences(text, languages):
        words.update(re.findall(r"[\w-]+", fence.body))
    return words


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
