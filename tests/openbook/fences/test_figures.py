"""The `figures` fence: what a reader sees, what the files hold, what is refused and with which line."""

import base64
import csv
import dataclasses
import gzip
import io
import json
import re

import pytest
from markdown import Markdown
from selectolax.lexbor import LexborHTMLParser

from openbook.fences import base, figures

FENCE = "```figures\n{}\n```\n"
BODY = "topic: chips\ncolumns: [vendor, bf16_dense, memory_size, link]\ncaption: Peak and memory"


def markdown():
    custom = {"name": "figures", "class": "figures", "format": figures.render, "validator": figures.validate}
    extensions = ["pymdownx.superfences", "admonition", "tables", "attr_list", "openbook.markdown.figures"]
    return Markdown(extensions=extensions, extension_configs={"pymdownx.superfences": {"custom_fences": [custom]}})


def page(body: str) -> LexborHTMLParser:
    return LexborHTMLParser(markdown().convert(FENCE.format(body)))


def texts(tree, selector):
    return [" ".join(node.text().split()) for node in tree.css(selector)]


def test_a_table_reads_without_script(data):
    tree = page(BODY)
    assert texts(tree, "caption") == ["Peak and memory"]
    assert texts(tree, "thead th[scope=col]") == [
        "Name", "Vendor", "bf16 dense TFLOP/s", "Memory GB", "Link per direction GB/s a",
    ]  # fmt: skip
    assert texts(tree, "tbody th[scope=row]") == ["Chip One per chip", "Chip Two per package", "Chip Three per chip f"]
    rows = [texts(row, "td") for row in tree.css("tbody tr")]
    assert rows[0] == ["Maker", "989.4 1 b", "80 1", "450 1"]
    assert rows[1] == ["Other", "1,307.4 2 cor 1,300 1", "n/p d", "– e"]
    assert rows[2] == ["Maker", "n/f", "about 1.4 TB 2", "n/f"]
    assert tree.css(".figures script") == [] and "onclick" not in tree.html


def test_every_value_leads_to_its_source_with_dates(data):
    tree = page(BODY)
    ids = {node.attributes["id"] for node in tree.css("[id]")}
    targets = [node.attributes["href"] for node in tree.css("td .figures-refs a")]
    assert targets and all(target[1:] in ids for target in targets)
    assert texts(tree, ".figures-sources ol li") == [
        "Product page, Maker, vendor, of 2024-03; read 2026-11-30",
        "A paper, Authors, paper, undated; read 2026-11-29",
    ]
    assert texts(tree, ".figures-notes li") == [
        "a. payload", "b. half of the sparse figure", "c. used by the book: the newer document", "d. looked in: page", "e. it has none",
        "f. Chip Three, n/f: looked in A paper",
    ]  # fmt: skip
    legend = texts(tree, ".figures-legend")[0]
    assert "does not apply" in legend and "not published" in legend and "not found in what was read" in legend


def test_one_measure_for_all_stands_in_the_caption(data):
    tree = page("topic: chips\ncolumns: [bf16_dense]\nfilter: {vendor: Maker}\ncaption: Peak")
    assert texts(tree, "caption") == ["Peak per chip"]
    assert texts(tree, "tbody th") == ["Chip One", "Chip Three b"]


@pytest.mark.parametrize(
    "line, names",
    [
        ("sort: bf16_dense", ["Chip One", "Chip Two", "Chip Three"]),
        ("sort: -bf16_dense", ["Chip Two", "Chip One", "Chip Three"]),
        ("sort: memory_size", ["Chip One", "Chip Three", "Chip Two"]),
        ("sort: -memory_size", ["Chip Three", "Chip One", "Chip Two"]),
        ("sort: name", ["Chip One", "Chip Three", "Chip Two"]),
        ("sort: -name", ["Chip Two", "Chip Three", "Chip One"]),
        ("records: [two, one]", ["Chip Two", "Chip One"]),
        ("filter: {status: [announced]}", ["Chip Two"]),
        ("filter: {vendor: [Maker, Other], per: package}", ["Chip Two"]),
    ],
)
def test_records_are_chosen_and_sorted(data, line, names):
    shown = [re.sub(" per .*", "", text) for text in texts(page(f"{BODY}\n{line}"), "tbody th")]
    assert shown == names


def test_units_of_a_column_can_be_set(data):
    tree = page(f"{BODY}\nunits: {{memory_size: GiB, link: Gb/s}}")
    assert texts(tree, "thead .figures-unit") == ["TFLOP/s", "GiB", "Gb/s"]
    cells = texts(tree, "tbody tr:first-child td .figures-value")
    assert cells == ["989.4", "74.51", "3,600"]


