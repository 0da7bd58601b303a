"""Hover text for terms of art: the first use of a term in each section becomes an `abbr`.

The glossary page is the one source. Its definition list is read with the same Markdown library:

    MFU
    model FLOPs utilisation
    :   Share of the peak that … (the first sentence is the hover text).
"""

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.extensions.toc import slugify
from markdown.treeprocessors import Treeprocessor

from openbook import ROOT

AFTER_MATHS = 14
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
# Where a hover would disturb: code, links, headings, and the definitions themselves.
UNTOUCHED = HEADINGS | {
    "a",
    "abbr",
    "code",
    "pre",
    "dl",
    "script",
    "style",
    "svg",
    "math",
    "button",
    "label",
    "summary",
}
FIRST_SENTENCE = re.compile(r"(.+?[.!?])(?=\s|$)", re.S)


class DuplicateTerm(ValueError):
    """A term is defined twice."""


def text_of(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def read_terms(page: Path) -> dict[str, str]:
    """The terms of a glossary page, each with the first sentence of its definition."""
    md = Markdown(extensions=["meta", "def_list", "md_in_html"])
    found: dict[str, str] = {}

    class Collect(Treeprocessor):
        def run(self, root: Element) -> None:
            for dl in root.iter("dl"):
                names: list[str] = []
                defined = False
                for child in dl:
                    if child.tag == "dt":
                        names = [text_of(child)] if defined else [*names, text_of(child)]
                        defined = False
                        continue
                    sentence = FIRST_SENTENCE.match(text_of(child))
                    for name in [] if defined else names:
                        if name in found:
                            raise DuplicateTerm(f"{page}: {name!r} is defined twice")
                        found[name] = sentence.group(1) if sentence else text_of(child)
                    defined = True

    md.treeprocessors.register(Collect(md), "collect", AFTER_MATHS)
    md.convert(page.read_text(encoding="utf-8"))
    return found


def is_word(term: str) -> bool:
    """Whether the first letter's case carries no meaning: "Bus bandwidth", "rank", not "MFU"."""
    return term[0].islower() or term[1:2].islower()


def pattern_of(terms: dict[str, str]) -> re.Pattern[str]:
    """One pattern for all terms, the longest first; words match capitalised and not, all match plurals."""
    if not terms:
        return re.compile(r"(?!)")
    shapes = []
    for term in sorted(terms, key=len, reverse=True):
        shape = re.escape(term)
        if is_word(term):
            shape = f"[{term[0].lower()}{term[0].upper()}]{shape[1:]}"
        shapes.append(f"{shape}s?")
    return re.compile(rf"(?<![\w/.-])(?:{'|'.join(shapes)})(?![\w/-])")


class GlossaryTreeprocessor(Treeprocessor):
    def __init__(self, md: Markdown, terms: dict[str, str]):
        super().__init__(md)
        self.terms = terms
        self.pattern = pattern_of(terms)
        self.seen: set[str] = set()

    def run(self, root: Element) -> None:
        self.seen = set()
        self.visit(root)

    def visit(self, element: Element) -> None:
        if "glossary" in element.get("class", "").split():
            for term in element.iter("dt"):
                term.set("id", slugify(text_of(term), "-"))
            return
        self.mark_text(element)
        for child in list(element):
            if child.tag in HEADINGS:
                self.seen = set()
            if isinstance(child.tag, str) and child.tag not in UNTOUCHED and not is_formula(child):
                self.visit(child)
            self.mark_tail(element, child)

    def term_of(self, word: str) -> str | None:
        candidates = [word, word[0].lower() + word[1:], word[0].upper() + word[1:]]
        candidates += [name[:-1] for name in candidates if name.endswith("s")]
        return next((name for name in candidates if name in self.terms), None)

    def split(self, text: str) -> tuple[str, list[Element]]:
        """The text before the first new term, and the `abbr` elements with what follows each."""
        head, end, marks = text, 0, []
        for match in self.pattern.finditer(text):
            term = self.term_of(match.group())
            if term is None or self.terms[term] in self.seen:
                continue
            self.seen.add(self.terms[term])
            before = text[end : match.start()]
            if marks:
                marks[-1].tail = before
            else:
                head = before
            mark = Element("abbr", {"title": self.terms[term]})
            mark.text = match.group()
            mark.tail = text[match.end() :]
            marks.append(mark)
            end = match.end()
        return head, marks

    def mark_text(self, element: Element) -> None:
        head, marks = self.split(element.text or "")
        if marks:
            element.text = head
            for position, mark in enumerate(marks):
                element.insert(position, mark)

    def mark_tail(self, parent: Element, child: Element) -> None:
        head, marks = self.split(child.tail or "")
        if marks:
            child.tail = head
            position = list(parent).index(child) + 1
            for offset, mark in enumerate(marks):
                parent.insert(position + offset, mark)


def is_formula(element: Element) -> bool:
    return "arithmatex" in element.get("class", "").split()


class GlossaryExtension(Extension):
    def __init__(self, **options):
        self.config = {"source": ["docs/reference/glossary.md", "The glossary page, from the root of the repository"]}
        super().__init__(**options)

    def extendMarkdown(self, md: Markdown) -> None:
        page = ROOT / self.getConfig("source")
        terms = read_terms(page)
        md.treeprocessors.register(GlossaryTreeprocessor(md, terms), "openbook-glossary", AFTER_MATHS)


def makeExtension(**options) -> GlossaryExtension:
    return GlossaryExtension(**options)
