"""One kind of result for every checker, and the reporters that print it."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

SEVERITIES = ("error", "warning", "notice")
FORMATS = ("text", "github", "json")

OK, FOUND, MISUSE = 0, 1, 2


class Misuse(Exception):
    """The checker cannot start or go on; its message says what to mend. Exit code 2."""


@dataclass(frozen=True, order=True)
class Finding:
    """A place in the book and what is wrong there.

    `path` is relative to the working directory where that is possible, `line` and `column`
    count from 1; 0 means that the whole file is meant.
    """

    path: str
    line: int
    column: int
    rule: str
    severity: str
    message: str
    hint: str = ""
    target: str = ""

    def __post_init__(self):
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity {self.severity!r}: one of {', '.join(SEVERITIES)}")


def as_text(finding: Finding) -> str:
    place = finding.path + (f":{finding.line}" if finding.line else "")
    place += f":{finding.column}" if finding.line and finding.column else ""
    hint = f"\n    {finding.hint}" if finding.hint else ""
    return f"{place}: {finding.severity} [{finding.rule}] {finding.message}{hint}"


def as_github(finding: Finding) -> str:
    """A workflow command: GitHub shows it on the line of the file.

    Source: "Workflow commands for GitHub Actions", docs.github.com.
    """

    def escaped(text: str, also: str = "") -> str:
        for char in "%\r\n" + also:
            text = text.replace(char, f"%{ord(char):02X}")
        return text

    places = {"file": finding.path, "line": finding.line, "col": finding.column, "title": finding.rule}
    fields = ",".join(f"{key}={escaped(str(value), ':,')}" for key, value in places.items() if value)
    text = finding.message + (f"\n{finding.hint}" if finding.hint else "")
    return f"::{finding.severity} {fields}::{escaped(text)}"


def as_json(finding: Finding) -> str:
    return json.dumps(asdict(finding), ensure_ascii=False)


REPORTERS: dict[str, Callable[[Finding], str]] = {"text": as_text, "github": as_github, "json": as_json}


def report(findings: Iterable[Finding], format: str = "text", out: TextIO | None = None) -> int:
    """Print the findings in order of place; return the exit code (0 none, 1 some).

    A notice is printed but is no reason to fail.
    """
    out = out or sys.stdout
    code = OK
    for finding in sorted(findings):
        print(REPORTERS[format](finding), file=out)
        if finding.severity != "notice":
            code = FOUND
    return code


def run(main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None = None) -> int:
    """Call a checker's `main`; a Misuse becomes one line on stderr and exit code 2."""
    try:
        code = main(argv)
        sys.stdout.flush()
        return code
    except Misuse as problem:
        print(f"error: {problem}", file=sys.stderr)
        return MISUSE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left unwritten has no reader
        return FOUND
