"""The nearest thing that exists, for the hint of a finding."""

import os
from difflib import get_close_matches
from pathlib import PurePosixPath
from urllib.parse import unquote

from openbook.links.address import page_path
from openbook.links.book import Book
from openbook.links.check import Result
from openbook.links.problem import Problem
from openbook.links.rules import is_page

_COMMON = {"", "index.md", "README.md"}  # names that say nothing
_LIMIT = 200  # problems that get a hint; a site with more has one cause, and comparing names costs time


class Suggester:
    """Finds existing files and anchors that resemble the ones that are missing."""

    def __init__(self, result: Result, book: Book | None):
        self.result, self.book = result, book
        self._left = _LIMIT
        self._pages = sorted(name for name in result.site.files if is_page(name))
        self._others = sorted(name for name in result.site.files if not is_page(name))
        self._known: dict[tuple[str, str], str] = {}

    def hint(self, problem: Problem) -> str:
        """A sentence for the author, or nothing."""
        if problem.hint or problem.rule not in ("missing-target", "missing-anchor", "case-mismatch", "lost-anchor"):
            return problem.hint
        key = (problem.page, problem.target)
        if key not in self._known:
            if not self._left:
                return ""
            self._left -= 1
            anchor = problem.rule in ("missing-anchor", "lost-anchor")
            self._known[key] = self._anchor(problem) if anchor else self._target(problem)
        return self._known[key]

    def _anchor(self, problem: Problem) -> str:
        file, _, name = problem.target.partition("#")
        report = self.result.reports.get(file)
        ids = sorted(report.ids) if report else []
        if same := [each for each in ids if each.casefold() == name.casefold()]:
            return f"letter case counts in anchors: #{same[0]}"
        if near := get_close_matches(name, ids, 1, 0.6) or _sharing_words(name, ids):
            return f"nearest: {self._address(problem, file)}#{near[0]}"
        others = [other for other, report in self.result.reports.items() if name in report.ids and len(name) > 3]
        if others:
            return f"that anchor is on {', '.join(self._address(problem, other) for other in others[:3])}"
        return ""

    def _target(self, problem: Problem) -> str:
        path = problem.target.partition("#")[0]
        url = problem.url.partition("#")[0].partition("?")[0]
        if url.startswith("www."):
            return f"an address on another site starts with its scheme: https://{url}"
        if "@" in url and "/" not in url:
            return f"an e-mail address is written mailto:{url}"
        if built := self._built_from(problem, url):
            return f"in raw HTML a link names the built page: {built}"
        if path.removesuffix("/index.html") in self.result.site.files:
            return "a file is linked without the slash at its end"
        if path.removesuffix("/index.html") + ".html" in self.result.site.files:
            return f"there is {path.removesuffix('/index.html')}.html"
        sources = self.book.sources if self.book else {}
        if problem.page in sources and url.endswith(".md"):
            own = sources[problem.page]
            wanted = os.path.normpath(os.path.join(os.path.dirname(own), unquote(url)))
            near = _nearest(wanted, sorted(sources.values()))
            return f"nearest: {self._relative(own, near)}" if near else ""
        near = _nearest(path, self._pages if is_page(path) else self._others)
        return f"nearest: {self._address(problem, near) or 'this page itself'}" if near else ""

    def _built_from(self, problem: Problem, url: str) -> str:
        """The built address of a Markdown file that exists but was linked from raw HTML."""
        if self.book is None or not url.endswith(".md"):
            return ""
        own = self.book.sources.get(problem.page, problem.page)
        source = os.path.normpath(os.path.join(os.path.dirname(own), url))
        page = next((page for page, known in self.book.sources.items() if known == source), None)
        return self._relative(page_path(problem.page), page_path(page)) if page else ""

    def _address(self, problem: Problem, file: str) -> str:
        """A file as the page's author would write it: by its Markdown file where both have one."""
        if file == problem.page:
            return ""
        sources = self.book.sources if self.book else {}
        if problem.page in sources:
            return self._relative(sources[problem.page], sources.get(file, file))
        return self._relative(page_path(problem.page), page_path(file))

    @staticmethod
    def _relative(start: str, to: str) -> str:
        path = os.path.relpath("/" + to, "/" + os.path.dirname(start))
        return path + "/" if to.endswith("/") or not to else path


def _nearest(path: str, names: list[str]) -> str:
    """The file of the same name in another folder, one whose whole path resembles it, or one of a similar name."""
    ends: dict[str, list[str]] = {}
    for name in names:
        ends.setdefault(PurePosixPath(page_path(name)).name, []).append(name)
    end = PurePosixPath(page_path(path)).name
    if end in _COMMON:
        return next(iter(get_close_matches(path, names, 1, 0.8)), "")
    if end not in ends:
        if near := get_close_matches(path, names, 1, 0.8):
            return near[0]
        similar = get_close_matches(end, ends.keys() - _COMMON, 1, 0.7)
        if not similar:
            return ""
        end = similar[0]
    return get_close_matches(path, ends[end], 1, 0.0)[0]


def _sharing_words(name: str, ids: list[str]) -> list[str]:
    """The shortest anchor that has all words of the missing one, or of which it has all words."""
    words = set(name.casefold().split("-"))
    sharing = [each for each in ids if (other := set(each.casefold().split("-"))) >= words or other <= words]
    return sorted(sharing, key=len)[:1]
