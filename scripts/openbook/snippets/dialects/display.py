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


COMPILED = ("parse", "compile", "gpu")
DISPLAY = (
    Dialect("diff", each(diff)),
    Dialect("c", each(nothing), COMPILED),
    Dialect("cpp", each(nothing), COMPILED, ("c++",)),
    Dialect("cuda", each(nothing), ("parse", "gpu")),
    *(
        Dialect(name, each(nothing), ("shown",), aliases)
        for name, aliases in {
            "text": (),
            "html": (),
            "css": (),
            "javascript": ("js",),
            "markdown": ("md",),
            "dockerfile": (),
            "makefile": (),
            "xml": (),
            "sql": (),
            "bibtex": (),
        }.items()
    ),
)
