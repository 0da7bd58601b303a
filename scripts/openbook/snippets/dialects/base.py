"""What a dialect is: a language of fences and how to check it without running it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """`line` counts from 1 in the snippet; 0 means the whole of it."""

    line: int
    rule: str
    message: str
    hint: str = ""
    severity: str = "error"


@dataclass(frozen=True, eq=False)
class Snippet:
    """A fence's source, or a whole file."""

    source: str
    level: str = "parse"
    within: frozenset[str] = frozenset()  # tags and classes around it on the page
    whole: bool = False  # a file, not a fence
    before: str = ""  # the earlier fences of its session


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


Found = Iterable[tuple[Snippet, Problem]]


@dataclass(frozen=True)
class Dialect:
    """`check` gets all snippets of the language at once, so that a slow tool starts once."""

    name: str
    check: Callable[[Sequence[Snippet]], Found]
    levels: tuple[str, ...] = ("parse",)  # the first is the default
    aliases: tuple[str, ...] = ()


def each(check: Callable[[Snippet], Iterable[Problem]]) -> Callable[[Sequence[Snippet]], Found]:
    """A check of one snippet, made into a check of many."""

    def check_all(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
        for snippet in snippets:
            for problem in check(snippet):
                yield snippet, problem

    return check_all
