"""Is this the expected output? `...` stands for anything in a line, alone in a line for any lines."""

import difflib
import re
from collections.abc import Sequence

ANY = "..."


def normal(text: str) -> list[str]:
    """Lines without trailing blanks, and without blank lines around them."""
    return [line.rstrip() for line in text.expandtabs(4).strip("\n").rstrip().split("\n")]


def same_line(expected: str, line: str) -> bool:
    return re.fullmatch(".*?".join(re.escape(part) for part in expected.split(ANY)), line) is not None


def matches(expected: str, output: str) -> bool:
    """One pass over the expectation that keeps every place in the output it can have reached."""
    lines = normal(output)
    reached = {0}
    for wanted in normal(expected):
        if wanted.strip() == ANY:
            reached = set(range(min(reached), len(lines) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(lines) and same_line(wanted, lines[at])}
        if not reached:
            return False
    return len(lines) in reached


def difference(expected: str, output: str, most: int = 12) -> str:
    """The first lines of a unified diff from the expectation to the output."""
    lines: Sequence[str] = list(
        difflib.unified_diff(normal(expected), normal(output), "expected", "printed", "", "", 1)
    )
    shown = [line.rstrip("\n") for line in lines[2:]]
    return "\n".join(shown[:most] + (["…"] if len(shown) > most else []))
