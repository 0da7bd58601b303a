"""One built page: what it offers (ids), what it asks for (links), what is wrong with it by itself."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from openbook.links.article import article_of
from openbook.links.leaks import leaks
from openbook.links.problem import THEME

_LINKS = "[href], [src], meta"  # in :is(…), since an element would be listed for each of several selectors
_RARE_LINKS = (  # (what the text of such a page contains, the elements): each selector costs time on every page
    (b"srcset", "[srcset], [imagesrcset]"),
    (b"poster", "[poster]"),
    (b"action", "form[action], [formaction]"),
)
_TAG = re.compile(rb"<(?!/|a |span|code|p>|li>)([a-z][\w.:-]*)")  # the commonest are skipped for speed
_PAINT = ("style", "fill", "stroke", "marker-start", "marker-mid", "marker-end", "clip-path", "mask", "filter")
_PAINTED = f":is({', '.join(f'[{name}]' for name in _PAINT)})"
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_last: list[LexborHTMLParser] = []  # while it lives, malloc keeps its memory: the next page parses in half the time
_URL = re.compile(r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)\s"']+))\s*\)""", re.IGNORECASE)
_REFRESH = re.compile(r"""\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?:"([^"]*)"|'([^']*)'|(.*))""", re.IGNORECASE | re.DOTALL)
_META_ADDRESSES = {"og:url", "og:image", "og:image:url", "og:image:secure_url", "og:video", "og:audio"}


class Link(NamedTuple):
    """An address in a page: the element that asks for it, the text, and which of equal ones it is."""

    element: str
    url: str
    nth: int


@dataclass(slots=True)
class Page:
    """What one built page holds. `leaked` is (text, meaning); `repeated` is (id, stands in the article)."""

    file: str
    ids: frozenset[str] = frozenset()
    headings: tuple[str, ...] = ()
    links: list[Link] = field(default_factory=list)
    repeated: list[tuple[str, bool]] = field(default_factory=list)
    leaked: list[tuple[str, str]] = field(default_factory=list)
    base: str | None = None
    canonical: str | None = None
    redirect: str | None = None
    noindex: bool = False


def read(file: str, html: bytes) -> Page:
    """Parse one page. Comments and <template> hold no links; <noscript> does, for readers without scripts."""
    tree = LexborHTMLParser(html)
    _last[:] = [tree]
    article = article_of(tree)
    page = Page(file)
    if article is None:
        return page
    lower = html.lower()
    tags = {name.decode() for name in set(_TAG.findall(lower))}
    if "base" in tags and (base := tree.css_first("base[href]")):
        page.base = base.attributes["href"] or ""
    selectors = [_LINKS, *(elements for sign, elements in _RARE_LINKS if sign in lower)]
    query = f":is({', '.join([*selectors, 'object[data]'] if 'object' in tags else selectors)})"
    inside = {node.mem_id for node in article.css(query)}
    counted: Counter[str] = Counter()
    for node in tree.css(query):
        _link(page, node, node.mem_id in inside, counted)
    if _has_paint(lower):
        _painted(page, tree, article, counted)
    if "style" in tags:
        for node in tree.css("style"):
            page.links += [Link("style", url, THEME) for url in css_addresses(node.text())]
    _ids(page, tree, article, "noscript" in tags)
    page.leaked = list(leaks(article, html, tags))
    return page


def canonical(html: bytes) -> str | None:
    """The address that a page calls its own."""
    node = LexborHTMLParser(html).css_first("link[rel=canonical i][href]")
    return None if node is None else node.attributes["href"]


def _link(page: Page, node: LexborNode, in_article: bool, counted: Counter[str]) -> None:
    tag, attributes = node.tag, node.attributes
    if tag == "base":
        return
    for url in _addresses(tag, attributes):
        nth = THEME
        if in_article:
            nth = counted[url]
            counted[url] += 1
        page.links.append(Link(tag, url, nth))
        if tag == "link" and (attributes.get("rel") or "").lower() == "canonical":
            page.canonical = url
        elif tag == "meta" and "http-equiv" in attributes:
            page.redirect = url
    if tag == "meta" and (attributes.get("name") or "").lower() == "robots":
        page.noindex = page.noindex or "noindex" in (attributes.get("content") or "").lower()


