"""Languages that a page only shows."""

import re
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each

HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def nothing(snippet: Snippet) -> Iterator[Problem]:
    return iter(())


def diff(snippet: Snippet) -> Iterator[Problem]:
    for number, line in enumerate(snippet.source.split("\n"), 1):
        if line.startswith("@@") and not HUNK.match(line):
            yield Problem(number, "diff-hunk", "not a hunk header", "as in @@ -1,4 +1,5 @@")


DISPLAY = (
    Dialect("diff", each(diff)),
    *(
        Dialect(name, each(nothing), ("shown",), aliases)
        for name, aliases in {
            "text": (),
            "html": (),
            "css": (),
            "javascript": ("js",),
            "markdown": ("md",),
            "makefile": (),
            "xml": (),
            "sql": (),
            "bibtex": (),
        }.items()
    ),
)
