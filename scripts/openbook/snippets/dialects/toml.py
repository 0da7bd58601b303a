"""TOML: as Python's own reader takes it."""

import re
import tomllib
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each


def check(snippet: Snippet) -> Iterator[Problem]:
    try:
        tomllib.loads(snippet.source)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        line = re.search(r"at line (\d+)", str(problem))
        yield Problem(int(line[1]) if line else 0, "toml-syntax", str(problem) or "nested too deeply")


TOML = Dialect("toml", each(check))
