"""Charts of lines over x: formulas with values from docs/data, records, and points."""

from openbook.data.fields import Fields
from openbook.data.lines import Node
from openbook.data.load import Data
from openbook.data.model import Figure, Record
from openbook.data.problem import Problem
from openbook.data.show import number, rounded
from openbook.expressions import Expression
from openbook.fences.base import escape, tag
from openbook.fences.calculator_text import formula_text
from openbook.fences.chart_formulas import Formulas
from openbook.fences.chart_measured import Measured, measured_table, read_measured
from openbook.fences.chart_model import Chart, Line, Mark
from openbook.fences.chart_scale import Axis, axis
from openbook.fences.chart_table import chart_table

SAMPLES = 120
MOST = 6  # lines, and points of each kind of chart: as many as there are styles


def read_lines(root: Node, data: Data, problems: list[Problem]) -> Chart | None:
    before = len(problems)
    fields = Fields(root, "the chart", problems)
    fields.text("kind")
    caption, desc = fields.text("caption", required=True, limit=200), fields.text("desc")
    x, y_title, y_unit, y_log = _x_axis(fields), *_y_axis(fields)
    series, points = fields.list("series", required=True), fields.list("points")
    fields.done()
    if len(series) > MOST or len(points) > 2 * MOST:
        fields.bad(root.line, "too-many", f"a chart shows at most {MOST} series and {2 * MOST} points")
    if x is None or len(problems) > before:
        return None
    lines: list[Line] = []
    rows: list[tuple[Formulas, Expression]] = []
    measured: list[Measured] = []
    for node in series:
        if isinstance(node.value, dict) and "topic" in node.value:
            if found := read_measured(node, x, data, problems):
                measured.append(found)
                lines.append(found.line)
            continue
        one = Formulas(node, "a series", data, problems)
        expression = one.formula("expr", {"x"})
        one.fields.done()
        if expression and (line := _line(one, expression, x)):
            lines.append(line)
            rows.append((one, expression))
    marks = [mark for node in points if (mark := _mark(node, x, data, problems))]
    heights = [b for line in lines for _, b in line.points] + [mark.y for mark in marks]
    if y_log and min(heights, default=1) <= 0:
        fields.bad(fields.line("y"), "bad-number", "a logarithmic axis cannot show zero or less")
    if len(problems) > before or not lines:
        return None
    y = axis(y_title, y_unit, heights, y_log)
    desc = desc or f"Lines of {y.label()} over {x.label()} from {number(x.least)} to {number(x.most)}: {', '.join(line.title for line in lines)}."  # fmt: skip
    table = (_table(x, rows) if rows else "") + (measured_table(x, y, measured) if measured else "")
    return Chart("line", caption, desc, x, y, table, lines=tuple(lines), marks=tuple(marks))


def _x_axis(fields: Fields) -> Axis | None:
    node = fields.take("x", required=True)
    if node is None:
        return None
    inner = Fields(node, "x", fields.problems)
    title, unit = inner.text("title", required=True, limit=60), inner.text("unit", limit=20)
    least, most = inner.number("from", required=True), inner.number("to", required=True)
    log, binary = _log(inner)
    inner.done()
    if least is None or most is None or not title:
        return None
    if least >= most or (log and least <= 0):
        inner.bad(inner.line("to"), "bad-number", f"x goes from {least:g} to {most:g}" + (" on a logarithmic axis" if log else ""))  # fmt: skip
        return None
    return axis(title, unit, [least, most], log, exact=True, binary=binary)


def _log(fields: Fields) -> tuple[bool, bool]:
    """Whether the axis is logarithmic, and whether it is named at powers of two."""
    node = fields.take("log")
    if node is None or isinstance(node.value, bool):
        return bool(node and node.value), False
    if node.value != 2:
        fields.bad(node.line, "wrong-type", f"'log' of {fields.what} must be true, false or 2")
    return True, True


def _y_axis(fields: Fields) -> tuple[str, str, bool]:
    node = fields.take("y", required=True)
    inner = Fields(node or Node({}, fields.node.line, 0), "y", fields.problems if node else [])
    found = inner.text("title", required=True, limit=60), inner.text("unit", limit=20), bool(inner.of("log", bool, "true/false"))  # fmt: skip
    inner.done()
    return found


def _line(one: Formulas, expression: Expression, x: Axis) -> Line | None:
    points = []
    for n in range(SAMPLES + 1):
        share = n / SAMPLES
        at = x.least * (x.most / x.least) ** share if x.log else x.least + (x.most - x.least) * share
        value = one.number("expr", expression, {"x": at})
        if value is None:
            return None
        points.append((at, value))
    return Line(one.title, tuple(points))


def _mark(node: Node, x: Axis, data: Data, problems: list[Problem]) -> Mark | None:
    one = Formulas(node, "a point", data, problems)
    formulas = [(name, one.formula(name, set())) for name in ("x", "y")]
    one.fields.done()
    values = [one.number(name, formula, {}) for name, formula in formulas if formula]
    if len(values) < 2 or None in values or not one.title:
        return None
    if not x.least <= values[0] <= x.most:
        one.fields.bad(one.fields.line("x"), "bad-number", f"{one.title}: x is {values[0]:g}, outside the axis")
        return None
    return Mark(*values, one.title)


def _table(x: Axis, rows: list[tuple[Formulas, Expression]]) -> str:
    """A line a series: the formula, the values in it with their sources, and results at the ticks of x."""
    heads = ["Series", "Formula", "Values", *(f"{x.title} {number(tick)}" for tick in x.ticks)]
    body = []
    for one, expression in rows:
        cells = [
            tag("th", escape(one.title), scope="row"),
            tag("td", tag("code", escape(formula_text(expression.tree)))),
        ]
        cited = {name: (record, figure) for name, record, figure in one.sources}
        cells.append(
            tag("td", tag("ul", "".join(_value(name, text, cited.get(name)) for name, text in one.texts.items())))
        )
        for tick in x.ticks:
            value = expression.number({**one.values, "x": tick})
            cells.append(tag("td", escape(number(rounded(value, 4)))))
        body.append(tag("tr", "".join(cells)))
    return chart_table(heads, body)


def _value(name: str, text: str, cited: tuple[Record, Figure] | None) -> str:
    content = f"{tag('code', escape(name))} = {escape(text)}"
    if cited and cited[1].source:
        content += ", " + tag(
            "a", escape(cited[1].source.title), href=cited[1].source.url, title=cited[1].source.cited()
        )
    return tag("li", content)
