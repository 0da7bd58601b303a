"""From a problem of a built page to the line of the file that an author can mend."""

import html
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from urllib.parse import unquote

from openbook.links import literal
from openbook.links.address import page_path
from openbook.links.book import Book
from openbook.links.fences import fences, holding
from openbook.links.leaks import WRAPPED
from openbook.links.markdown import Destination, Place, Source
from openbook.links.problem import THEME, Problem
from openbook.links.site import Site, folded

_TEXT = (".yml", ".yaml", ".csv", ".json", ".html", ".md", ".css", ".js", ".toml")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*$", re.MULTILINE)


class Tracer:
    """Finds the source of problems. Without a book, a problem stands in the built file itself."""

    def __init__(self, site: Site, book: Book | None, shown_root: str = ""):
        self.site, self.book, self.shown_root = site, book, shown_root
        self._sources: dict[str, Source | None] = {}
        self._pages = {source: page for page, source in book.sources.items()} if book else {}

    def source(self, page: str) -> Source | None:
        """The Markdown of a page, or None for a page that was not written in Markdown."""
        if self.book is None or page not in self.book.sources:
            return None
        if page not in self._sources:
            file = self.book.docs / self.book.sources[page]
            self._sources[page] = Source.read(file, self.book.snippet_bases, self.book.appended)
        return self._sources[page]

    def trace(self, problem: Problem) -> tuple[str, int, int, str] | None:
        """(path, line, column, remark) of a problem; None when the source shows that it is meant as it is."""
        own = problem.target.partition("#")[0] == problem.page  # such as the table of contents
        source = self.source(problem.page) if problem.nth != THEME or own else None
        if source is not None:
            if problem.literal:
                places = self._literal(source, problem)
                if places is None:
                    return None
            else:
                places = self._linked(source, problem) if problem.url or problem.rule == "empty-href" else []
            if places:
                return self._shown(_pick(places, problem.nth))
            if place := self._elsewhere(problem):
                return self._shown(place)
            if places := self._fenced(source, problem):
                return self._shown(_pick(places, problem.nth))
            path, line, _, _ = self._shown(self._in_file(problem))
            remark = f"not found in the source; it stands in {path}:{line}" if problem.url or problem.literal else ""
            return self._shown(Place(source.file, 1, 0), remark)
        if problem.nth == THEME and self.book is not None:
            return self._shown(self._elsewhere(problem) or Place(self.book.file, 0, 0))
        return self._shown(self._in_file(problem))

    def refined(self, problem: Problem) -> Problem:
        """A missing Markdown file that exists in other letter case is that kind of problem."""
        if self.book is None or problem.rule != "missing-target" or problem.page not in self.book.sources:
            return problem
        path = unquote(problem.url.partition("#")[0].partition("?")[0])
        own = os.path.dirname(self.book.sources[problem.page])
        wanted = os.path.normpath(os.path.join(own, path))
        spelt = next((name for name in self._pages if folded(name) == folded(wanted)), wanted)
        if wanted == spelt or problem.nth == THEME:
            return problem
        message = f"the link to {problem.url} finds its page only where letter case does not count"
        return replace(
            problem,
            rule="case-mismatch",
            message=message,
            hint=f"the file is {os.path.relpath(spelt, own or '.')}",
        )

    def _linked(self, source: Source, problem: Problem) -> list[Place]:
        if found := [each for each in source.destinations if self._leads(each, problem)]:
            return [source.place(each.at) for each in found]
        # addresses in code are looked at last: the book's own fences hold some
        if found := [each for each in source.all_destinations if self._leads(each, problem)]:
            return [source.place(each.at) for each in found]
        # a heading's own link and the table of contents are made from the heading
        name = unquote(problem.url.partition("#")[2])
        headings = _HEADING.finditer(source.clear) if name and problem.url.startswith("#") else ()
        return [source.place(match.start()) for match in headings if _slug(match[1]) == name]

    def _leads(self, written: Destination, problem: Problem) -> bool:
        """Whether an address in the source is the one that the built page has as `problem.url`."""
        address = written.address
        if address == problem.url or unquote(address) == unquote(problem.url):
            return True
        if written.written_as != "markdown" or not problem.target or not self.book:
            return False
        path, _, fragment = address.partition("#")
        path, wanted = unquote(path.partition("?")[0]), problem.target.partition("#")
        if unquote(fragment.partition(":~:")[0]) != unquote(wanted[2]):
            return False
        own = self.book.sources[problem.page]
        joined = os.path.normpath(os.path.join(os.path.dirname(own), path)) if path else own
        return self._pages.get(joined, joined) in (wanted[0], page_path(wanted[0]).rstrip("/"))

    def _literal(self, source: Source, problem: Problem) -> list[Place] | None:
        if problem.rule == "duplicate-id":
            name = re.escape(problem.literal)
            found = list(re.finditer(rf"""\{{[^}}\n]*#{name}[\s}}]|\bid\s*=\s*["']?{name}["'\s>}}]""", source.text))
            if not found:  # an id made from the words of a line, such as a term of a glossary
                lines = re.finditer(r"^[^\s#].*$", source.clear, re.MULTILINE)
                found = [match for match in lines if _slug(match[0]) == problem.literal]
            return [source.place(match.start()) for match in found[-1:]]
        if problem.message.endswith(WRAPPED):
            at = source.text.find(problem.literal)
            return [source.place(at)] if at >= 0 else []
        found = literal.occurrences(source.clear, problem.literal)
        return None if found is None else [source.place(at) for at in found]

    def _fenced(self, source: Source, problem: Problem) -> list[Place]:
        """The first line of the fence whose rendering holds the problem."""
        if self.book is None or not self.book.fences or not (problem.url or problem.literal):
            return []
        held = holding(self.site.page(problem.page), self.book.fences, problem)
        lines: dict[str, list[int]] = {}
        for fence in fences(source.text, self.book.fences) if held else ():
            lines.setdefault(fence.language, []).append(fence.line)
        places = [
            source.place(source.starts[lines[language][number]])
            for language, number in held
            if number < len(lines.get(language, ()))
        ]
        return places[-1:] if problem.rule == "duplicate-id" else places

    def _elsewhere(self, problem: Problem) -> Place | None:
        """The first place in data files, the configuration or the theme that holds the address."""
        wanted = [part for part in (problem.literal, problem.url) if len(part) > 2]
        if problem.nth == THEME and self.book:
            file = problem.target.partition("#")[0]
            wanted += [part for part in (self.book.sources.get(file), page_path(file).rstrip("/")) if part]
        for text, file in self._others:
            for part in wanted:
                if (at := text.find(part)) >= 0:
                    return _place(file, text, at)
        return None

    @cached_property
    def _others(self) -> list[tuple[str, Path]]:
        assert self.book is not None
        files = [self.book.file]
        for folder in (self.book.docs / "data", self.book.theme):
            if folder is not None and folder.is_dir():
                files += sorted(path for path in folder.rglob("*") if path.suffix in _TEXT and path.is_file())
        return [(_read(path), path) for path in files]

    def _in_file(self, problem: Problem) -> Place:
        """The place in the file itself: in docs when it was copied from there, else in the built site."""
        path = self.site.root / problem.page
        copied = self.book.docs / problem.page if self.book else None
        if copied is not None and copied.is_file():
            path = copied
        text = _read(path)
        return next(self._spots(text, path, problem), Place(path, 0 if problem.nth == THEME else 1, 0))

    def _spots(self, text: str, path: Path, problem: Problem) -> Iterator[Place]:
        if problem.rule == "duplicate-id":
            found = list(re.finditer(rf"""\bid\s*=\s*["']?{re.escape(problem.literal)}["'\s>]""", text))[1:2]
        elif problem.literal:
            found = list(literal.patterns(problem.literal)[0].finditer(text))
        elif problem.rule == "empty-href":
            found = list(re.finditer(r"""\b(?:href|src|poster|data)(?:\s*=\s*(?:""|'')|(?=[\s>]))""", text))
        elif not problem.url:
            found = []
        else:
            shapes = {problem.url, html.escape(problem.url), problem.url.replace("&", "&amp;")}
            every = [match for shape in sorted(shapes) for match in re.finditer(re.escape(shape), text)]
            every.sort(key=re.Match.start)
            found = [match for match in every if _is_value(text, match)] or every
        places = [_place(path, text, match.start()) for match in found]
        if places:
            yield _pick(places, problem.nth)

    def _shown(self, place: Place, remark: str = "") -> tuple[str, int, int, str]:
        return self.shown(place.file), place.line, place.column, remark

    def shown(self, file: Path) -> str:
        """The path relative to the working directory, or to the site when that was built for this run only."""
        path = os.path.abspath(file)
        root = os.path.abspath(self.site.root)
        if self.shown_root and path.startswith(root + os.sep):
            path = self.shown_root + "/" + os.path.relpath(path, root)
        elif path.startswith(os.getcwd() + os.sep):
            path = os.path.relpath(path)
        return path.replace(os.sep, "/")


@lru_cache(maxsize=16)
def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _slug(heading: str) -> str:
    """The anchor of a heading: its explicit id, or its words in lower case with hyphens."""
    if explicit := re.search(r"\{[^}]*#([\w.:-]+)[^}]*\}\s*#*$", heading):
        return explicit[1]
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _pick(places: list[Place], nth: int) -> Place:
    return places[min(max(nth, 0), len(places) - 1)]


def _is_value(text: str, match: re.Match[str]) -> bool:
    """Whether the match is a whole value of an attribute, or a whole part of one."""
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    return before in tuple("\"'= ,(\n") and after in tuple("\"'> ,)\n")


def _place(file: Path, text: str, at: int) -> Place:
    start = text.rfind("\n", 0, at) + 1
    return Place(file, text.count("\n", 0, at) + 1, at - start + 1)
