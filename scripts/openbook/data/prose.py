"""Numbers on pages that repeat a record: those that differ from it, and tables of them typed by hand.

What counts as repeating is narrow, because a false finding costs more trust than a missed one earns: the
record's name and a number with a unit of the same dimension stand in one sentence, or in one row of a table.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from openbook.data.load import Data
from openbook.data.model import Column, Figure, Record, Topic
from openbook.data.problem import Problem
from openbook.data.show import number as written
from openbook.data.units import UNITS, Unit, convert

NEAR = 0.2  # a number further away is another quantity
MANY = 4  # cells of a table that repeat records
SKIPPED = "pre, code, kbd, math, svg, script, style, .arithmatex, .headerlink, .figures, .figure-value, .chart, .calculator, .openbook-failed"
# A number of these is not what the record states: somebody measured it, or it is a share or a sum.
OTHER = re.compile(
    r"\b(measured?|reach\w*|achieve[sd]?|achieving|sustain\w*|best|found|got|gets?|took|takes|median|mean|real|actual|effective|"
    r"observed|bus|busbw|algbw|MFU|HFU|half|twice|double|sparse|sparsity|total|node|server|per cent|about|"
    r"roughly|around|nearly|almost|over|up to|at least|more than|less than|under load)\b",
    re.I,
)
NAMES = sorted(
    (name for name in UNITS if name not in ("text", "date", "1", "m", "s", "h", "A", "V", "B", "U", "min", "day")),
    key=len,
)
UNIT = "|".join(re.escape(name) for name in reversed(NAMES))
NUMBER = r"(?<![\w.,/^-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w^]|[.,]\d)"
QUANTITY = re.compile(rf"{NUMBER}[ \u00a0]?({UNIT})(?![\w/])")
PLAIN = re.compile(rf"{NUMBER}")
IN_HEAD = re.compile(rf"(?<![\w/])({UNIT})(?![\w/])")
SENTENCE = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z\[])")


@dataclass(frozen=True)
class Named:
    """A record that a text names."""

    topic: Topic
    record: Record

    def figures(self, unit: Unit) -> Iterator[tuple[Column, Figure, float]]:
        """The figures of the unit's dimension, each in that unit, other sources' too."""
        for figures in self.record.figures.values():
            for figure in figures:
                if isinstance(figure.value, (int, float)) and UNITS[figure.unit].dimension == unit.dimension:
                    yield figure.column, figure, convert(figure.value, figure.unit, unit.symbol)


class Names:
    """Finds the records that a text names; a longer name hides the shorter one in it."""

    def __init__(self, data: Data):
        self.records: dict[str, list[Named]] = {}
        for topic in data.topics.values():
            for record in topic.records.values():
                for name in {record.name, *record.aliases}:
                    self.records.setdefault(name, []).append(Named(topic, record))
        longest = sorted(self.records, key=len, reverse=True)
        self.pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest)) or '(?!)'})(?![\w-])")

    def within(self, text: str) -> list[Named]:
        return [named for name in dict.fromkeys(self.pattern.findall(text)) for named in self.records[name]]


def check_prose(html: str, lines: Sequence[str], data: Data) -> Iterator[Problem]:
    names = Names(data)
    if not names.records or not html:
        return
    tree = LexborHTMLParser(html)
    for node in tree.css(SKIPPED):
        node.replace_with(" \ufffc ")  # stands for something, joins nothing
    tree.merge_text_nodes()
    for table in tree.css("table"):
        yield from _table(table, lines, names)
        table.replace_with(" ")
    for block in tree.css("p, li, dd, dt, summary, figcaption"):
        text = " ".join(block.text(deep=block.tag != "li").split())
        for sentence in SENTENCE.split(text):
            yield from _sentence(sentence, lines, names)


def _sentence(sentence: str, lines: Sequence[str], names: Names) -> Iterator[Problem]:
    found = names.within(sentence)
    if not found or OTHER.search(sentence):
        return
    for literal, symbol in QUANTITY.findall(sentence):
        if problem := _differing(literal, UNITS[symbol], found, sentence):
            yield _at(problem, lines, literal, [named.record for named in found])


def _table(table: LexborNode, lines: Sequence[str], names: Names) -> Iterator[Problem]:
    rows = [[" ".join(cell.text().split()) for cell in row.css("th, td")] for row in table.css("tr")]
    if not rows:
        return
    lead = IN_HEAD.findall(_before(table)) if len(rows[0]) > 1 else []
    lead_unit = f" {lead[0]}" if len(set(lead)) == 1 else ""  # "Dense TFLOP/s per chip:" above the table
    lines = _lines_of(rows[0], lines)
    heads, repeated, first = rows[0], 0, 0
    for row in rows[1:]:
        found = names.within(row[0]) if row else []
        for head, cell in zip(heads[1:], row[1:]):
            for literal, unit in _quantities(cell, head, heads[0] + lead_unit):
                if not found or OTHER.search(f"{head} {cell}"):
                    continue
                if any(same(literal, value) for named in found for _, _, value in named.figures(unit)):
                    repeated += 1
                    first = first or _line(lines, literal, [named.record for named in found])
                elif problem := _differing(literal, unit, found, f"{head} {' '.join(row)}"):
                    yield _at(problem, lines, literal, [named.record for named in found])
    if repeated >= MANY:
        message = f"a table typed by hand repeats {repeated} figures that docs/data has"
        yield Problem(first, "table-by-hand", message, "a `figures` fence shows them with their sources", "warning")


def _lines_of(heads: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The page's lines with all but the table's blanked; all tables' where its head is not recognised."""
    cells = [[_plain(cell) for cell in line.strip().strip("|").split("|")] for line in lines]
    start = next((n for n, row in enumerate(cells) if len(row) > 1 and row == [_plain(head) for head in heads]), None)
    if start is None:
        return [line if "|" in line else "" for line in lines]
    end = next((n for n in range(start, len(lines)) if "|" not in lines[n]), len(lines))
    return [line if start <= n < end else "" for n, line in enumerate(lines)]


