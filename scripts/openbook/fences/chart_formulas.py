"""Formulas over named values, of which some are figures of docs/data."""

from collections.abc import Collection, Mapping

from openbook.data.fields import Fields
from openbook.data.lines import Node
from openbook.data.load import Data, UnknownName
from openbook.data.model import Figure, Record
from openbook.data.problem import Problem
from openbook.data.show import number, unit_shown
from openbook.expressions import Expression, ExpressionError, parse


class Formulas:
    """One series or point being read: its formulas over x and its named values."""

    def __init__(self, node: Node, what: str, data: Data, problems: list[Problem]):
        self.fields = Fields(node, what, problems)
        self.title = self.fields.text("title", required=True, limit=40)
        self.values: dict[str, float] = {}
        self.sources: list[tuple[str, Record, Figure]] = []
        self.texts: dict[str, str] = {}
        for name, item in self.fields.mapping("values").items():
            self._value(name, item, data)

    def _value(self, name: str, item: Node, data: Data) -> None:
        if isinstance(item.value, (int, float)) and not isinstance(item.value, bool):
            self.values[name] = item.value
            self.texts[name] = number(item.value)
            return
        try:
            record, figure = data.figure(str(item.value))
        except UnknownName as problem:
            self.fields.bad(item.line, "unknown-figure", f"{self.fields.what}: {name}: {problem}")
            return
        value = figure.in_unit()
        if not isinstance(value, (int, float)):
            self.fields.bad(item.line, "no-value", f"{self.fields.what}: {item.value} holds no number")
            return
        self.values[name] = value
        self.texts[name] = f"{number(value)} {unit_shown(figure.column.unit)}".strip()
        self.sources.append((name, record, figure))

    def formula(self, name: str, known: Collection[str]) -> Expression | None:
        node = self.fields.take(name, required=True)
        if node is None or isinstance(node.value, (dict, list, bool)):
            if node is not None:
                self.fields.bad(node.line, "wrong-type", f"{name!r} of {self.fields.what} must be a formula")
            return None
        try:
            return parse(str(node.value), {*known, *self.values})
        except ExpressionError as problem:
            self.fields.bad(node.line, "bad-formula", f"{self.fields.what}: {problem}")
            return None

    def number(self, name: str, expression: Expression, more: Mapping[str, float]) -> float | None:
        try:
            return expression.number({**self.values, **more})
        except ExpressionError as problem:
            at = ", ".join(f"{key} = {value:g}" for key, value in more.items())
            self.fields.bad(self.fields.line(name), "bad-formula", f"{self.fields.what}: {problem}" + (f" at {at}" if at else ""))  # fmt: skip
            return None
