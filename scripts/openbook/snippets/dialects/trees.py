"""C, C++ and CUDA: their syntax, by tree-sitter. It needs no compiler and takes fragments too."""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence

from openbook.snippets import tools
from openbook.snippets.dialects.base import Dialect, Found, Problem, Snippet

LONGEST = 60  # characters of the source that a message quotes
LAUNCH = re.compile(r"<<<[^;{}]*?>>>")  # the grammar reads one inside functions only


def checker(language: str) -> Callable[[Sequence[Snippet]], Found]:
    """A check by the grammar of PyPI's tree-sitter-LANGUAGE."""

    def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
        try:
            tree_sitter = importlib.import_module("tree_sitter")
            grammar = importlib.import_module(f"tree_sitter_{language}")
        except ModuleNotFoundError:
            tools.missed.add(f"tree-sitter-{language}")
            return
        parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
        for snippet in snippets:
            source = LAUNCH.sub(lambda match: "\n" * match[0].count("\n"), snippet.source)
            problem = mistake(parser.parse(source.encode()).root_node)
            if problem:
                yield snippet, problem

    return check


def mistake(root) -> Problem | None:
    """The first place that the grammar cannot read."""
    node = root
    while node.has_error and not (node.is_error or node.is_missing):
        node = next(child for child in node.children if child.has_error or child.is_missing)
    if not (node.is_error or node.is_missing):
        return None
    line = node.start_point[0] + 1
    if node.is_missing:
        return Problem(line, "c-syntax", f"{node.type!r} is missing")
    text = node.text.decode(errors="replace").strip().split("\n")[0]
    return Problem(line, "c-syntax", f"cannot be read: {text[:LONGEST]}")


C = Dialect("c", checker("cpp"), ("parse", "compile", "gpu"))
CPP = Dialect("cpp", checker("cpp"), ("parse", "compile", "gpu"), ("c++", "cc", "cxx"))
CUDA = Dialect("cuda", checker("cuda"), ("parse", "compile", "gpu"), ("cu",))
