"""What is drawn: bars, or lines and marks between two axes."""

from dataclasses import dataclass

from openbook.fences.chart_labels import NAME_ROOM, width_of
from openbook.fences.chart_scale import Axis


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A dot with its label. Marks of one group look alike."""

    x: float
    y: float
    label: str
    group: str = ""


@dataclass(frozen=True)
class Line:
    """`dots`: the points are records, each with a mark, and not samples of a formula."""

    title: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """Bars have one axis, `x`; lines and marks have both. `table` is the text alternative as HTML."""

    kind: str
    caption: str
    desc: str
    x: Axis
    y: Axis | None
    table: str
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()

    def named_below(self) -> bool:
        """Whether the names of the lines stand in a legend: beside the ends they would take the plot's room."""
        ends = {line.points[-1][0] for line in self.lines}
        return len(ends) > 1 or any(width_of(line.title) > NAME_ROOM for line in self.lines)

    def groups(self) -> list[str]:
        return list(dict.fromkeys(mark.group for mark in self.marks if mark.group))
