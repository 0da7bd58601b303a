"""What is drawn: bars, or lines and marks between two axes."""

from dataclasses import dataclass

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
    title: str
    points: tuple[tuple[float, float], ...]


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

    def groups(self) -> list[str]:
        return list(dict.fromkeys(mark.group for mark in self.marks if mark.group))
