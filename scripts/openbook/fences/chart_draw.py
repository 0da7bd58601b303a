"""A chart as SVG: pygal lays it out, then only what is seen is kept, with classes in place of its colours.

No scripts, styles, ids or dates remain, so the same records give the same bytes, and the page's style sheet
colours it for light, dark and print (docs/assets/css/chart.css).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from openbook.data.show import number
from openbook.fences.base import escape, tag
from openbook.fences.chart_labels import LINE, Box, place, spread, width_of
from openbook.fences.chart_model import Chart, Line

WIDTH = 400  # of the view box: at 360 px of a phone its text is still read
BAR, TOP, BOTTOM, PLOT = 22, 8, 48, 300  # a bar with its gap, margins, height of a plot with two axes
FONT = 13
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
SHAPES = (
    "M{x0} {y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # circle
    "M{x0} {y0}h8v8h-8z",  # square
    "M{x} {y0}l5 9h-10z",  # triangle
    "M{x} {y0}l5 4-5 5-5-5z",  # diamond
    "M{x0} {y0}l8 8m0-8l-8 8",  # cross
    "M{x} {y0}v9m-4.5-4.5h9",  # plus
)


@dataclass
class Drawn:
    """Geometry that pygal made, in the view box's coordinates."""

    grid: list[str] = field(default_factory=list)
    ticks: list[tuple[str, float, float, str]] = field(default_factory=list)  # axis, x, y, text
    lines: list[list[tuple[float, float]]] = field(default_factory=list)
    dots: list[tuple[float, float]] = field(default_factory=list)
    bars: list[tuple[float, float, float, float]] = field(default_factory=list)  # x, y, width, height


def draw(chart: Chart, identifier: str) -> str:
    """The whole svg element; `identifier` begins the ids of its title and description."""
    right = 12 + max((width_of(line.title) for line in chart.lines if not chart.named_below()), default=0)
    height = TOP + BOTTOM + (len(chart.bars) * BAR if chart.bars else PLOT)
    drawn = _read(_bars(chart, height) if chart.bars else _plot(chart, height, right))
    names = f"{identifier}-t {identifier}-d"
    content = tag("title", escape(chart.caption), id=f"{identifier}-t") + tag(
        "desc", escape(chart.desc), id=f"{identifier}-d"
    )
    content += tag("path", d="".join(drawn.grid), class_="chart-grid")
    content += "".join(_tick(*tick) for tick in drawn.ticks)
    content += "".join(_shapes(chart, drawn))
    content += tag("text", escape(chart.x.label()), x=WIDTH - 6, y=height - 6, text_anchor="end", class_="chart-title")
    if chart.y:
        content += tag("text", escape(chart.y.label()), x=0, y=FONT, class_="chart-title")
    return tag("svg", content, class_="chart-svg", viewBox=f"0 0 {WIDTH} {height}", role="img", aria_labelledby=names)


def _options(height: int, **more: Any) -> dict[str, Any]:
    from pygal.style import Style

    style = Style(label_font_size=FONT, major_label_font_size=FONT)
    return {
        "width": WIDTH, "height": height, "style": style, "js": (), "css": (), "show_legend": False, "no_prefix": True,
        "disable_xml_declaration": True, "truncate_label": -1, "margin_left": 4, "margin_bottom": BOTTOM - 22, **more,
    }  # fmt: skip


def _bars(chart: Chart, height: int) -> Any:
    from pygal import HorizontalBar

    room = 1 + (max(width_of(bar.text) for bar in chart.bars) + 8) / (WIDTH / 2)  # for the numbers behind the bars
    made = HorizontalBar(**_options(height, margin_top=TOP, margin_right=4, spacing=0, range=(0, chart.x.most * room)))
    made.x_labels = [bar.label for bar in reversed(chart.bars)]
    made.y_labels = [{"value": tick, "label": number(tick)} for tick in chart.x.ticks]
    made.add("", [bar.value for bar in reversed(chart.bars)])
    return made


def _plot(chart: Chart, height: int, right: float) -> Any:
    from pygal import XY

    x, y = chart.x, chart.y
    ranges = {"xrange": (x.at(x.least), x.at(x.most)), "range": (y.at(y.least), y.at(y.most))}
    made = XY(**_options(height, margin_top=TOP + FONT + 4, margin_right=right, **ranges))
    made.x_labels = [{"value": x.at(tick), "label": number(tick)} for tick in x.ticks]
    made.y_labels = [{"value": y.at(tick), "label": number(tick)} for tick in y.ticks]
    for line in chart.lines:
        made.add("", [(x.at(a), y.at(b)) for a, b in line.points], show_dots=False)
    if chart.marks:
        made.add("", [(x.at(mark.x), y.at(mark.y)) for mark in chart.marks], stroke=False)
    return made