def _plain(cell: str) -> str:
    """A cell's letters, without its markup."""
    return "".join(re.findall(r"\w", re.sub(r"\]\([^)]*\)|\]\[[^\]]*\]", "", cell)))


def _before(table: LexborNode) -> str:
    """The paragraph above a table."""
    node = table.prev
    while node is not None and node.tag == "-text":
        node = node.prev
    return node.text() if node is not None and node.tag == "p" else ""


def _quantities(cell: str, head: str, corner: str) -> Iterator[tuple[str, Unit]]:
    """The numbers of a cell, with the unit that stands behind them or in the head."""
    own = QUANTITY.findall(cell)
    if own:
        yield from ((literal, UNITS[symbol]) for literal, symbol in own)
    elif unit := IN_HEAD.search(head) or IN_HEAD.search(corner):
        numbers = PLAIN.findall(cell)
        if len(numbers) == 1:
            yield numbers[0], UNITS[unit[1]]


def _differing(literal: str, unit: Unit, found: Sequence[Named], context: str) -> Problem | None:
    """A number that is near one figure of the records named and equals none."""
    value = float(literal.replace(",", ""))
    near: list[tuple[float, Named, Column, float]] = []
    for named in found:
        for column, _, stated in named.figures(unit):
            if same(literal, stated):
                return None
            if stated and abs(value - stated) <= NEAR * abs(stated) and _speaks_of(context, column):
                near.append((abs(value - stated), named, column, stated))
    if not near:
        return None
    _, named, column, stated = min(near, key=lambda one: one[0])
    message = f"{literal} {unit.symbol} differs from {named.record.name}: {column.title} {written(float(f'{stated:.6g}'))} {unit.symbol}"
    hint = f"write [[{named.topic.name}.{named.record.id}.{column.name}]], or correct docs/data"
    return Problem(0, "differs", message, hint)


def _speaks_of(context: str, column: Column) -> bool:
    """Whether a text uses a word of the column's title, so that the number can be that column's."""
    words = [
        word for word in re.findall(r"\w+", column.title.lower()) if word not in ("dense", "per", "of", "max", "size")
    ]
    text = set(re.findall(r"\w+", context.lower()))
    return any(word in text for word in words)


def same(literal: str, stated: float) -> bool:
    """Whether a number as written is the stated one, rounded, or cut off after the digits written."""
    plain = literal.replace(",", "")
    whole, _, decimals = plain.partition(".")
    last = step = 10.0 ** -len(decimals)  # of the last digit written
    if not decimals:  # trailing zeros may be rounding, as long as two digits stay
        zeros = len(whole) - len(whole.rstrip("0"))
        step = 10.0 ** max(0, min(zeros, len(whole) - 2))
    beyond = stated - float(plain)
    return abs(beyond) <= step / 2 * 1.0001 or 0 < beyond < last


def _at(problem: Problem, lines: Sequence[str], literal: str, records: Sequence[Record]) -> Problem:
    return Problem(_line(lines, literal, records), problem.rule, problem.message, problem.hint, problem.severity)


def _line(lines: Sequence[str], literal: str, records: Sequence[Record]) -> int:
    """The page's line that holds the number and the name, else the number."""
    number = re.compile(rf"(?<![\w.,]){re.escape(literal)}(?![\d])")
    holding = [n for n, line in enumerate(lines, 1) if number.search(line)]
    names = {name for record in records for name in (record.name, *record.aliases)}
    both = [n for n in holding if any(name in lines[n - 1] for name in names)]
    return (both or holding or [0])[0]
