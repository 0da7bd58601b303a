"""INI files: sections of options, none of them twice."""

import configparser
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each


def problems(snippet: Snippet) -> Iterator[Problem]:
    parser = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    try:
        parser.read_string(snippet.source)
    except configparser.ParsingError as problem:
        for line, text in getattr(problem, "errors", None) or [(problem.lineno, problem.line)]:
            yield Problem(line, "ini-syntax", f"neither a section nor an option: {text.strip()}")
    except configparser.Error as problem:
        message = str(problem).split(": ", 1)[-1].replace("\n", " ")
        yield Problem(getattr(problem, "lineno", None) or 0, "ini-syntax", message)


INI = Dialect("ini", each(problems), aliases=("cfg",))
