"""A topic file → a Topic, or what is wrong with it, each with its line."""

from collections.abc import Iterator
from typing import Any

from openbook.data.fields import IDENTIFIER, WORD, Fields, nearest
from openbook.data.figure import read_figures
from openbook.data.lines import Node
from openbook.data.model import (
    ATTRIBUTES,
    DIRECTIONS,
    PERS,
    SOURCE_KINDS,
    STATUSES,
    Column,
    Identity,
    Record,
    Source,
    Topic,
)
from openbook.data.problem import Problem
from openbook.data.units import UNITS

TAKEN_NAMES = {"id", "name", *ATTRIBUTES}


def read_topic(root: Node, name: str, path: str, problems: list[Problem]) -> Topic:
    """Whatever of the topic can be read; the rest is in `problems`."""
    fields = Fields(root, "the file", problems)
    topic = fields.text("topic", required=True, pattern=WORD)
    if topic and topic != name:
        fields.bad(fields.line("topic"), "wrong-topic", f"topic is {topic!r}, the file is {name}.yml")
    columns = dict(read_named(fields, "columns", _column, WORD))
    sources = dict(read_named(fields, "sources", read_source, IDENTIFIER))
    records: dict[str, Record] = {}
    for node in fields.list("records", required=True):
        record = _record(node, columns, sources, problems)
        if record is None:
            continue
        if record.id in records:
            hint = f"the first is on line {records[record.id].line}"
            problems.append(Problem(record.line, "duplicate-id", f"the record {record.id!r} stands twice", hint))
            continue
        records[record.id] = record
    made = Topic(
        name=name,
        path=path,
        about=fields.text("about", required=True),
        limit_months=int(fields.number("limit_months", required=True, least=1) or 18),
        columns=columns,
        sources=sources,
        records=records,
        identities=tuple(found for node in fields.list("identities") if (found := _identity(node, problems))),
    )
    fields.done()
    return made


def read_named(fields: Fields, part: str, make: Any, pattern: Any) -> Iterator[tuple[str, Any]]:
    """The parts that are mappings of names, each made by `make(name, node, problems)`; what fails is left out."""
    for name, node in fields.mapping(part, required=True).items():
        if not pattern.fullmatch(name):
            fields.bad(node.key_line, "bad-text", f"the name {name[:80]!r} under {part} must match {pattern.pattern}")
            continue
        if found := make(name, node, fields.problems):
            yield name, found


def _column(name: str, node: Node, problems: list[Problem]) -> Column | None:
    before = len(problems)
    fields = Fields(node, f"column {name}", problems)
    if name in TAKEN_NAMES:
        fields.bad(node.key_line, "bad-text", f"a column cannot be called {name!r}: records have a field of that name")
    unit = fields.text("unit", required=True)
    if unit and unit not in UNITS:
        fields.bad(fields.line("unit"), "wrong-unit", f"column {name}: unknown unit {unit!r}", nearest(unit, UNITS))
    column = Column(
        name=name,
        title=fields.text("title", required=True, limit=60),
        unit=unit,
        line=node.key_line,
        quantity=fields.text("quantity"),
        direction=fields.choice("direction", DIRECTIONS),
        note=fields.text("note"),
        range=_range(fields),
    )
    fields.done()
    return column if len(problems) == before else None


def _range(fields: Fields) -> tuple[float, float] | None:
    ends = [node.value for node in fields.list("range")]
    if not ends:
        return None
    if len(ends) != 2 or not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends):
        fields.bad(fields.line("range"), "wrong-type", f"'range' of {fields.what} must be [least, most]")
        return None
    if ends[0] > ends[1]:
        fields.bad(fields.line("range"), "bad-number", f"'range' of {fields.what} is empty: {ends[0]:g} > {ends[1]:g}")
        return None
    return ends[0], ends[1]


def read_source(name: str, node: Node, problems: list[Problem]) -> Source | None:
    """Where something was read; None where it cannot be said."""
    before = len(problems)
    fields = Fields(node, f"source {name}", problems)
    source = Source(
        id=name,
        title=fields.text("title", required=True),
        url=fields.address("url", required=True),
        kind=fields.choice("kind", SOURCE_KINDS, required=True),
        by=fields.text("by", required=True),
        dated=_dated(fields),
        read=fields.date("read", required=True),  # type: ignore[arg-type]
        line=node.key_line,
        copy=fields.text("copy"),
        note=fields.text("note"),
    )
    fields.done()
    return source if len(problems) == before else None


def _dated(fields: Fields) -> str:
    """The source's own date or version as text, however YAML read it."""
    node = fields.items.get("dated")
    if node is not None and node.value is not None and not isinstance(node.value, (str, dict, list, bool)):
        fields.taken.append("dated")
        return str(node.value)
    return fields.text("dated", required=True)


def _record(
    node: Node, columns: dict[str, Column], sources: dict[str, Source], problems: list[Problem]
) -> Record | None:
    fields = Fields(node, "a record", problems)
    identifier = fields.text("id", required=True, pattern=IDENTIFIER)
    what = fields.what = f"record {identifier}" if identifier else "a record"
    figures = {}
    for name, item in fields.mapping("figures", required=True).items():
        if name not in columns:
            hint = nearest(name, columns)
            problems.append(Problem(item.key_line, "unknown-column", f"{what}: no column {name!r} is declared", hint))
            continue
        found = read_figures(item, columns[name], f"{identifier}.{name}", sources, problems)
        if found:
            figures[name] = found
    record = Record(
        id=identifier,
        name=fields.text("name", required=True, limit=80),
        line=node.line,
        vendor=fields.text("vendor"),
        group=fields.text("group"),
        status=fields.choice("status", STATUSES),
        per=fields.choice("per", PERS),
        aliases=tuple(fields.texts("aliases")),
        note=fields.text("note"),
        figures=figures,
    )
    fields.done()
    return record if record.id and record.name else None


def _identity(node: Node, problems: list[Problem]) -> Identity | None:
    before = len(problems)
    fields = Fields(node, "an identity", problems)
    tolerance = fields.number("tolerance", least=0)
    identity = Identity(
        expr=fields.text("expr", required=True),
        line=node.line,
        condition=fields.text("if"),
        tolerance=0.005 if tolerance is None else float(tolerance),
        note=fields.text("note"),
    )
    fields.done()
    return identity if len(problems) == before else None
