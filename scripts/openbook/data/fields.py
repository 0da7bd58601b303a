"""Takes the fields of a mapping one by one, with messages that name field, line and what was expected."""

import datetime
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from openbook.data.lines import Node
from openbook.data.problem import Problem

WORD = re.compile(r"[a-z][a-z0-9_]*")
IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9-]*")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\ue000-\uf8ff\u202a-\u202e\u2066-\u2069]")
ADDRESS = re.compile(r"https?://[^\s<>\"'`\\{}|^]+")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the most similar known word, else with all of them where they are few."""
    known = list(known)
    close = [other for other in known if other.casefold() == word.casefold()]
    close = close or difflib.get_close_matches(word, known, 1, 0.6)
    close = close or [other for other in known if len(word) > 2 and other.startswith(word)]
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known and len(known) <= 30 else ""


class Fields:
    """A mapping being read. `done()` reports the fields that nobody took."""

    def __init__(self, node: Node, what: str, problems: list[Problem]):
        self.node, self.what, self.problems = node, what, problems
        self.taken: list[str] = []
        self.items: dict[str, Node] = node.value if isinstance(node.value, dict) else {}
        if not isinstance(node.value, dict):
            self.bad(node.line, "wrong-type", f"{what} must be a mapping, not {node.kind()}")

    def bad(self, line: int, rule: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(line, rule, message, hint))

    def line(self, name: str) -> int:
        return self.items[name].line if name in self.items else self.node.line

    def take(self, name: str, required: bool = False) -> Node | None:
        """The field's node, None where it is absent or empty."""
        self.taken.append(name)
        node = self.items.get(name)
        if node is not None and node.value is not None:
            return node
        if node is None and required and isinstance(self.node.value, dict):
            self.bad(self.node.key_line or self.node.line, "missing-field", f"{self.what} has no {name!r}")
        elif node is not None and not any(problem.line == node.line for problem in self.problems):
            self.bad(node.line, "wrong-type", f"{name!r} of {self.what} is empty")
        return None

    def of(self, name: str, types: type | tuple[type, ...], expected: str, required: bool = False) -> Any:
        """The value of the field where it has one of the types."""
        node = self.take(name, required)
        if node is None:
            return None
        if not isinstance(node.value, types) or (isinstance(node.value, bool) and types is not bool):
            self.bad(node.line, "wrong-type", f"{name!r} of {self.what} must be {expected}, not {node.kind()}")
            return None
        return node.value

    def text(self, name: str, required: bool = False, pattern: re.Pattern[str] | None = None, limit: int = 400) -> str:
        """One line of plain text; "" where there is none."""
        value = self.of(name, str, "text", required)
        if value is None:
            return ""
        if problem := text_problem(value, limit):
            self.bad(self.line(name), "bad-text", f"{name!r} of {self.what} {problem}")
            return ""
        if pattern is not None and not pattern.fullmatch(value):
            self.bad(
                self.line(name), "bad-text", f"{name!r} of {self.what} is {value!r}, which must match {pattern.pattern}"
            )
            return ""
        return value.strip()

    def choice(self, name: str, known: Sequence[str], required: bool = False, default: str = "") -> str:
        value = self.of(name, str, f"one of {', '.join(known)}", required)
        if value is None:
            return default
        if value not in known:
            self.bad(self.line(name), "unknown-word", f"{name!r} of {self.what} is {value!r}", nearest(value, known))
            return default
        return value

    def number(self, name: str, required: bool = False, least: float | None = None) -> float | int | None:
        value = self.of(name, (int, float), "a number", required)
        if value is not None and least is not None and value < least:
            self.bad(self.line(name), "bad-number", f"{name!r} of {self.what} is {value:g}, below {least:g}")
            return None
        return value

    def date(self, name: str, required: bool = False) -> datetime.date | None:
        return self.of(name, datetime.date, "a date (YYYY-MM-DD)", required)

    def address(self, name: str, required: bool = False) -> str:
        value = self.text(name, required, limit=1000)
        if value and not ADDRESS.fullmatch(value):
            self.bad(self.line(name), "bad-text", f"{name!r} of {self.what} is {value!r}, not an http(s) address")
            return ""
        return value

    def texts(self, name: str, required: bool = False) -> list[str]:
        """A list of texts; a single text stands for a list of one."""
        node = self.take(name, required)
        if node is None:
            return []
        items = node.value if isinstance(node.value, list) else [node]
        found = []
        for item in items:
            if not isinstance(item.value, str) or text_problem(item.value, 200):
                expected = f"{name!r} of {self.what} must hold plain texts"
                self.bad(
                    item.line,
                    "wrong-type",
                    f"{expected}, not {item.kind()}" if not isinstance(item.value, str) else expected,
                )
            else:
                found.append(item.value)
        return found

    def mapping(self, name: str, required: bool = False) -> dict[str, Node]:
        return self.of(name, dict, "a mapping", required) or {}

    def list(self, name: str, required: bool = False) -> "list[Node]":
        return self.of(name, list, "a list", required) or []

    def known(self, name: str, value: str, where: Iterable[str], what: str) -> bool:
        """Whether a name is one of those known; reports it otherwise."""
        if value in (where := list(where)):
            return True
        self.bad(
            self.line(name), f"unknown-{what}", f"{self.what}: there is no {what} {value!r}", nearest(value, where)
        )
        return False

    def done(self) -> None:
        for name, node in self.items.items():
            if name not in self.taken:
                line = node.key_line or node.line
                self.bad(line, "unknown-field", f"{self.what} has an unknown field {name!r}", nearest(name, self.taken))


def text_problem(value: str, limit: int) -> str:
    """Why a text cannot stand on a page, or ""."""
    if not value.strip():
        return "is empty"
    if len(value) > limit:
        return f"is longer than {limit} characters"
    if CONTROL.search(value) or "\n" in value.strip():
        return "holds control characters or line breaks"
    return ""
