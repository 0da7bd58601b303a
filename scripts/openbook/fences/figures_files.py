"""The table of a `figures` fence as CSV and JSON, inside the page: they also work offline and from file://."""

import base64
import csv
import gzip
import io
import json
from typing import Any

from openbook.data.model import Figure, Record, Source
from openbook.data.show import in_unit, unit_shown
from openbook.fences.base import tag
from openbook.fences.figures_model import Request

LARGEST = 20_000  # characters of a link; a larger file is compressed, so that the page stays small


def downloads(request: Request, name: str) -> str:
    """Links to both files. The CSV opens in a spreadsheet; the JSON has sources, conditions and reasons, too."""
    file = name.replace("figures", request.topic.name)
    files = [("CSV", "text/csv", as_csv(request)), ("JSON", "application/json", as_json(request))]
    return ", ".join(_link(label, kind, text.encode(), f"{file}.{label.lower()}") for label, kind, text in files)


def _link(label: str, kind: str, content: bytes, file: str) -> str:
    address = _address(f"{kind};charset=utf-8", content)
    if len(address) > LARGEST:
        label, file = f"{label} (gzip)", f"{file}.gz"
        address = _address("application/gzip", gzip.compress(content, mtime=0))  # the same bytes on every build
    return tag("a", label, href=address, download=file)


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def as_csv(request: Request) -> str:
    """One line a record; numbers bare, in the table's units; empty where there is no value."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\r\n").writerow  # RFC 4180
    heads = [
        column.capitalize() if isinstance(column, str) else _head(column.title, _unit(request, column.name))
        for column in request.columns
    ]
    write([request.head, *heads, "Sources"])
    for record in request.records:
        cells, sources = [], {}
        for column in request.columns:
            if isinstance(column, str):
                cells.append(_safe(getattr(record, column)))
                continue
            figure = record.figure(column.name)
            cells.append(_safe(_value(figure, _unit(request, column.name))) if figure else "")
            if figure and figure.source:
                sources[figure.source.url] = None
        write([_safe(record.name), *cells, " ".join(sources)])
    return out.getvalue()


def as_json(request: Request) -> str:
    sources: dict[str, Source] = {}
    columns = [column for column in request.columns if not isinstance(column, str)]
    records = []
    for record in request.records:
        figures = {column.name: [_figure(one, _unit(request, column.name)) for one in record.figures[column.name]]
                   for column in columns if column.name in record.figures}  # fmt: skip
        for column in columns:
            sources |= {one.source.id: one.source for one in record.figures.get(column.name, ()) if one.source}
        records.append({**_attributes(record), "figures": figures})
    document = {
        "topic": request.topic.name,
        "caption": request.caption,
        "columns": [
            _filled(name=c.name, title=c.title, unit=_unit(request, c.name), direction=c.direction, note=c.note)
            for c in columns
        ],
        "records": records,
        "sources": {
            s.id: _filled(title=s.title, url=s.url, kind=s.kind, by=s.by, dated=s.dated, read=str(s.read), copy=s.copy)
            for s in sources.values()
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _unit(request: Request, column: str) -> str:
    return request.units.get(column, request.topic.columns[column].unit)


def _head(title: str, unit: str) -> str:
    return f"{title} ({unit_shown(unit)})" if unit_shown(unit) else title


def _value(figure: Figure, unit: str) -> float | int | str:
    if isinstance(figure.value, (int, float)):
        return in_unit(figure, unit)
    return figure.value or ""


def _safe(value: float | int | str) -> float | int | str:
    """A text that a spreadsheet would take for a formula gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t") and value else value


def _attributes(record: Record) -> dict[str, Any]:
    return _filled(**record.attributes(), note=record.note)


def _figure(figure: Figure, unit: str) -> dict[str, Any]:
    names = ("none", "unpublished", "condition", "note", "derived", "text", "choice")
    stated = {"value": _value(figure, unit)} if figure.value is not None else {}
    return stated | _filled(
        source=figure.source.id if figure.source else "",
        **{name: getattr(figure, name) for name in names},
        confidence="" if figure.confidence == "high" else figure.confidence,
    )


def _filled(**items: Any) -> dict[str, Any]:
    return {name: value for name, value in items.items() if value not in ("", None)}
