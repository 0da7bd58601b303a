"""TeX formulas become MathML while a page is rendered.

pymdownx.arithmatex (generic) finds the formulas, math-core converts them, so that a page needs
no script for them. A formula that math-core does not know stops the build.
"""

from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from math_core import LatexError, LatexToMathML

AFTER_INLINE = 15  # the inline processor, which makes the spans, has priority 20


class MathMLTreeprocessor(Treeprocessor):
    def __init__(self, md: Markdown):
        super().__init__(md)
        self.converter = LatexToMathML(fancy_error=False)

    def run(self, root: Element) -> None:
        for element in root.iter():
            if "arithmatex" in element.get("class", "").split():
                self.convert(element)

    def convert(self, element: Element) -> None:
        tex = (element.text or "").strip()
        display = tex.startswith(r"\[")
        tex = tex[2:-2].strip()
        try:
            mathml = self.converter.convert_with_local_state(tex, displaystyle=display)
        except LatexError as problem:
            raise ValueError(f"formula {tex!r}: {problem}") from problem
        element.text = self.md.htmlStash.store(mathml)
        if display:  # a long formula scrolls inside its own box on a phone
            element.set("tabindex", "0")
            element.set("role", "group")
            element.set("aria-label", "Formula")


class MathsExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(MathMLTreeprocessor(md), "openbook-maths", AFTER_INLINE)


def makeExtension(**options) -> MathsExtension:
    return MathsExtension(**options)
