"""What a topic file holds, once read: columns, sources, records and their figures."""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from openbook.data.units import WORDS, convert

SOURCE_KINDS = ("vendor", "paper", "standard", "manual", "source code", "measured", "press")
STATUSES = ("shipping", "announced", "withdrawn")
PERS = ("chip", "package", "core", "node", "port", "link", "device", "rack", "system", "instance", "model", "run")
DIRECTIONS = ("per direction", "both")
CONFIDENCES = ("high", "medium", "low")
ATTRIBUTES = ("vendor", "group", "status", "per")  # of a record, which tables can show and filter by


@dataclass(frozen=True)
class Column:
    """What a figure can be."""

    name: str
    title: str
    unit: str
    line: int
    quantity: str = ""
    direction: str = ""
    note: str = ""
    range: tuple[float, float] | None = None

    @property
    def is_number(self) -> bool:
        return self.unit not in WORDS


@dataclass(frozen=True)
class Source:
    """Where figures were read: `dated` is the source's own date or version, `read` the day of reading."""

    id: str
    title: str
    url: str
    kind: str
    by: str
    dated: str
    read: datetime.date
    line: int
    copy: str = ""
    note: str = ""

    def cited(self) -> str:
        """Author, title and dates in a line of text."""
        copy = f", {self.copy}" if self.copy else ""
        dated = self.dated if self.dated == "undated" else f"dated {self.dated}"
        return f"{self.by}, {self.title} ({self.kind}), {dated}, read {self.read}{copy}"


@dataclass(frozen=True)
class Figure:
    """One statement of one source about one column. Exactly one of value, none, unpublished is set."""

    column: Column
    line: int
    value: float | int | str | None = None
    none: str = ""
    unpublished: str = ""
    unit: str = ""
    condition: str = ""
    source: Source | None = None
    confidence: str = "high"
    note: str = ""
    derived: str = ""
    text: str = ""
    choice: str = ""

    def in_unit(self, unit: str = "") -> float | int | str | None:
        """The value in a unit, the column's by default. Raises UnitError."""
        if not isinstance(self.value, (int, float)):
            return self.value
        return convert(self.value, self.unit, unit or self.column.unit)


@dataclass(frozen=True)
class Record:
    """A thing with figures. A column has several figures where sources disagree; the first is the book's."""

    id: str
    name: str
    line: int
    vendor: str = ""
    group: str = ""
    status: str = ""
    per: str = ""
    aliases: tuple[str, ...] = ()
    note: str = ""
    figures: Mapping[str, tuple[Figure, ...]] = field(default_factory=dict)

    def figure(self, column: str) -> Figure | None:
        return self.figures[column][0] if column in self.figures else None

    @property
    def looked_in(self) -> str:
        """What was read for this record: where a figure that it lacks was not found."""
        found = (one.source for figures in self.figures.values() for one in figures)
        return "; ".join(dict.fromkeys(source.title for source in found if source))

    def values(self) -> dict[str, float]:
        """The numbers, each in its column's unit."""
        chosen = {name: figures[0].in_unit() for name, figures in self.figures.items()}
        return {name: float(value) for name, value in chosen.items() if isinstance(value, (int, float))}

    def attributes(self) -> dict[str, str]:
        return {"id": self.id, "name": self.name, **{name: getattr(self, name) for name in ATTRIBUTES}}


@dataclass(frozen=True)
class Identity:
    """What must hold for every record that has the columns and meets the condition."""

    expr: str
    line: int
    condition: str = ""
    tolerance: float = 0.005
    note: str = ""


@dataclass(frozen=True)
class Topic:
    name: str
    path: str
    about: str
    limit_months: int
    columns: Mapping[str, Column]
    sources: Mapping[str, Source]
    records: Mapping[str, Record]
    identities: tuple[Identity, ...] = ()

    def all_figures(self) -> Iterator[tuple[Record, Figure]]:
        for record in self.records.values():
            for figures in record.figures.values():
                for one in figures:
                    yield record, one
