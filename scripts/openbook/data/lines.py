"""YAML with the line of every key and value, restricted to what data needs.

Refused, each with its line: anchors and aliases (a few of them can stand for gigabytes), tags, merge
keys, duplicate keys, several documents, NaN, infinities, numbers beyond any quantity, deep nesting.
Scalars are read as in YAML 1.2: `no` and `on` are text, `1e6` is a number.
"""

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from openbook.data.problem import Problem

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast

MAX_BYTES = 2_000_000
MAX_DEPTH = 10
MAX_NUMBER = 1e40  # the largest that pages need is the range of bfloat16, 3.4e38

INTEGER = re.compile(r"[-+]?[0-9]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
ENDLESS = re.compile(r"[-+]?\.(inf|nan)|[-+]?(inf|infinity|nan)", re.I)
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True)
class Node:
    """A value and where it stands. `value` is a scalar, a list of nodes, or a dict of text to nodes."""

    value: Any
    line: int
    column: int
    key_line: int = 0  # of the key that it belongs to

    def kind(self) -> str:
        """The type in words."""
        names = {dict: "a mapping", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
        return "a date" if isinstance(self.value, datetime.date) else names.get(type(self.value), "nothing")

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value


class Refused(Exception):
    """Reading stops here."""

    def __init__(self, mark: Any, message: str, hint: str = "", rule: str = "yaml"):
        super().__init__(message)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        self.problem = Problem(line, rule, message, hint, column=column)


class Reader:
    """Builds nodes from the parser's events; problems that leave a tree are collected."""

    def __init__(self, text: str):
        self.problems: list[Problem] = []
        self.events: Iterator[Any] = yaml.parse(text, Loader)

    def read(self) -> Node | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise Refused(event.start_mark, "a second document (`---`)", "one document a file")
                root = self.node(next(self.events), 0)
        return root

    def node(self, event: Any, depth: int) -> Node:
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise Refused(mark, f"an alias (*{event.anchor}) is not allowed", "write the value out", "yaml-alias")
        if event.anchor is not None:
            raise Refused(mark, f"an anchor (&{event.anchor}) is not allowed", "write the value out", "yaml-alias")
        if event.tag is not None and event.tag != "!":  # "!" is how the C parser calls quoted text
            raise Refused(mark, f"a tag ({event.tag}) is not allowed", "plain YAML only", "yaml-tag")
        if depth > MAX_DEPTH:
            raise Refused(mark, f"nested deeper than {MAX_DEPTH} levels")
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self.mapping(depth), line, column)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                items.append(self.node(event, depth + 1))
            return Node(items, line, column)
        value = self.scalar(event, line, column) if event.style in (None, "") else event.value
        return Node(value, line, column)

    def mapping(self, depth: int) -> dict[str, Node]:
        items: dict[str, Node] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise Refused(event.start_mark, "a key must be plain text")
            key, mark = event.value, event.start_mark
            if event.anchor is not None or event.tag not in (None, "!"):
                raise Refused(mark, "a key must be plain text, without anchor or tag")
            if key == "<<":
                raise Refused(mark, "a merge key (<<) is not allowed", "write the fields out", "yaml-alias")
            child = self.node(next(self.events), depth + 1)
            if key in items:
                hint = f"the first is on line {items[key].key_line}"
                self.problem(mark.line + 1, mark.column + 1, "duplicate-key", f"the key {key!r} stands twice", hint)
                continue
            items[key] = Node(child.value, child.line, child.column, mark.line + 1)
        return items

    def scalar(self, event: Any, line: int, column: int) -> Any:
        text = event.value
        if text in WORDS:
            return WORDS[text]
        if ENDLESS.fullmatch(text):
            self.problem(
                line, column, "bad-number", f"{text} is not a number that can be shown", "leave the figure out"
            )
            return None
        if INTEGER.fullmatch(text) or FLOAT.fullmatch(text):
            return self.number(text, line, column)
        if DATE.fullmatch(text):
            try:
                return datetime.date.fromisoformat(text)
            except ValueError as problem:
                self.problem(line, column, "bad-date", f"{text}: {problem}")
                return None
        return text

    def number(self, text: str, line: int, column: int) -> int | float | None:
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0" and INTEGER.fullmatch(text):
            self.problem(line, column, "bad-number", f"{text[:40]} begins with a zero", 'quote it if it is text: "…"')
            return None
        if len(text) > 60 or abs(float(text)) > MAX_NUMBER:
            shown = text if len(text) <= 20 else f"{text[:20]}…"
            self.problem(line, column, "bad-number", f"{shown} is larger than any quantity here (limit {MAX_NUMBER:g})")
            return None
        return int(text) if INTEGER.fullmatch(text) else float(text)

    def problem(self, line: int, column: int, rule: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(line, rule, message, hint, column=column))


def read(text: str) -> tuple[Node | None, list[Problem]]:
    """The root node, None where nothing can be read, and what is wrong."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return None, [Problem(0, "yaml", f"longer than {MAX_BYTES:,} bytes")]
    try:
        reader = Reader(text)
        root = reader.read()
    except Refused as refused:
        return None, [refused.problem]
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = min(mark.line, max(0, len(text.splitlines()) - 1)) + 1 if mark else 1  # the end counts as the last line
        what = problem.problem or problem.context or "not YAML"
        hint = "quote text that holds `: `, ` #` or begins with `[{*&!|>%@`"
        return None, [Problem(line, "yaml", f"not valid YAML: {what}", hint)]
    except yaml.YAMLError as problem:
        line = text.count("\n", 0, getattr(problem, "position", 0)) + 1
        return None, [Problem(line, "yaml", f"not valid YAML: {getattr(problem, 'reason', problem)}")]
    return root, reader.problems
