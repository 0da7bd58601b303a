"""Markup that reached the reader unrendered: it stands in the text of the built page."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from openbook.links.article import article_of

OPAQUE = "￼"
WRAPPED = "inline code that runs over the end of a line: a fence that was not rendered"
_CODE = ["code", "pre", "kbd", "samp", "tt", "math", "svg", "script", "style", "textarea", "template", "mjx-container"]

# What leaks, and what it means. The groups are what is looked for in the source.
LEAKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), message)
    for pattern, message in (
        (r"\]\[[^\]\[\n￼]*\]", "a reference that is not defined"),
        (r"\[\^[^\]\s]+\]", "a footnote that is not defined"),
        (r"\]\([^()\s]*\)?", "a link that was not rendered"),
        (r"`{3,}[ \t]*[\w{.-]*", "a fence that was not rendered"),
        (r"^[ \t]*(?:!!!|\?\?\?\+?)[ \t]+[\w\"]+", "an admonition that was not rendered"),
        (r"^[ \t]*===!?[+]?[ \t]+\"", "a tab that was not rendered"),
        (
            r"\{:?[ \t]*(?:[.#][\w-]+|(?:width|height|loading|align|id|class|target|rel)=[^{}\s]+)(?:[ \t]+[^{}\n]*)?\}",
            "attributes that were not applied",
        ),
        (r"(?<!\w)-+8<-+(?!\w)", "a snippet that was not included"),
        (r":(?:material|octicons|fontawesome|simple)-[a-z0-9-]+:", "an icon that was not rendered"),
    )
)
_TAG = re.compile(rb"<(?!/|a |span|code|p>|li>)([a-z][\w.:-]*)")  # the commonest are skipped for speed
# Cheap signs: a page without any of them has no leak.
_SIGNS = ("][", "[^", "](", "```", "!!! ", "??? ", "???+ ", "== ", "===! ", "===+ ", "{", "8<-", ":material-")
_SIGNS += (":octicons-", ":fontawesome-", ":simple-")
_QUICK = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in LEAKS), re.MULTILINE)

# Elements of HTML (https://html.spec.whatwg.org/#elements-3, with the obsolete ones), of SVG and of MathML are
# looked up by where they stand: inside <svg> and <math> any name is let pass.
_ELEMENTS = """a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink blockquote
    body br button canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt
    em embed fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i
    iframe image img input ins kbd label legend li link main map mark marquee math menu meta meter nav nobr noembed
    noframes noscript object ol optgroup option output p param picture plaintext pre progress q rb rp rt rtc ruby s
    samp script search section select selectedcontent slot small source span strike strong style sub summary sup svg
    table tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr xmp"""
ELEMENTS = frozenset(_ELEMENTS.split())


def leaks(tree: LexborHTMLParser, html: bytes, lower: bytes) -> Iterator[tuple[str, str]]:
    """(leaked text, what it is) of a page's article; `lower` is its HTML in lower case.

    Takes code out of the tree, so it is called last.
    """
    article = article_of(tree)
    if article is None:
        return
    yield from _strange_elements(article, lower)
    for block in [node for node in article.css("pre") if not _inside(node, "pre")]:
        block.decompose()
    for code in article.css("code"):
        if "\n" in (text := code.text()):
            first = next((line for line in text.splitlines() if line.strip()), "")
            yield first.strip()[:60], WRAPPED
    article.strip_tags(_CODE, recursive=True)
    text = article.text()
    if any(sign in text for sign in _SIGNS) and _QUICK.search(text):
        yield from _exactly(html)


def _exactly(html: bytes) -> Iterator[tuple[str, str]]:
    """As above, with a mark where code and links stood, so that what is left and right of them does not join."""
    article = article_of(LexborHTMLParser(html))
    for node in reversed(article.css(f"{', '.join(_CODE)}, .arithmatex, .katex, a[href]")):  # inner ones first
        node.replace_with(OPAQUE)
    text = article.text()
    for pattern, message in LEAKS:
        for match in pattern.finditer(text):
            yield match[0].strip(), message


def _strange_elements(article: LexborNode, lower: bytes) -> Iterator[tuple[str, str]]:
    strange = {name.decode() for name in set(_TAG.findall(lower))} - ELEMENTS
    for name in sorted(name for name in strange if "-" not in name and re.fullmatch(r"\w+", name)):
        for node in article.css(name):
            if not _inside(node, "svg", "math"):
                yield f"<{name}", f"<{name}> was taken for an HTML element and is invisible; write it as code"


def _inside(node: LexborNode, *tags: str) -> bool:
    while (node := node.parent) is not None:
        if node.tag in tags:
            return True
    return False