def files(tree):
    links = {node.text(): node.attributes for node in tree.css(".figures-download a")}
    return {name: base64.b64decode(link["href"].partition(",")[2]).decode() for name, link in links.items()}, links


def test_downloads_are_exactly_the_table(data):
    both, links = files(
        page("topic: chips\ncolumns: [vendor, memory_size, kind]\nunits: {memory_size: MB}\ncaption: Memory")
    )
    assert all(link["href"].startswith("data:") and link["download"] for link in links.values())
    rows = list(csv.reader(io.StringIO(both["CSV"])))
    assert rows == [
        ["Name", "Vendor", "Memory (MB)", "Kind", "Sources"],
        ["Chip One", "Maker", "80000", "'=HBM3", "https://example.org/chip"],
        ["Chip Two", "Other", "", "", ""],
        ["Chip Three", "Maker", "1410500", "", "https://example.org/paper"],
    ]
    document = json.loads(both["JSON"])
    assert [column["unit"] for column in document["columns"]] == ["MB", "text"]
    assert document["records"][0]["figures"]["memory_size"] == [{"value": 80000, "source": "page"}]
    assert document["records"][1]["figures"]["memory_size"] == [{"unpublished": "looked in: page"}]
    assert document["sources"]["page"]["read"] == "2026-11-30"


def test_no_text_reaches_the_page_as_markup(data):
    body = "topic: hostile\ncolumns: [vendor, group, bf16_dense, kind]\ncaption: '<script>alert(1)</script> *a* [[b]]'\nhead: <i>"
    html = markdown().convert(FENCE.format(body))
    tree = LexborHTMLParser(html)
    allowed = {
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "span",
        "sup",
        "a",
        "p",
        "details",
        "summary",
    }
    used = {node.tag for node in tree.css(".figures *")}
    assert used <= allowed | {"ol", "ul", "li"}
    handlers = [name for node in tree.css("*") for name in node.attributes if name.startswith("on")]
    assert handlers == []
    assert "<script" not in html and "<img" not in html and "<i>" not in html
    assert texts(tree, "caption") == ["<script>alert(1)</script> *a* [[b]]"]
    assert texts(tree, "tbody th")[0].startswith("<script>alert(1)</script> *x* `y`")


def test_a_reference_escapes_its_texts(data):
    html = markdown().convert("It is [[hostile.one.bf16_dense]] and [[hostile.one.kind]].")
    tree = LexborHTMLParser(html)
    assert "<script" not in html and tree.css("strong") == [] and tree.css("p code") == []
    assert tree.css_first("a.figure-value").text() == "<script>alert(1)</script>\u00a0TFLOP/s"
    assert all(set(node.attributes) == {"class", "href", "title"} for node in tree.css("p *"))


@pytest.mark.parametrize(
    "reference, text",
    [
        ("[[chips.one.bf16_dense]]", "989.4\u00a0TFLOP/s"),
        ("[[chips.one.bf16_dense in PFLOP/s digits 2]]", "0.99\u00a0PFLOP/s"),
        ("[[chips.one.bf16_dense digits 3 bare]]", "989"),
        ("[[chips.two.bf16_dense]]", "1,307.4\u00a0TFLOP/s"),
        ("[[chips.three.memory_size]]", "about 1.4 TB"),
        ("`[[chips.one.bf16_dense]]`", None),
        ("\\[[chips.one.bf16_dense]]", None),
        ("[[not a figure]]", None),
    ],
)
def test_a_figure_in_running_text(data, reference, text):
    tree = LexborHTMLParser(markdown().convert(f"| a |\n|---|\n| {reference} |\n"))
    shown = [node.text() for node in tree.css("td a.figure-value")]
    assert shown == ([text] if text else [])
    if text:
        title = tree.css_first("a.figure-value").attributes["title"]
        assert "read 2026-11-" in title


@pytest.mark.parametrize(
    "reference, words",
    [
        ("chip.one.bf16_dense", "did you mean 'chips'"),
        ("chips.four.bf16_dense", "no record 'four'"),
        ("chips.one.bf16", "did you mean 'bf16_dense'"),
        ("chips.two.link", "has no value: it has none"),
        ("chips.two.memory_size", "not published"),
        ("chips.one.memory_size in W", "cannot be given in W"),
        ("chips.one.memory_size rounded", "in this order"),
    ],
)
def test_an_unknown_reference_stops_the_build(data, reference, words):
    with pytest.raises(ValueError, match=words) as raised:
        markdown().convert(f"See [[{reference}]].")
    assert f"[[{reference}]]" in str(raised.value)


