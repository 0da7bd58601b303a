"""A figure in running text: `[[accelerators.nvidia-h100-sxm.bf16_dense]]` becomes "989.4 TFLOP/s" with its source.

After the name may stand, in this order: `in UNIT`, `digits N` (significant digits), `bare` (without the unit,
for table cells). So a correction in docs/data corrects every page. A name that the data has not stops the build.
"""

import re
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

from openbook.data.load import UnknownName, load
from openbook.data.model import Figure, Record
from openbook.data.show import shown, unit_shown
from openbook.data.units import UNITS, UnitError

BEFORE_LINKS = 175  # a link's own pattern has 160, code 190, an escape 180
PATTERN = r"\[\[(?P<path>[a-z][a-z0-9_]*\.[^\[\]\s]+)(?P<how>[^\[\]\n]*)\]\]"
HOW = re.compile(r"(?: +in (?P<unit>\S+))?(?: +digits (?P<digits>[1-9]))?(?P<bare> +bare)? *")


class UnresolvedFigure(ValueError):
    """A reference that cannot be resolved; the message names it."""


def resolve(path: str, how: str = "") -> tuple[Record, Figure, str]:
    """The record, the figure and the text that is shown. Raises UnresolvedFigure."""
    reference = f"[[{path}{how}]]"
    match = HOW.fullmatch(how)
    if match is None:
        raise UnresolvedFigure(f"{reference}: after the name stands `in UNIT`, `digits N`, `bare`, in this order")
    try:
        record, figure = load().figure(path)
    except UnknownName as problem:
        raise UnresolvedFigure(f"{reference}: {problem}") from None
    if figure.value is None:
        why = figure.none or f"not published ({figure.unpublished})"
        raise UnresolvedFigure(f"{reference} has no value: {why}")
    unit = match["unit"] or figure.column.unit
    try:
        text = shown(figure, unit if figure.column.is_number else "", int(match["digits"] or 0))
    except UnitError as problem:
        raise UnresolvedFigure(f"{reference}: {problem}") from None
    said = text.split()[-1] in UNITS  # "240 PB" in place of 240,000 TB
    if not match["bare"] and unit_shown(unit) and not said:
        text += f"\u00a0{unit_shown(unit)}"
    return record, figure, text


class FigureInlineProcessor(InlineProcessor):
    ANCESTOR_EXCLUDES = ("a",)  # a link in a link is none

    def handleMatch(self, m, data):
        try:
            record, figure, text = resolve(m["path"], m["how"])
        except UnresolvedFigure as problem:
            if not getattr(self.md, "openbook_tolerant", False):
                raise
            self.md.openbook_unresolved.append((m[0], str(problem)))
            return m[0], m.start(0), m.end(0)
        link = Element("a", {"class": "figure-value"})
        link.text = AtomicString(text)
        if figure.source:
            link.set("href", figure.source.url)
            condition = f" ({figure.condition})" if figure.condition else ""
            link.set("title", f"{record.name}, {figure.column.title}{condition}: {figure.source.cited()}")
        return link, m.start(0), m.end(0)


class FiguresExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(FigureInlineProcessor(PATTERN, md), "openbook-figures", BEFORE_LINKS)


def makeExtension(**options) -> FiguresExtension:
    return FiguresExtension(**options)
