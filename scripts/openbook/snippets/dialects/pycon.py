"""Python sessions with `>>>`: every example compiles."""

import doctest
import re
import warnings
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each


def check(snippet: Snippet) -> Iterator[Problem]:
    try:
        examples = doctest.DocTestParser().get_examples(snippet.source)
    except ValueError as problem:  # "line 3 of the docstring for … has inconsistent leading whitespace: …"
        told = re.match(r"line (\d+) of the docstring for \S+ (.*)", str(problem), re.S)
        yield Problem(int(told[1]) if told else 0, "pycon-syntax", told[2] if told else str(problem))
        return
    if not examples:
        yield Problem(1, "no-prompt", "no line starts with >>>", "a program without prompts is a python fence")
    for example in examples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compile(example.source, "<snippet>", "single")
            except SyntaxError as problem:
                line = example.lineno + (problem.lineno or 1)
                yield Problem(line, "pycon-syntax", problem.msg)
            except (ValueError, RecursionError, MemoryError) as problem:
                yield Problem(example.lineno + 1, "pycon-syntax", str(problem) or "nested too deeply to parse")


PYCON = Dialect("pycon", each(check), ("parse", "run", "gpu"))