def _addresses(tag: str, attributes: dict[str, str | None]) -> Iterator[str]:
    if tag == "a" and "href" in attributes:
        yield attributes["href"] or ""
        return
    if tag == "meta":
        content = attributes.get("content") or ""
        if (attributes.get("http-equiv") or "").lower() == "refresh":
            match = _REFRESH.match(content)
            if match and (url := (match[1] or match[2] or match[3] or "").strip()):
                yield url
        elif attributes.get("property") in _META_ADDRESSES or (
            (attributes.get("name") or "").startswith("twitter:image") and "alt" not in (attributes["name"] or "")
        ):
            yield content
        return
    if "href" in attributes:
        yield attributes["href"] or ""
    elif "xlink:href" in attributes:
        yield attributes["xlink:href"] or ""
    for name in ("src", "poster"):
        if name in attributes:
            yield attributes[name] or ""
    if tag == "object" and "data" in attributes:
        yield attributes["data"] or ""
    for name in ("action", "formaction"):
        if attributes.get(name) and tag in ("form", "button", "input"):
            yield attributes[name] or ""
    for name in ("srcset", "imagesrcset"):
        if attributes.get(name):
            yield from candidates(attributes[name] or "")


def candidates(srcset: str) -> Iterator[str]:
    """The addresses of a `srcset`, whose commas may also stand inside an address.

    Source: https://html.spec.whatwg.org/multipage/images.html#parse-a-srcset-attribute
    """
    at = 0
    while match := re.compile(r"[\s,]*([^\s]+)").match(srcset, at):
        url, at = match[1], match.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            depth = 0
            while at < len(srcset) and (depth or srcset[at] != ","):
                depth += {"(": 1, ")": -1}.get(srcset[at], 0)
                at += 1
        if url:
            yield url


def css_addresses(css: str) -> Iterator[str]:
    """The addresses in `url(…)` and `@import "…"` of a style sheet, comments left out."""
    css = re.sub(r"/\*.*?\*/", " ", css, flags=re.DOTALL)
    for match in _URL.finditer(css):
        yield match[1] or match[2] or match[3] or ""
    for match in re.finditer(r"""@import\s+(?:"([^"]*)"|'([^']*)')""", css):
        yield match[1] or match[2] or ""


def svg_addresses(drawing: str) -> Iterator[str]:
    """The addresses in a drawing of its own file: `href`, `xlink:href` and `url(…)`, comments left out."""
    drawing = re.sub(r"<!--.*?-->", " ", drawing, flags=re.DOTALL)
    for match in re.finditer(r"""\s(?:xlink:)?href\s*=\s*(?:"([^"]*)"|'([^']*)')""", drawing):
        yield unescape(match[1] or match[2] or "")
    yield from css_addresses(unescape(drawing))


def _has_paint(lower: bytes) -> bool:
    """Whether some `url(` stands inside a tag."""
    at = lower.find(b"url(")
    while at >= 0:
        if lower.rfind(b"<", 0, at) > lower.rfind(b">", 0, at):
            return True
        at = lower.find(b"url(", at + 4)
    return False


def _painted(page: Page, tree: LexborHTMLParser, article: LexborNode, counted: Counter[str]) -> None:
    """`fill="url(#shade)"`, `marker-end="url(#arrow)"`, `style="background: url(…)"`."""
    inside = {node.mem_id for node in article.css(_PAINTED)}
    for node in tree.css(_PAINTED):
        for value in map(node.attributes.get, _PAINT):
            for url in css_addresses(value) if value and "url(" in value.lower() else ():
                nth = THEME
                if node.mem_id in inside:
                    nth = counted[url]
                    counted[url] += 1
                page.links.append(Link(node.tag, url, nth))


def _ids(page: Page, tree: LexborHTMLParser, article: LexborNode, has_noscript: bool) -> None:
    nodes, inner = tree.css("[id]"), article.css("[id]")
    ids = [node.id for node in nodes if node.id]
    if len(set(ids)) != len(ids):
        silent = {node.mem_id for node in tree.css("noscript [id]")} if has_noscript else set()
        counts = Counter(node.id for node in nodes if node.id and node.mem_id not in silent)
        own = {node.id for node in inner}
        page.repeated = sorted((name, name in own) for name, count in counts.items() if count > 1)
    names = [node.attributes["name"] or "" for node in tree.css("a[name]")]
    page.ids = frozenset(ids) | frozenset(names)
    page.headings = tuple(node.id for node in inner if node.tag in _HEADINGS and node.id)
