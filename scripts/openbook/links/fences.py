"""The book's own fences: where they stand in the Markdown, and which of them a part of the built page came from."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from openbook.links.article import article_of
from openbook.links.markdown import fenced
from openbook.links.problem import Problem

_LANGUAGE = re.compile(r"[ \t{.]*([\w-]+)")


class Fence(NamedTuple):
    """A fence in a text: its language, the number of its first line counted from 0, what stands in it."""

    language: str
    line: int
    body: str


def fences(text: str, languages: Sequence[str]) -> list[Fence]:
    """The fences of these languages, those within other fences left out."""
    lines, found = text.split("\n"), []
    for first, last, info in fenced(lines):
        language = _LANGUAGE.match(info)
        if language and language[1] in languages:
            found.append(Fence(language[1], first, "\n".join(lines[first + 1 : last])))
    return found


def holding(html: bytes, languages: Sequence[str], problem: Problem) -> list[tuple[str, int]]:
    """(language, how many of that language come before it) of the fence behind each occurrence of the problem.

    A fence is known in the built page by the class of its outermost element, which is the language.
    """
    article = article_of(LexborHTMLParser(html))
    if article is None or not languages:
        return []
    own = f":is({', '.join('.' + language for language in languages)})"
    found, counts = [], Counter()
    for node in article.css(f"{own}:not({own} *)"):
        classes = (node.attributes["class"] or "").split()
        language = next(each for each in languages if each in classes)
        inner = [node, *node.css(":is([href], [src], [id])")]
        if problem.url:
            hits = sum(problem.url in each.attributes.values() for each in inner)
        elif problem.rule == "duplicate-id":
            hits = sum(problem.literal == each.id for each in inner)
        else:
            hits = node.text().count(problem.literal)
        found += [(language, counts[language])] * hits
        counts[language] += 1
    return found
