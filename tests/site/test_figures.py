"""Tables of figures in a browser: sorting, filter, units, files; without JavaScript; on a phone, dark, printed."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from openbook import ROOT

TOPIC = """\
topic: chips
about: Peaks of chips.
limit_months: 18
columns:
  peak: {title: bf16 dense, unit: TFLOP/s}
  memory: {title: Memory, unit: GB, note: per package}
  link: {title: Link, unit: GB/s, direction: per direction}
  bandwidth: {title: Memory bandwidth, unit: TB/s}
  power: {title: Power, unit: W}
  kind: {title: Memory kind, unit: text}
sources:
  page: {title: Product page, url: "https://example.org/chip", kind: vendor, by: Maker, dated: "2024-03", read: 2026-11-30}
records:
"""
CHIPS = [("Zeta", "Maker", 989.4, 80, 450), ("Alpha", "Other", 1307.4, 192, 64), ("Mid", "Maker", 312, 40, 300)]
FENCE = """\
---
title: Figures
---

# Figures

A Zeta has [[chips.zeta.peak]].

```figures
topic: chips
columns: [vendor, kind, peak, memory, bandwidth, link, power]
caption: Chips compared
```
"""


def topic() -> str:
    text = TOPIC
    for name, vendor, peak, memory, link in CHIPS:
        text += f"  - id: {name.lower()}\n    name: {name}\n    vendor: {vendor}\n    per: chip\n    figures:\n"
        values = {"peak": peak, "memory": memory, "link": link, "bandwidth": 3.35, "power": 700}
        text += "".join(f"      {key}: {{value: {value}, source: page}}\n" for key, value in values.items())
        text += "      kind: {value: HBM3, source: page}\n"
    text += "  - id: none\n    name: Gap\n    vendor: Third\n    per: chip\n    figures:\n"
    text += '      peak: {unpublished: "looked in: page"}\n      memory: {none: no memory}\n'
    return text


RUN = """
import sys
from pathlib import Path
from openbook.data import load
load.FOLDER = Path(sys.argv.pop(1))
from mkdocs.__main__ import cli
cli()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory, serve_book):
    """(folder, address) of a site with one table, built as the book is."""
    home = tmp_path_factory.mktemp("figures")
    docs = home / "docs"
    docs.mkdir()
    (docs / "assets").symlink_to(ROOT / "docs" / "assets")
    (docs / "index.md").write_text(FENCE)
    (home / "data").mkdir()
    (home / "data" / "chips.yml").write_text(topic())
    return serve_book(home, ["-c", RUN, str(home / "data")])


@pytest.fixture
def opened(site, open_page):
    def open_it(**options):
        watched = open_page(site[1], site[1], **options)
        assert watched.foreign == [] and watched.errors == []
        return watched.page

    return open_it


def names(page):
    return page.locator(".figures tbody tr:not([hidden]) th").all_inner_texts()


def column(page, index):
    return page.locator(f".figures tbody tr td:nth-child({index}) .figures-value").all_inner_texts()


def test_sorting_by_mouse_and_keyboard(opened):
    page = opened()
    head = page.locator("th", has_text="bf16 dense")
    head.get_by_role("button").click()
    assert names(page) == ["Alpha", "Zeta", "Mid", "Gap\u00a0b"], "the largest first, what has no value last"
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").press("Enter")
    assert names(page) == ["Mid", "Zeta", "Alpha", "Gap\u00a0b"]
    assert head.get_attribute("aria-sort") == "ascending"
    page.locator("thead th").first.get_by_role("button").press("Space")
    assert names(page) == ["Alpha", "Gap\u00a0b", "Mid", "Zeta"]
    assert head.get_attribute("aria-sort") is None
    assert page.locator("[aria-sort]").count() == 1


def test_filter(opened):
    page = opened()
    page.get_by_label("Filter").fill("maker")
    assert names(page) == ["Zeta", "Mid"]
    assert page.get_by_text("2 of 4").is_visible()
    page.get_by_label("Filter").fill("")
    assert len(names(page)) == 4


def test_units_are_switched_and_back(opened):
    page = opened()
    before = column(page, 5)
    page.get_by_label("Unit of Memory", exact=True).select_option("GiB")
    assert column(page, 5) == ["74.51", "178.8", "37.25"]
    assert page.locator("th", has_text="Memory").locator(".figures-unit").all_inner_texts()[0] == "GiB"
    page.get_by_label("Unit of Memory", exact=True).select_option("GB")
    assert column(page, 5) == before == ["80", "192", "40"]
    page.get_by_label("Unit of Link").select_option("Gb/s")
    assert column(page, 7) == ["3,600", "512", "2,400"]
    page.get_by_label("Unit of bf16 dense").select_option("PFLOP/s")
    assert column(page, 4) == ["0.9894", "1.3074", "0.312"]
    page.locator("th", has_text="bf16 dense").get_by_role("button").click()
    assert names(page)[0] == "Alpha"


@pytest.mark.parametrize("kind, part", [("CSV", "Name,Vendor,"), ("JSON", '"topic":"chips"')])
def test_files_are_saved(opened, tmp_path, kind, part):
    page = opened(accept_downloads=True)
    with page.expect_download() as waiting:
        page.locator(".figures-download").get_by_role("link", name=kind).click()
    waiting.value.save_as(tmp_path / "file")
    assert waiting.value.suggested_filename.startswith("chips-")
    assert part in (tmp_path / "file").read_text()


def test_a_source_that_is_folded_away_opens(opened):
    page = opened()
    assert not page.get_by_text("Maker, vendor, of 2024-03").is_visible()
    page.locator("td .figures-refs a").first.click()
    assert page.get_by_text("Maker, vendor, of 2024-03").is_visible()


def test_without_javascript_it_reads_whole(site, open_page):
    page = open_page(site[1], site[1], java_script_enabled=False).page
    assert names(page) == ["Zeta", "Alpha", "Mid", "Gap\u00a0b"]
    assert page.locator(".figures button, .figures select, .figures input").count() == 0
    assert page.locator(".figures-download a").count() == 2
    page.locator(".figures summary").click()
    assert page.get_by_text("Maker, vendor, of 2024-03").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_accessible(opened, scheme, width):
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.locator(".figures summary").click()
    wanted = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found = Axe().run(page, options=wanted).response["violations"]
    assert [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in found] == []


def test_on_a_phone_the_table_scrolls_in_its_box(opened):
    page = opened(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    region = page.get_by_role("region", name="Chips compared")
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert region.evaluate("e => e.scrollLeft") > 0


def test_printed_the_tools_are_gone_and_the_sources_there(opened):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator(".figures-tools").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.get_by_text("Maker, vendor, of 2024-03").is_visible()


def test_the_reference_has_its_source(opened):
    link = opened().locator("a.figure-value")
    assert link.inner_text() == "989.4\u00a0TFLOP/s"
    assert link.get_attribute("href") == "https://example.org/chip"
