"""A figure of a record: a value, `none` (not applicable) or `unpublished` (looked for, not found)."""

import re
from collections.abc import Mapping

from openbook.data.fields import Fields, nearest
from openbook.data.lines import Node
from openbook.data.model import CONFIDENCES, Column, Figure, Source
from openbook.data.problem import Problem
from openbook.data.units import UNITS, UnitError, factor

DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")
STATES = ("value", "none", "unpublished")


def read_figures(
    node: Node, column: Column, what: str, sources: Mapping[str, Source], problems: list[Problem]
) -> tuple[Figure, ...]:
    """The figures under one column: one, or a list where sources disagree."""
    if not isinstance(node.value, list):
        found = read_figure(node, column, what, sources, problems)
        return (found,) if found else ()
    if len(node.value) < 2:
        problems.append(
            Problem(
                node.line, "wrong-type", f"{what} is a list of less than two", "a list is for sources that disagree"
            )
        )
    figures = [read_figure(item, column, what, sources, problems) for item in node.value]
    found = tuple(figure for figure in figures if figure)
    if any(figure.value is None for figure in found):
        problems.append(Problem(node.line, "no-value", f"{what}: in a list of sources that disagree each has a value"))
    elif len(found) > 1 and not found[0].choice:
        hint = "say on the first why the book uses it: choice: …"
        problems.append(
            Problem(found[0].line, "no-choice", f"{what}: sources disagree and no choice is explained", hint)
        )
    return found


def read_figure(
    node: Node, column: Column, what: str, sources: Mapping[str, Source], problems: list[Problem]
) -> Figure | None:
    before = len(problems)
    fields = Fields(node, what, problems)
    given = [state for state in STATES if state in fields.items]
    if isinstance(node.value, dict) and len(given) != 1:
        has = f"has {' and '.join(given)}" if given else "has none of them"
        fields.bad(node.line, "no-value", f"{what} needs exactly one of value, none, unpublished; it {has}")
    value = _value(fields, column) if "value" in given else None
    source = sources.get(_source(fields, sources, required="value" in given))
    unit = _unit(fields, column)
    figure = Figure(
        column=column,
        line=node.key_line or node.line,
        value=value,
        none=fields.text("none"),
        unpublished=fields.text("unpublished"),
        unit=unit,
        condition=fields.text("condition"),
        source=source,
        confidence=fields.choice(
            "confidence", CONFIDENCES, default="medium" if source and source.kind == "press" else "high"
        ),
        note=fields.text("note"),
        derived=fields.text("derived", limit=200),
        text=fields.text("text", limit=60),
        choice=fields.text("choice"),
    )
    fields.taken += STATES
    fields.done()
    return figure if len(problems) == before else None


def _value(fields: Fields, column: Column) -> float | int | str | None:
    if column.is_number:
        return fields.number("value", required=True)
    node = fields.take("value", required=True)
    if node is None:
        return None
    value = str(node.value) if column.unit == "date" and not isinstance(node.value, (dict, list, bool)) else node.value
    if not isinstance(value, str):
        fields.bad(node.line, "wrong-type", f"'value' of {fields.what} must be {column.unit}, not {node.kind()}")
        return None
    if column.unit == "date" and not DATE.fullmatch(value):
        fields.bad(node.line, "bad-date", f"'value' of {fields.what} is {value!r}: YYYY, YYYY-MM or YYYY-MM-DD")
        return None
    return value if node.value is not value else fields.text("value")


def _source(fields: Fields, sources: Mapping[str, Source], required: bool) -> str:
    if required and "source" not in fields.items:
        fields.bad(
            fields.node.line, "no-source", f"{fields.what} has a value and no source", "source: <id under sources>"
        )
    name = fields.text("source")
    if name and name not in sources:
        fields.bad(
            fields.line("source"), "no-source", f"{fields.what}: there is no source {name!r}", nearest(name, sources)
        )
    return name


def _unit(fields: Fields, column: Column) -> str:
    unit = fields.text("unit") or column.unit
    if unit not in UNITS:
        fields.bad(fields.line("unit"), "wrong-unit", f"{fields.what}: unknown unit {unit!r}", nearest(unit, UNITS))
        return column.unit
    try:
        factor(unit, column.unit)
    except UnitError as problem:
        fields.bad(fields.line("unit"), "wrong-unit", f"{fields.what}: {problem}")
        return column.unit
    return unit
