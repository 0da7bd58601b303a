"""Markup that reached the reader unrendered: it stands in the text of the built page."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from openbook.links.article import article_of

OPAQUE = "￼"
WRAPPED = "inline code that runs over the end of a line: a fence that was not rendered"
ESCAPED = "a pipe inside the code of a table cell needs no backslash, and shows it"
_CODE = ["code", "pre", "kbd", "samp", "tt", "math", "svg", "script", "style", "textarea", "template", "mjx-container"]

# What leaks: signs (a text without any of them has no such leak), the pattern, what it means.
LEAKS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = tuple(
    (signs, re.compile(pattern, re.MULTILINE), message)
    for signs, pattern, message in (
        (("][",), r"\]\[[^\]\[\n￼]*\]", "a reference that is not defined"),
        (("[^",), r"\[\^[^\]\s]+\]", "a footnote that is not defined"),
        (("](",), r"\]\([^()\s]*\)?", "a link that was not rendered"),
        (("```",), r"`{3,}[ \t]*[\w{.-]*", "a fence that was not rendered"),
        (("!!!", "???"), r"^[ \t]*(?:!!!|\?\?\?\+?)[ \t]+[\w\"]+", "an admonition that was not rendered"),
        (("===",), r"^[ \t]*===!?[+]?[ \t]+\"", "a tab that was not rendered"),
        (
            ("{",),
            r"\{:?[ \t]*(?:[.#][\w-]+|(?:width|height|loading|align|id|class|target|rel)=[^{}\s]+)(?:[ \t]+[^{}\n]*)?\}",
            "attributes that were not applied",
        ),
        (("-8<-",), r"(?<!\w)-+8<-+(?!\w)", "a snippet that was not included"),
        (
            (":material-", ":octicons-", ":fontawesome-", ":simple-"),
            r":(?:material|octicons|fontawesome|simple)-[a-z0-9-]+:",
            "an icon that was not rendered",
        ),
    )
)

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
_OWN = ":not(svg *, math *)"


def leaks(article: LexborNode, html: bytes, tags: set[str]) -> Iterator[tuple[str, str]]:
    """(leaked text, what it is) of an article; `html` is the whole page, `tags` the names of its elements.

    Takes code out of the tree, so it is called last.
    """
    yield from _strange_elements(article, tags)
    for block in article.css("pre:not(pre *)"):
        block.decompose()
    for code in article.css("code"):
        if "\n" in (text := code.text()):
            first = next((line for line in text.splitlines() if line.strip()), "")
            yield first.strip()[:60], WRAPPED
        elif r" \| " in text and code.parent.tag in ("td", "th"):  # in a search pattern it stands without spaces
            yield text, ESCAPED
    article.strip_tags(_CODE, recursive=True)
    text = article.text()
    if any(pattern.search(text) for signs, pattern, _ in LEAKS if any(sign in text for sign in signs)):
        yield from _exactly(html)


def _exactly(html: bytes) -> Iterator[tuple[str, str]]:
    """As above, with a mark where code and links stood, so that what is left and right of them does not join."""
    article = article_of(LexborHTMLParser(html))
    for node in reversed(article.css(f"{', '.join(_CODE)}, .arithmatex, .katex, a[href]")):  # inner ones first
        node.replace_with(OPAQUE)
    text = article.text()
    for _, pattern, message in LEAKS:
        for match in pattern.finditer(text):
            yield match[0].strip(), message


def _strange_elements(article: LexborNode, tags: set[str]) -> Iterator[tuple[str, str]]:
    names = sorted(name for name in tags - ELEMENTS if re.fullmatch(r"\w+", name))  # `my-element` is allowed
    if not names or article.css_first(f":is({', '.join(names)}){_OWN}") is None:
        return
    for name in names:
        for _ in article.css(name + _OWN):
            yield f"<{name}", f"<{name}> was taken for an HTML element and is invisible; write it as code"
