"""Pages as people see them: light and dark, desktop and phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}

# What sticks out of the page to the right, and does not stand in a box that scrolls.
OVERFLOW = """() => {
  const edge = document.documentElement.clientWidth
  const scrolls = e => { for (let a = e; a; a = a.parentElement) {
    const o = getComputedStyle(a).overflowX; if (o === "auto" || o === "scroll" || o === "hidden") return true } return false }
  return [...document.querySelectorAll("article *")]
    .filter(e => e.getBoundingClientRect().right > edge + 1 && !scrolls(e))
    .map(e => e.outerHTML.slice(0, 120))
    .concat(document.documentElement.scrollWidth > edge ? ["the page itself scrolls sideways"] : [])
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_accessible_and_quiet(served, open_page, address, scheme, viewport):
    _, base = served
    watched = open_page(base + address, base, color_scheme=scheme, viewport=viewport)
    assert watched.foreign == []
    not_found = [f"{base}{address}"] if address == "404.html" else []
    assert [e for e in watched.errors if not (not_found and "404" in e)] == []
    found = Axe().run(watched.page, options=WCAG).response["violations"]
    assert [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in found] == []


def test_nothing_sticks_out_on_a_phone(served, open_page, address):
    _, base = served
    watched = open_page(base + address, base, viewport=PHONE)
    assert watched.page.evaluate(OVERFLOW) == []
