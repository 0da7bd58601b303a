"""Checks that run nothing of a snippet: all fences of a language at once, and whole files."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from openbook.findings import Finding, Misuse
from openbook.snippets import tools
from openbook.snippets.collect import Item
from openbook.snippets.dialects import BY_SUFFIX, EVERY
from openbook.snippets.dialects.base import Dialect, Problem, Snippet

UNCHECKED = ("skip", "own", "unknown")


def snippet_of(item: Item) -> Snippet:
    before = "\n".join(earlier.fence.source for earlier in item.before)
    return Snippet(item.fence.source, item.level, item.fence.within, before=before)


def finding_of(item: Item, problem: Problem) -> Finding:
    line, hint = item.fence.line_of(problem.line), problem.hint
    if item.fence.lines.count(line) > 1:
        hint = f"{hint}; " if hint else ""
        hint += f"line {problem.line} of the fence, which an include of line {line} fills"
    return Finding(item.fence.path, line, 0, problem.rule, problem.severity, clipped(problem.message), hint)


def clipped(text: str, most: int = 300) -> str:
    """A message that quotes a page without end has one."""
    return text if len(text) <= most else text[:most] + " …"


def check(items: Iterable[Item]) -> Iterator[Finding]:
    """Findings for fences."""
    by_dialect: dict[str, list[Item]] = {}
    for item in items:
        if item.dialect and item.level not in UNCHECKED:
            by_dialect.setdefault(item.dialect.name, []).append(item)
    todo = [(dialect, {snippet_of(item): item for item in by_dialect.get(dialect.name, [])}) for dialect in EVERY]
    for snippets, problems in tools.together(lambda one: (one[1], list(one[0].check(list(one[1])))), todo):
        for snippet, problem in problems:
            yield finding_of(snippets[snippet], problem)


def check_files(files: Sequence[tuple[Path, str]]) -> Iterator[Finding]:
    """Findings for files beside pages; each comes with the name that results call it by."""
    by_dialect: dict[str, tuple[Dialect, dict[Snippet, str]]] = {}
    for path, name in files:
        try:
            source = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as problem:
            raise Misuse(f"{name}: not UTF-8 (byte {problem.start + 1}): save it as UTF-8") from problem
        dialect = BY_SUFFIX[path.suffix]
        by_dialect.setdefault(dialect.name, (dialect, {}))[1][Snippet(source, whole=True)] = name
    for dialect, snippets in by_dialect.values():
        for snippet, found in dialect.check(list(snippets)):
            yield Finding(
                snippets[snippet], found.line, 0, found.rule, found.severity, clipped(found.message), found.hint
            )
