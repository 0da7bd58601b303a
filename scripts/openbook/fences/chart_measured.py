"""Series of a line chart that are records: a dot for each, joined in order of x."""

from dataclasses import dataclass

from openbook.data.lines import Node
from openbook.data.load import Data
from openbook.data.model import Figure, Record
from openbook.data.problem import Problem
from openbook.data.show import number, rounded, shown, unit_shown
from openbook.expressions import Expression
from openbook.fences.base import escape, tag
from openbook.fences.chart_formulas import Formulas
from openbook.fences.chart_model import Line
from openbook.fences.chart_scale import Axis
from openbook.fences.chart_table import chart_table
from openbook.fences.figures_read import chosen_records
from openbook.fences.figures_table import note_of

MOST = 40  # records of a series


@dataclass(frozen=True)
class Measured:
    """A series: its line, and for each point the figures behind it."""

    line: Line
    points: tuple[tuple[tuple[Figure, ...], float, float], ...]
    others: Formulas


def read_measured(node: Node, x: Axis, data: Data, problems: list[Problem]) -> Measured | None:
    before = len(problems)
    one = Formulas(node, "a series", data, problems)
    fields = one.fields
    name = fields.text("topic", required=True)
    if not name or not fields.known("topic", name, data.topics, "topic"):
        fields.taken += list(fields.items)
        return None
    topic = data.topics[name]
    columns = [column.name for column in topic.columns.values() if column.is_number]
    formulas = [one.formula(which, columns) for which in ("x", "y")]
    records = chosen_records(fields, topic, data)
    fields.done()
    if len(problems) > before or None in formulas:
        return None
    points = _points(one, [formula for formula in formulas if formula], records, x)
    if len(problems) > before:
        return None
    if not 2 <= len(points) <= MOST:
        fields.bad(fields.line("topic"), "empty-chart", f"{one.title}: {len(points)} records have values; a line takes 2 to {MOST}")  # fmt: skip
        return None
    points.sort(key=lambda point: point[1])
    return Measured(Line(one.title, tuple((a, b) for _, a, b in points), dots=True), tuple(points), one)


def _points(
    one: Formulas, formulas: list[Expression], records: list[Record], x: Axis
) -> list[tuple[tuple[Figure, ...], float, float]]:
    """A point for each record that has the columns; one that was asked for by its id must have them."""
    fields, found = one.fields, []
    names = list(dict.fromkeys(name for formula in formulas for name in formula.names if name not in one.values))
    for record in records:
        values = record.values()
        missing = [name for name in names if name not in values]
        if missing:
            if "records" in fields.items:
                fields.bad(fields.line("records"), "no-value", f"{record.id} has no number for {missing[0]}")
            continue
        a, b = (one.number(which, formula, values) for which, formula in zip("xy", formulas))
        if a is None or b is None:
            break
        if not x.least <= a <= x.most:
            fields.bad(fields.line("x"), "bad-number", f"{record.id}: x is {a:g}, outside the axis")
            continue
        figures = (record.figure(name) for name in names if name != formulas[0].text)
        found.append((tuple(figure for figure in figures if figure), a, b))
    return found


def measured_table(x: Axis, y: Axis, series: list[Measured]) -> str:
    """For each series its sources, then a line a record: where it stands, and the figures behind that."""
    rows = []
    for one in series:
        sources = {
            figure.source.id: figure.source for figures, _, _ in one.points for figure in figures if figure.source
        }
        sources |= {figure.source.id: figure.source for _, _, figure in one.others.sources if figure.source}
        links = [tag("a", escape(source.title), href=source.url, title=source.cited()) for source in sources.values()]
        named = escape(one.line.title) + ": " + "; ".join(links)
        rows.append(tag("tr", tag("th", named, scope="rowgroup", colspan=2)))
        for figures, a, b in one.points:
            behind = "; ".join(text for figure in figures if (text := _behind(figure, b)))
            value = number(rounded(b, 4)) + (f" ({behind})" if behind else "")
            rows.append(tag("tr", tag("th", escape(number(rounded(a, 4))), scope="row") + tag("td", escape(value))))
    return chart_table([x.label(), y.label()], rows)


def _behind(figure: Figure, shown_value: float) -> str:
    """What a result was computed from; of a figure that is the result, what must be known to read it."""
    value = (
        ""
        if figure.in_unit() == shown_value
        else f"{figure.column.title} {shown(figure)} {unit_shown(figure.column.unit)}"
    )
    return ", ".join(part for part in (value.rstrip(), note_of(figure)) if part)
