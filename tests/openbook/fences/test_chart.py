"""The `chart` fence: what is drawn, the same bytes each time, the text alternative, and what is refused with its line."""

import itertools
import math
import re
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown import Markdown
from selectolax.lexbor import LexborHTMLParser

from openbook import ROOT
from openbook.data import load
from openbook.fences import base, chart, chart_cache
from openbook.fences.chart_draw import simplified
from openbook.fences.chart_labels import LINE, place, spread
from openbook.fences.chart_scale import axis

BAR = """\
kind: bar
topic: chips
columns: [memory_size]
records: [one, three]
sort: -memory_size
caption: Memory of chips
"""
SCATTER = """\
kind: scatter
topic: chips
columns: [memory_size, bf16_dense]
filter: {vendor: [Maker, Other]}
log: [x, y]
caption: Peak over memory
"""
LINE_BODY = """\
kind: line
x: {title: Intensity, unit: FLOP/B, from: 1, to: 10000, log: true}
y: {title: Attainable, unit: TFLOP/s, log: true}
caption: Roofline
series:
  - title: One
    expr: min(peak, x * bandwidth)
    values: {peak: chips.one.bf16_dense, bandwidth: 3.35}
  - title: Two
    expr: min(peak, x * 8)
    values: {peak: chips.two.bf16_dense}
points:
  - {title: ridge, x: peak / 3.35, y: peak, values: {peak: chips.one.bf16_dense}}
"""
MEASURED = """\
kind: line
x: {title: Rows, from: 1, to: 4096, log: 2}
y: {title: Share of peak, unit: "%"}
caption: Measured and modelled
series:
  - title: model
    expr: 100 * x / (x + half)
    values: {half: 64}
  - title: One
    topic: runs
    filter: {group: Chip One}
    x: rows
    y: 100 * rate / peak
    values: {peak: chips.one.bf16_dense}
"""
RUNS = """\
topic: runs
about: Rates by rows.
limit_months: 18
columns:
  rows: {title: Rows, unit: "1"}
  rate: {title: Rate, unit: TFLOP/s}
sources:
  run: {title: A run, url: "https://example.org/run", kind: measured, by: us, dated: "2026-11-30", read: 2026-11-30}
records:
  - {id: b, name: 256 rows, group: Chip One, figures: {rows: {value: 256, source: run}, rate: {value: 494.7, source: run, condition: warm}}}
  - {id: a, name: 16 rows, group: Chip One, figures: {rows: {value: 16, source: run}, rate: {value: 98.94, source: run}}}
  - {id: c, name: 4096 rows, group: Chip Two, figures: {rows: {value: 4096, source: run}}}
"""
BODIES = {"bar": BAR, "scatter": SCATTER, "line": LINE_BODY}
CLASSES = re.compile(r"\.(chart-[a-z0-9]+)")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The cache of these tests."""
    monkeypatch.setattr(chart_cache, "FOLDER", tmp_path / "charts")
    return tmp_path / "charts"


@pytest.fixture
def runs(data, tmp_path):
    """Beside the chips, a topic with a record a point."""
    (tmp_path / "runs.yml").write_text(RUNS)
    assert load.load().findings == ()


def markdown() -> Markdown:
    custom = {"name": "chart", "class": "chart", "format": chart.render, "validator": chart.validate}
    return Markdown(extensions=["pymdownx.superfences"], extension_configs={"pymdownx.superfences": {"custom_fences": [custom]}})  # fmt: skip


def tree_of(body: str) -> LexborHTMLParser:
    return LexborHTMLParser(markdown().convert(f"```chart\n{body}```\n"))


def texts(tree, selector):
    return [" ".join(node.text().split()) for node in tree.css(selector)]


def problems_of(body: str) -> list[tuple[int, str, str]]:
    html, problems = base.problems_of(chart.core, body)
    assert not html and problems, "nothing was found"
    return [(problem.line, problem.rule, str(problem)) for problem in problems]


def test_bars_carry_their_names_and_values(data):
    tree = tree_of(BAR)
    assert len(tree.css("path.chart-bar")) == 2
    assert texts(tree, "text.chart-label") == ["80", "about 1.4 TB"]
    assert texts(tree, "text.chart-tick")[:2] == ["Chip One", "Chip Three"]
    assert texts(tree, "text.chart-title") == ["Memory (GB)"]
    lengths = [float(re.search(r"h([\d.]+)v", node.attributes["d"])[1]) for node in tree.css("path.chart-bar")]
    assert lengths[1] / lengths[0] == pytest.approx(1410.5 / 80, rel=0.02)


def test_dots_and_lines_are_named_directly(data):
    tree = tree_of(SCATTER)
    assert texts(tree, ".chart-label") == ["Chip One"], "only one record has both values"
    tree = tree_of(LINE_BODY)
    assert sorted(texts(tree, ".chart-label")) == ["One", "Two", "ridge"]
    assert [node.attributes["class"] for node in tree.css(".chart-line")] == [
        "chart-line chart-1",
        "chart-line chart-2",
    ]
    path = tree.css_first(".chart-line").attributes["d"]
    assert path.count("L") <= 3, "a roofline is two straight parts"


def test_records_are_dots_joined_in_order_of_x(runs):
    tree = tree_of(MEASURED)
    (marks,) = tree.css(".chart-svg .chart-mark")
    assert marks.attributes["class"] == "chart-mark chart-2"
    ends = [(float(x) + 4, float(y) + 4) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h8", marks.attributes["d"])]
    assert len(ends) == 2 and ends[0][0] < ends[1][0] and ends[0][1] > ends[1][1]
    line = tree.css(".chart-svg .chart-line")[1]
    assert line.attributes["d"] == "M" + "L".join(f"{x:g} {y:g}" for x, y in ends)
    ticks = [text for text in texts(tree, ".chart-svg .chart-tick") if text in ("1", "4", "16", "4,096")]
    assert ticks == ["1", "4", "16", "4,096"], "named at powers of two"


def test_the_table_of_records_shows_what_was_computed_from_what(runs):
    formulas, records = tree_of(MEASURED).css(".chart-table")
    assert texts(formulas, "tbody th") == ["model"]
    assert texts(records, "thead th") == ["Rows", "Share of peak (%)"]
    assert [texts(row, "th, td") for row in records.css("tbody tr")] == [
        ["One: A run; Product page"],
        ["16", "10 (Rate 98.94 TFLOP/s)"],
        ["256", "50 (Rate 494.7 TFLOP/s, warm)"],
    ]
    assert [node.attributes["href"] for node in records.css("a")] == [
        "https://example.org/run",
        "https://example.org/chip",
    ]
    plain = tree_of(MEASURED.replace("100 * rate / peak", "rate")).css(".chart-table")[1]
    assert texts(plain, "td") == ["98.94", "494.7 (warm)"]


def test_lines_are_named_in_a_legend_where_there_is_no_room_beside_them(runs):
    assert texts(tree_of(MEASURED), ".chart-legend li") == ["model", "One"], "they end at different x"
    ending = MEASURED.replace("to: 4096", "to: 256")
    assert texts(tree_of(ending), ".chart-legend li") == []
    assert sorted(texts(tree_of(ending), ".chart-label")) == ["One", "model"]
    long = ending.replace("title: One", "title: One with a long name")
    tree = tree_of(long)
    assert texts(tree, ".chart-legend li") == ["model", "One with a long name"] and not tree.css(".chart-label")
    first, second = tree.css(".chart-legend .chart-sample")
    assert not first.css(".chart-mark") and second.css_first(".chart-mark").attributes["class"] == "chart-mark chart-2"


@pytest.mark.parametrize(
    "old, new, line, rule, words",
    [
        ("topic: runs", "topic: run", 10, "unknown-topic", "'run'"),
        ("group: Chip One", "group: Chip Three", 11, "unknown-group", "Chip Three"),
        ("group: Chip One", "group: Chip Two", 10, "empty-chart", "0 records have values"),
        ("filter: {group: Chip One}", "records: [a, c]", 11, "no-value", "c has no number for rate"),
        ("filter: {group: Chip One}", "records: [a, d]", 11, "unknown-record", "'d'"),
        ("filter: {group: Chip One}", "records: [a]", 10, "empty-chart", "takes 2 to"),
        ("x: rows", "x: row", 12, "bad-formula", "did you mean 'rows'?"),
        ("x: rows", "x: rows / 100", 12, "bad-number", "a: x is 0.16, outside the axis"),
        ("y: 100 * rate", "y: 1 / (rows - 16) * rate", 13, "bad-formula", "division by zero"),
        ("    x: rows\n", "", 9, "missing-field", "'x'"),
        ("x: rows", "x: rows\n    expr: x", 13, "unknown-field", "'expr'"),
        ("log: 2", "log: 3", 2, "wrong-type", "true, false or 2"),
    ],
)
def test_what_is_wrong_with_records_is_said_with_its_line(runs, old, new, line, rule, words):
    assert old in MEASURED
    found = problems_of(MEASURED.replace(old, new, 1))
    assert any(at == line and name == rule and words in message for at, name, message in found), found


def test_an_announced_chip_is_called_so(data):
    body = BAR.replace("[memory_size]", "[bf16_dense]").replace("[one, three]", "[one, two]").replace("-memory", "-bf16").replace("_size", "_dense")  # fmt: skip
    assert "Chip Two (announced)" in texts(tree_of(body), "text.chart-tick")


@pytest.mark.parametrize("kind", BODIES)
def test_same_bytes_each_time_and_nothing_but_classes(data, kind, folder):
    one = markdown().convert(f"```chart\n{BODIES[kind]}```\n")
    shutil.rmtree(folder)
    assert markdown().convert(f"```chart\n{BODIES[kind]}```\n") == one
    svg = LexborHTMLParser(one).css_first("svg.chart-svg")
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|fill=|stroke=|style|script|pygal|20\d\d-\d\d", svg.html)
    ids = [node.attributes["id"] for node in LexborHTMLParser(one).css("[id]")]
    assert len(ids) == len(set(ids)) == 2 and all(re.fullmatch(r"chart-[0-9a-f]{8}-[td]", one) for one in ids)
    assert len(svg.css("*")) < 60
    styled = set(CLASSES.findall((ROOT / "docs/assets/css/chart.css").read_text()))
    used = {name for node in LexborHTMLParser(one).css("[class]") for name in node.attributes["class"].split()}
    assert {name for name in used if name.startswith("chart-")} <= styled | {"chart-values", "chart-tick"}


@pytest.mark.parametrize("kind", BODIES)
def test_there_is_a_text_alternative(data, kind):
    tree = tree_of(BODIES[kind])
    svg = tree.css_first("svg.chart-svg")
    assert svg.attributes["role"] == "img"
    title, desc = (tree.css_first(f"#{identity}") for identity in svg.attributes["aria-labelledby"].split())
    assert title.text() == texts(tree, "figcaption")[0] and len(desc.text()) > 40
    table = tree.css_first("details .chart-table")
    assert table.css("thead th[scope=col]") and table.css("tbody th[scope=row]")
    assert table.css_first("a").attributes["href"].startswith("https://example.org/")


def test_the_table_of_formulas_shows_values_and_sources(data):
    tree = tree_of(LINE_BODY)
    row = texts(tree.css("tbody tr")[0], "th, td")
    assert row[0] == "One" and row[1] == "min(peak, x × bandwidth)"
    assert row[2] == "peak = 989.4 TFLOP/s, Product pagebandwidth = 3.35"
    assert row[3:] == ["3.35", "33.5", "335", "989.4", "989.4"]


@pytest.mark.parametrize(
    "kind, old, new, line, rule, words",
    [
        ("bar", "kind: bar", "kind: pie", 1, "unknown-word", "one of bar, scatter, line"),
        ("bar", "kind: bar", "kind: [bar]", 1, "unknown-word", "one of bar, scatter, line"),
        ("bar", "topic: chips", "topic: chip", 2, "unknown-topic", "chips"),
        ("bar", "[memory_size]", "[memory]", 3, "unknown-column", "memory_size"),
        ("bar", "[memory_size]", "[memory_size, bf16_dense]", 3, "wrong-columns", "takes 1 columns"),
        ("bar", "[memory_size]", "[kind]", 3, "wrong-columns", "that hold numbers"),
        ("bar", "[one, three]", "[one, two]", 4, "no-value", "two has no number"),
        ("bar", "[one, three]", "[one, ones]", 4, "unknown-record", "ones"),
        ("bar", "[one, three]", "[one, one]", 4, "duplicate-key", "twice"),
        ("bar", "sort:", "colour: red\nsort:", 5, "unknown-field", "'colour'"),
        ("bar", "sort:", "log: [x]\nsort:", 5, "unknown-field", "'log'"),
        ("bar", "sort:", "units: {memory_size: TFLOP/s}\nsort:", 5, "wrong-unit", "cannot be given"),
        ("bar", "caption: Memory of chips", "caption: [a]", 6, "wrong-type", "must be text"),
        ("bar", "caption: Memory of chips", "topic: chips", 6, "duplicate-key", "twice"),
        ("scatter", "log: [x, y]", "log: [x, z]", 5, "unknown-axis", "'z'"),
        ("scatter", "[Maker, Other]", "[Nobody]", 4, "unknown-vendor", "Nobody"),
        ("line", "from: 1,", "from: 0,", 2, "bad-number", "on a logarithmic axis"),
        ("line", "to: 10000", "to: .nan", 2, "bad-number", "not a number"),
        ("line", "to: 10000", "to: 1e99", 2, "bad-number", "larger than"),
        ("line", "to: 10000", "to: far", 2, "wrong-type", "must be a number"),
        ("line", "min(peak, x * bandwidth)", "peak / (x - x)", 7, "bad-formula", "division by zero"),
        ("line", "min(peak, x * bandwidth)", "min(peek, x)", 7, "bad-formula", "'peek'"),
        ("line", "min(peak, x * bandwidth)", "x > 3", 7, "bad-formula", "where a number is needed"),
        ("line", "min(peak, x * bandwidth)", "0 * x", 3, "bad-number", "zero or less"),
        ("line", "min(peak, x * bandwidth)", "open('f')", 7, "bad-formula", "unknown function"),
        ("line", "chips.one.bf16_dense, b", "chips.one.bf16, b", 8, "unknown-figure", "bf16_dense"),
        ("line", "chips.one.bf16_dense, b", "chips.one.kind, b", 8, "no-value", "holds no number"),
        ("line", "x: peak / 3.35", "x: peak * 100", 13, "bad-number", "outside the axis"),
        ("line", "x: peak / 3.35", "x: -1", 13, "bad-number", "outside the axis"),
        ("line", "caption: Roofline", "caption: &a Roofline", 4, "yaml-alias", "anchor"),
        ("line", "caption: Roofline\n", "", 1, "missing-field", "caption"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(data, kind, old, new, line, rule, words):
    body = BODIES[kind]
    assert old in body
    found = problems_of(body.replace(old, new, 1))
    assert any(at == line and name == rule and words in message for at, name, message in found), found


def test_no_text_becomes_markup(data):
    body = (
        BAR.replace("topic: chips", "topic: hostile")
        .replace("memory_size", "bf16_dense")
        .replace("[one, three]", "[one]")
    )
    body = body.replace(
        "caption: Memory of chips", 'caption: "</title><script>alert(1)</script>"\ndesc: "</desc><img src=x>"'
    )
    tree = tree_of(body)
    assert tree.css("script, img, b, em") == []
    assert "<script>alert(1)</script>" in texts(tree, ".chart-tick")[0]
    assert tree.css("[onload], [onerror]") == []


def test_a_mistake_stops_the_build_and_names_the_line(data):
    with pytest.raises(base.FenceError, match=r"chart fence that begins with 'kind: bar'"):
        tree_of(BAR.replace("[memory_size]", "[memory]"))


def test_pygal_is_loaded_only_for_a_chart_that_is_new(data, folder, monkeypatch):
    source = Path(chart.__file__).with_name("chart_draw.py").read_text()
    assert not re.search(r"^(from|import) pygal", source, re.M)
    first = tree_of(BAR).html
    monkeypatch.setitem(sys.modules, "pygal", None)
    assert tree_of(BAR).html == first
    with pytest.raises(base.FenceError, match=r"ModuleNotFoundError: .*pygal"):
        tree_of(BAR.replace("caption: Memory", "caption: The memory"))


@pytest.mark.parametrize(
    "spoil", [lambda f: f.write_bytes(b"\xff"), lambda f: f.write_text("<svg "), lambda f: (f.unlink(), f.mkdir())]
)
def test_a_spoiled_cache_is_no_harm(data, folder, spoil):
    first = tree_of(BAR).html
    (file,) = folder.iterdir()
    spoil(file)
    assert tree_of(BAR).html == first


@given(st.lists(st.floats(0.01, 1e9), min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values_and_few_ticks(values, log):
    made = axis("t", "", values, log)
    assert made.least <= min(values) * (1 + 1e-9) and made.most >= max(values) * (1 - 1e-9)
    assert 1 <= len(made.ticks) <= 14


def test_an_even_axis_begins_at_zero():
    made = axis("t", "", [80, 1410], log=False)
    assert made.ticks == (0, 500, 1000, 1500) and made.least == 0


@given(st.floats(0.01, 1e9), st.floats(1, 1e9))
def test_powers_of_two_are_few(least, factor):
    ticks = axis("t", "", [least, least * factor], log=True, exact=True, binary=True).ticks
    assert len(ticks) <= 8 and all(math.log2(tick).is_integer() for tick in ticks)
    assert factor < 4 or ticks


@given(st.lists(st.floats(0, 300), max_size=6))
def test_labels_at_the_ends_of_lines_keep_apart(heights):
    moved = sorted(spread(heights))
    assert all(b - a > LINE - 1 for a, b in itertools.pairwise(moved))


def test_labels_avoid_each_other_and_the_edge():
    dots = [(380.0, 100.0), (382.0, 103.0), (378.0, 98.0)]
    placed = place(dots, ["a long label", "another one", "third"], 400)
    assert all(left >= 0 and left + 7.4 * 12 <= 400.1 for left, _ in placed[:1])
    assert len({round(base) for _, base in placed}) == 3


def test_a_straight_line_is_two_points():
    assert simplified([(float(n), 2.0 * n) for n in range(100)]) == [(0.0, 0.0), (99.0, 198.0)]
    assert len(simplified([(float(n), float(min(n, 50))) for n in range(100)])) == 3
