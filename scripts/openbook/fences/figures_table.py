"""The table of a `figures` fence as HTML: semantic, complete without JavaScript."""

import itertools
import string
from collections.abc import Iterator

from openbook.data.model import Column, Figure, Record, Source
from openbook.data.show import in_unit, shown, unit_shown
from openbook.data.units import factor, switches
from openbook.fences.base import escape, identifier, tag
from openbook.fences.figures_files import downloads
from openbook.fences.figures_model import Request

DIRECTIONS = {"per direction": "per direction", "both": "both directions"}
LEGEND = {
    "none": "– does not apply",
    "unpublished": "n/p not published; the note says where it was looked for",
    "missing": "n/f not found in what was read for the row; its note says what",
}
MARKS = {"none": "–", "unpublished": "n/p", "missing": "n/f"}


class References:
    """Numbers the sources of a table and letters its notes, in order of appearance."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.sources: dict[str, tuple[int, Source]] = {}
        self.notes: dict[str, str] = {}
        self.states: set[str] = set()
        self.letters = ("".join(word) for n in (1, 2) for word in itertools.product(string.ascii_lowercase, repeat=n))

    def source(self, source: Source) -> str:
        number, _ = self.sources.setdefault(source.id, (len(self.sources) + 1, source))
        return self.link(f"s{number}", str(number), f"Source {number}")

    def note(self, text: str) -> str:
        if text not in self.notes:
            self.notes[text] = next(self.letters)
        letter = self.notes[text]
        return self.link(f"n-{letter}", letter, f"Note {letter}")

    def link(self, target: str, text: str, label: str) -> str:
        return tag("a", escape(text), href=f"#{self.prefix}-{target}", aria_label=label)

    def superscript(self, source: Source | None, note: str) -> str:
        links = [self.source(source)] if source else []
        links += [self.note(note)] if note else []
        return "\u00a0" + tag("sup", " ".join(links), class_="figures-refs") if links else ""


def note_of(figure: Figure) -> str:
    """What must be known to read the figure, in one text."""
    parts = [figure.none or figure.unpublished, figure.condition, figure.note]
    parts += [f"derived: {figure.derived}" if figure.derived else ""]
    parts += [f"{figure.confidence} confidence" if figure.confidence != "high" else ""]
    parts += [f"used by the book: {figure.choice}" if figure.choice else ""]
    return "; ".join(part for part in parts if part)


def render_table(request: Request) -> str:
    shown_columns = [column if isinstance(column, str) else column.name for column in request.columns]
    ids = [record.id for record in request.records]
    prefix = identifier("figures", f"{request.topic.name} {request.caption} {shown_columns} {ids}")
    references = References(prefix)
    pers = {record.per for record in request.records}
    same_per = next(iter(pers)) if len(pers) == 1 else ""
    caption = escape(request.caption) + (
        tag("span", f" per {escape(same_per)}", class_="figures-per") if same_per else ""
    )
    head = tag("th", tag("span", escape(request.head), class_="figures-title"), scope="col")
    head += "".join(_head(column, request, references) for column in request.columns)
    rows = "".join(_row(record, request, references, not same_per) for record in request.records)
    table = tag(
        "table",
        tag("caption", caption, id=f"{prefix}-caption") + tag("thead", tag("tr", head)) + tag("tbody", rows),
        class_="figures-table",
    )
    region = tag(
        "div", table, class_="figures-scroll", tabindex="0", role="region", aria_labelledby=f"{prefix}-caption"
    )
    return tag("div", region + _below(request, references), class_="figures", id=prefix)


def _head(column: Column | str, request: Request, references: References) -> str:
    if isinstance(column, str):
        return tag("th", tag("span", column.capitalize(), class_="figures-title"), scope="col")
    unit = request.units.get(column.name, column.unit)
    content = tag("span", escape(column.title), class_="figures-title")
    if column.direction:
        content += " " + tag("span", DIRECTIONS[column.direction], class_="figures-direction")
    if unit_shown(unit):
        content += " " + tag("span", escape(unit), class_="figures-unit")
    content += references.superscript(None, column.note)
    choices = ";".join(f"{other} {factor(unit, other):.17g}" for other in switches(unit))
    number = column.is_number
    return tag("th", content, scope="col", class_="figures-number" if number else None, data_units=choices or None)


def _row(record: Record, request: Request, references: References, show_per: bool) -> str:
    name = escape(record.name)
    if show_per and record.per:
        name += " " + tag("span", f"per {escape(record.per)}", class_="figures-per")
    name += references.superscript(None, record.note)
    if any(isinstance(column, Column) and column.name not in record.figures for column in request.columns):
        name += references.superscript(None, f"{record.name}, n/f: looked in {record.looked_in}")
    cells = [tag("th", name, scope="row")]
    for column in request.columns:
        if isinstance(column, str):
            cells.append(tag("td", escape(getattr(record, column))))
        else:
            cells.append(_cell(record, column, request.units.get(column.name, column.unit), references))
    return tag("tr", "".join(cells))


def _cell(record: Record, column: Column, unit: str, references: References) -> str:
    figures = record.figures.get(column.name, ())
    class_ = "figures-number" if column.is_number else None
    if not figures:
        references.states.add("missing")
        return tag("td", tag("span", MARKS["missing"], title=f"not found in: {record.looked_in}"), class_=class_)
    first, *others = (_one(figure, unit, references) for figure in figures)
    return tag("td", first + "".join(tag("span", f"or {one}", class_="figures-other") for one in others), class_=class_)


def _one(figure: Figure, unit: str, references: References) -> str:
    if figure.value is None:
        state = "none" if figure.none else "unpublished"
        references.states.add(state)
        mark = tag("span", MARKS[state], title=figure.none or figure.unpublished)
        return mark + references.superscript(figure.source, note_of(figure))
    # What the page converts and sorts by; a text in place of the number is not converted.
    number = in_unit(figure, unit) if isinstance(figure.value, (int, float)) else None
    content = escape(shown(figure, unit))
    value = tag("span", content, class_="figures-value", data_value=number, data_text=True if figure.text else None)
    return value + references.superscript(figure.source, note_of(figure))


def _below(request: Request, references: References) -> str:
    legend = "; ".join(text for state, text in LEGEND.items() if state in references.states)
    lines = tag("p", escape(legend), class_="figures-legend") if legend else ""
    lines += "".join(_lists(references))
    lines += tag("p", "Download " + downloads(request, references.prefix), class_="figures-download")
    return lines


def _lists(references: References) -> Iterator[str]:
    if not references.sources and not references.notes:
        return
    sources = "".join(
        tag(
            "li",
            tag("a", escape(source.title), href=source.url) + escape(_rest(source)),
            id=f"{references.prefix}-s{n}",
        )
        for n, source in references.sources.values()
    )
    notes = "".join(
        tag(
            "li",
            tag("span", f"{letter}.", class_="figures-letter") + " " + escape(text),
            id=f"{references.prefix}-n-{letter}",
        )
        for text, letter in references.notes.items()
    )
    counted = f"Sources ({len(references.sources)})" + (f" and notes ({len(references.notes)})" if notes else "")
    content = tag("summary", counted) + (tag("ol", sources) if sources else "")
    content += tag("ul", notes, class_="figures-notes") if notes else ""
    yield tag("details", content, class_="figures-sources")


def _rest(source: Source) -> str:
    """What follows the linked title."""
    dated = "undated" if source.dated == "undated" else f"of {source.dated}"
    copy = f" ({source.copy})" if source.copy else ""
    note = f"; {source.note}" if source.note else ""
    return f", {source.by}, {source.kind}, {dated}; read {source.read}{copy}{note}"