BAD = {
    "wrong type": ("columns: [vendor, bf16_dense, memory_size, link]", "columns: {a: b}", 2, "plain texts"),
    "number": ("caption: Peak and memory", "caption: 5", 3, "must be text"),
    "unknown field": ("caption:", "color: red\ncaption:", 3, "unknown field 'color'"),
    "unknown topic": ("topic: chips", "topic: chip", 1, "did you mean 'chips'"),
    "unknown column": ("bf16_dense,", "bf16,", 2, "did you mean 'bf16_dense'"),
    "column twice": ("bf16_dense,", "vendor,", 2, "stands twice"),
    "duplicate key": ("topic: chips", "topic: chips\ntopic: chips", 2, "stands twice"),
    "nan": ("caption: Peak and memory", "caption: .nan", 3, "not a number"),
    "huge": ("caption: Peak and memory", "caption: 1e999", 3, "larger than any"),
    "wrong unit": ("caption:", "units: {memory_size: W}\ncaption:", 3, "cannot be given in W"),
    "unit of another column": ("caption:", "units: {kind: GB}\ncaption:", 3, "not among the columns"),
    "unit of a wrong type": ("caption:", "units: {memory_size: [GB]}\ncaption:", 3, "unknown unit"),
    "unknown record": ("caption:", "records: [one, tow]\ncaption:", 3, "did you mean 'two'"),
    "record twice": ("caption:", "records: [one, one]\ncaption:", 3, "a record stands twice"),
    "both": ("caption:", "records: [one]\nfilter: {vendor: Maker}\ncaption:", 4, "both records and filter"),
    "unknown filter": ("caption:", "filter: {vendors: Maker}\ncaption:", 3, "unknown field 'vendors'"),
    "unknown vendor": ("caption:", "filter: {vendor: Makers}\ncaption:", 3, "did you mean 'Maker'"),
    "unknown sort": ("caption:", "sort: -peak\ncaption:", 3, "there is no column 'peak'"),
    "no caption": ("\ncaption: Peak and memory", "", 1, "no 'caption'"),
    "alias bomb": ("caption:", "a: &a [x]\nb: *a\ncaption:", 3, "anchor"),
    "tag": ("caption:", "a: !!python/name:os.system x\ncaption:", 3, "a tag"),
    "not YAML": ("caption:", "a: [\ncaption:", 4, "not valid YAML"),
    "empty": (BODY, "", 0, "the body is empty"),
    "a list": (BODY, "- a", 1, "must be a mapping"),
    "too long": (BODY, "#" * 30_000, 0, "longer than"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=list(BAD))
def test_a_mistake_stops_the_build_with_its_line(data, case):
    old, new, line, words = case
    body = BODY.replace(old, new, 1)
    _, problems = base.problems_of(figures.core, body)
    assert any(problem.line == line and words in str(problem) for problem in problems), problems
    with pytest.raises(base.FenceError) as raised:
        markdown().convert(FENCE.format(body))
    assert f"line {line}: " in str(raised.value)


def test_an_attribute_that_means_nothing_stops_the_build(data):
    with pytest.raises(base.FenceError, match="the attribute 'width' means nothing"):
        markdown().convert(FENCE.format(BODY).replace("figures", "figures {width=3}", 1))


def test_all_mistakes_are_told_at_once(data):
    body = "topic: chips\ncolumns: [a, b]\nsort: c\ncolor: red"
    with pytest.raises(base.FenceError) as raised:
        markdown().convert(FENCE.format(body))
    assert len(str(raised.value).splitlines()) == 6


def test_in_a_box_it_renders_too(data):
    boxed = "!!! note\n\n" + "".join(f"    {line}\n" for line in FENCE.format(BODY).splitlines())
    assert len(LexborHTMLParser(markdown().convert(boxed)).css(".admonition .figures table")) == 1


def test_a_row_for_which_nothing_was_read_is_a_problem(data):
    root = base.body_of(BODY, [])
    assert figures.cells_without_record(root, data) == []  # three lacks figures; what was read for it is told
    read = data.topics["chips"].records["three"]
    empty = dataclasses.replace(read, figures={})
    topic = dataclasses.replace(data.topics["chips"], records={**data.topics["chips"].records, "three": empty})
    bare = dataclasses.replace(data, topics={"chips": topic})
    found = [p.message for p in figures.cells_without_record(root, bare)]
    assert "three has no figure for memory_size, which the table shows" in found


def test_a_large_file_is_compressed(data, monkeypatch):
    from openbook.fences import figures_files

    monkeypatch.setattr(figures_files, "LARGEST", 400)
    tree = page(BODY)
    assert texts(tree, ".figures-download a") == ["CSV", "JSON (gzip)"]
    link = tree.css(".figures-download a")[1].attributes
    assert link["download"].endswith(".json.gz")
    content = gzip.decompress(base64.b64decode(link["href"].partition(",")[2]))
    assert json.loads(content)["caption"] == "Peak and memory"
    assert page(BODY).html == tree.html, "a build gives the same bytes again"