def _read(made: Any) -> Drawn:
    root = ElementTree.fromstring(made.render(is_unicode=True))
    drawn = Drawn()
    for group, classes, dx, dy in _groups(root, (), 0.0, 0.0):
        for element in group:
            kind, own = element.tag.rpartition("}")[2], (element.get("class") or "").split()
            if "guides" in classes and kind == "path":
                x, y = map(float, NUMBER.findall(element.get("d"))[:2])
                drawn.grid.append(f"M{_n(x + dx)} {_n(y + dy)}{element.get('d').split()[-1].split('.')[0]}")
            elif "guides" in classes and kind == "text":
                place = "y" if "y" in classes else "x"
                drawn.ticks.append(
                    (place, float(element.get("x")) + dx, float(element.get("y")) + dy, element.text or "")
                )
            elif kind == "path" and "line" in own and "series" in classes:
                numbers = [float(one) for one in NUMBER.findall(element.get("d"))]
                drawn.lines.append([(a + dx, b + dy) for a, b in zip(numbers[::2], numbers[1::2])])
            elif kind == "circle" and "dot" in own:
                drawn.dots.append((float(element.get("cx")) + dx, float(element.get("cy")) + dy))
            elif kind == "rect" and "rect" in own:
                x, y, w, h = (float(element.get(name)) for name in ("x", "y", "width", "height"))
                drawn.bars.append((x + dx, y + dy, w, h))
    return drawn


def _groups(
    element: Any, classes: tuple[str, ...], dx: float, dy: float
) -> Iterator[tuple[Any, tuple[str, ...], float, float]]:
    """Every group with the classes around it and its offset."""
    for group in element:
        if group.tag.rpartition("}")[2] == "g":
            moved = re.match(r"translate\((\S+?),? (\S+)\)", group.get("transform") or "")
            x, y = (dx + float(moved[1]), dy + float(moved[2])) if moved else (dx, dy)
            around = (*classes, *(group.get("class") or "").split())
            yield group, around, x, y
            yield from _groups(group, around, x, y)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _tick(which: str, x: float, y: float, text: str) -> str:
    anchor = "end" if which == "y" else "middle"
    return tag("text", escape(text), x=_n(x), y=_n(y), text_anchor=anchor, class_="chart-tick")


def _shapes(chart: Chart, drawn: Drawn) -> Iterator[str]:
    for (x, y, w, h), bar in zip(drawn.bars, reversed(chart.bars)):
        yield tag("path", d=f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h-{_n(w)}z", class_="chart-bar chart-1")
        yield tag("text", escape(bar.text), x=_n(x + w + 4), y=_n(y + h / 2 + 4.5), class_="chart-label")
    heights = spread([points[-1][1] for points in drawn.lines])
    for n, (points, line) in enumerate(zip(drawn.lines, chart.lines)):
        d = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in simplified(points))
        yield tag("path", d=d, class_=f"chart-line chart-{n % len(SHAPES) + 1}")
        if line.dots:
            yield shape(n % len(SHAPES), *points)
        if not chart.named_below():
            yield tag("text", escape(line.title), x=_n(points[-1][0] + 8), y=_n(heights[n] + 4.5), class_="chart-label")
    groups = chart.groups() or [""]
    boxes = place(drawn.dots, [mark.label for mark in chart.marks], WIDTH, _obstacles(drawn))
    for (x, y), (left, base), mark in zip(drawn.dots, boxes, chart.marks):
        n = groups.index(mark.group) % len(SHAPES)
        yield shape(n, (x, y))
        yield tag("text", escape(mark.label), x=_n(left), y=_n(base), class_="chart-label")


def _obstacles(drawn: Drawn) -> list[Box]:
    """What labels must not cover: lines, and the numbers of the axis beside the plot."""
    left = max((x for which, x, _, _ in drawn.ticks if which == "y"), default=0.0)
    boxes = [(0.0, y - LINE, left, y) for which, _, y, _ in drawn.ticks if which == "y"]
    for points in drawn.lines:
        boxes += [(x - 2, y - 2, x + 2, y + 2) for x, y in points]
    return boxes


def shape(n: int, *points: tuple[float, float]) -> str:
    """The mark of the n-th group around points."""
    marks = (SHAPES[n].format(x=_n(x), y=_n(y), x0=_n(x - 4), y0=_n(y - 4)) for x, y in points)
    return tag("path", d="".join(marks), class_=f"chart-mark chart-{n + 1}")


def sample(n: int, line: Line) -> str:
    """What the n-th line looks like, for a legend."""
    n %= len(SHAPES)
    stroke = tag("path", d="M0 6h28", class_=f"chart-line chart-{n + 1}")
    return tag("svg", stroke + (shape(n, (14, 6)) if line.dots else ""), viewBox="0 0 28 12", class_="chart-sample", aria_hidden="true")  # fmt: skip


def simplified(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points without those that lie within 0.15 px of the line between their neighbours (Douglas-Peucker)."""
    if len(points) < 3:
        return points
    (x1, y1), (x2, y2) = points[0], points[-1]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    away = [abs((x2 - x1) * (y1 - y) - (x1 - x) * (y2 - y1)) / length for x, y in points[1:-1]]
    far = max(range(len(away)), key=away.__getitem__)
    if away[far] < 0.15:
        return [points[0], points[-1]]
    return simplified(points[: far + 2])[:-1] + simplified(points[far + 1 :])
