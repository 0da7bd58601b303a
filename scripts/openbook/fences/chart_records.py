"""Charts of records: bars of one column, dots of two."""

from openbook.data.fields import Fields
from openbook.data.lines import Node
from openbook.data.load import Data
from openbook.data.model import Column, Record
from openbook.data.problem import Problem
from openbook.data.show import in_unit, number, shown, unit_shown
from openbook.fences.base import escape, tag
from openbook.fences.chart_model import Bar, Chart, Mark
from openbook.fences.chart_scale import axis
from openbook.fences.chart_table import chart_table
from openbook.fences.figures_model import Request
from openbook.fences.figures_read import request_of
from openbook.fences.figures_table import DIRECTIONS, note_of

TABLE = ("topic", "columns", "records", "filter", "sort", "units", "caption", "head")
MOST = 40
COLUMNS = {"bar": 1, "scatter": 2}


def read_records(root: Node, data: Data, problems: list[Problem]) -> Chart | None:
    before = len(problems)
    fields = Fields(root, "the chart", problems)
    kind, desc = fields.text("kind"), fields.text("desc")
    log = fields.texts("log") if kind == "scatter" else []
    for name in log:
        fields.known("log", name, ("x", "y"), "axis")
    fields.taken += TABLE
    fields.done()
    table = {name: node for name, node in root.value.items() if name in TABLE}
    request = request_of(Node(table, root.line, root.column), data, problems)
    if request is None or len(problems) > before:
        return None
    records = _checked(fields, request, kind, log)
    if not records or len(problems) > before:
        return None
    make = _bars if kind == "bar" else _dots
    return make(request, records, desc, log)


def _checked(fields: Fields, request: Request, kind: str, log: list[str]) -> list[Record]:
    """The records that can be drawn."""
    line, columns = (
        fields.line("columns"),
        [one for one in request.columns if isinstance(one, Column) and one.is_number],
    )
    if len(columns) != COLUMNS[kind] or len(request.columns) != COLUMNS[kind]:
        fields.bad(line, "wrong-columns", f"a {kind} chart takes {COLUMNS[kind]} columns that hold numbers")
        return []
    found = []
    for record in request.records:
        missing = [one.name for one in columns if not _has_number(record, one)]
        if missing and "records" in fields.items:
            fields.bad(fields.line("records"), "no-value", f"{record.id} has no number for {missing[0]}")
        elif not missing:
            found.append(record)
    for which, column in zip(log, columns if log == ["x", "y"] else columns["y" in log :]):
        for record in found:
            if record.values()[column.name] <= 0:
                fields.bad(
                    fields.line("log"), "bad-number", f"{record.id}: no logarithm of {column.name}, axis {which}"
                )
    if not 1 <= len(found) <= MOST:
        fields.bad(line, "empty-chart", f"{len(found)} records have values; a chart shows 1 to {MOST}")
        return []
    return found


def _has_number(record: Record, column: Column) -> bool:
    figure = record.figure(column.name)
    return figure is not None and isinstance(figure.value, (int, float))


def _unit(request: Request, column: Column) -> str:
    return request.units.get(column.name, column.unit)


def _title(column: Column) -> str:
    return f"{column.title}, {DIRECTIONS[column.direction]}" if column.direction else column.title


def _name(record: Record) -> str:
    return f"{record.name} (announced)" if record.status == "announced" else record.name


def _bars(request: Request, records: list[Record], desc: str, log: list[str]) -> Chart:
    column = request.columns[0]
    unit = _unit(request, column)
    figures = [record.figure(column.name) for record in records]
    bars = tuple(
        Bar(_name(record), float(in_unit(figure, unit)), shown(figure, unit))
        for record, figure in zip(records, figures)
    )
    x = axis(_title(column), unit_shown(unit), [bar.value for bar in bars], log=False)
    low, high = min(bars, key=lambda bar: bar.value), max(bars, key=lambda bar: bar.value)
    desc = desc or (
        f"Bar chart of {len(bars)} records by {x.label()}, from {low.text} ({low.label}) to {high.text} ({high.label})."
    )
    return Chart("bar", request.caption, desc, x, None, _table(request, records), bars=bars)


def _dots(request: Request, records: list[Record], desc: str, log: list[str]) -> Chart:
    columns = request.columns
    units = [_unit(request, column) for column in columns]
    values = [
        [float(in_unit(record.figure(column.name), unit)) for record in records] for column, unit in zip(columns, units)
    ]
    x, y = (
        axis(_title(column), unit_shown(unit), numbers, log=which in log)
        for column, unit, numbers, which in zip(columns, units, values, "xy")
    )
    marks = tuple(Mark(a, b, _name(record), record.vendor) for a, b, record in zip(*values, records))
    desc = desc or (
        f"Scatter chart of {len(marks)} records: along, {x.label()} from {number(min(values[0]))} to "
        f"{number(max(values[0]))}; up, {y.label()} from {number(min(values[1]))} to {number(max(values[1]))}."
    )
    return Chart("scatter", request.caption, desc, x, y, _table(request, records), marks=marks)


def _table(request: Request, records: list[Record]) -> str:
    """The values drawn, each with its source; shorter than a figures table, since it stands folded below a chart."""
    columns = [(column, _unit(request, column)) for column in request.columns]
    heads = [request.head, *(f"{_title(column)} ({unit})" for column, unit in columns), "Source"]
    rows = []
    for record in records:
        figures = [(record.figure(column.name), unit) for column, unit in columns]
        cells = [tag("th", escape(record.name), scope="row")]
        for figure, unit in figures:
            note = note_of(figure)
            cells.append(tag("td", escape(shown(figure, unit) + (f" ({note})" if note else ""))))
        sources = {figure.source.id: figure.source for figure, _ in figures if figure.source}
        links = [tag("a", escape(one.title), href=one.url, title=one.cited()) for one in sources.values()]
        rows.append(tag("tr", "".join(cells) + tag("td", "; ".join(links))))
    return chart_table(heads, rows)
