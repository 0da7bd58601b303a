"""A table whose first column has no head names its rows there: those cells become row heads.

A screen reader then reads the row's name with each cell, and no cell stands under an empty head.
"""

from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor

AFTER_INLINE = 14  # the inline processor, which fills the cells, has priority 20


class RowHeads(Treeprocessor):
    def run(self, root: Element) -> None:
        for table in root.iter("table"):
            corner = table.find("./thead/tr/th")
            if corner is not None and not len(corner) and not (corner.text or "").strip():
                corner.tag = "td"
                for row in table.iterfind("./tbody/tr"):
                    row[0].tag = "th"
                    row[0].set("scope", "row")


class RowHeadsExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(RowHeads(md), "openbook-row-heads", AFTER_INLINE)


def makeExtension(**options) -> RowHeadsExtension:
    return RowHeadsExtension(**options)
