"""What a page may weigh: counted, never timed."""

import pytest
from selectolax.lexbor import LexborHTMLParser

from openbook import ROOT

MARKDOWN, ELEMENTS, IMAGE = 60_000, 2_500, 200_000


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: str(p.relative_to(ROOT / "docs")))
def test_markdown_is_small(page):
    assert page.stat().st_size < MARKDOWN


def test_pages_have_few_elements(served):
    site, _ = served
    for page in site.rglob("*.html"):
        if page.parent.parent.name != "reference":  # tables to look things up in
            count = len(LexborHTMLParser(page.read_text()).css("*"))
            assert count < ELEMENTS, f"{page.relative_to(site)}: {count} elements"


def test_images_are_sized_lazy_described_and_small(served):
    site, _ = served
    for page in site.rglob("*.html"):
        for image in LexborHTMLParser(page.read_text()).css("article img"):
            attributes = image.attributes
            assert attributes.get("alt"), f"{page}: an image without alternative text: {image.html}"
            assert attributes.get("width") and attributes.get("height"), f"{page}: without size: {image.html}"
            assert attributes.get("loading") == "lazy", f"{page}: not lazy: {image.html}"
    for image in (ROOT / "docs").rglob("*"):
        if image.suffix in {".png", ".jpg", ".jpeg", ".webp", ".gif", ".svg"}:
            assert image.stat().st_size < IMAGE, image


def test_diagrams_have_a_title_and_a_description(served):
    site, _ = served
    for page in site.rglob("*.html"):
        for svg in LexborHTMLParser(page.read_text()).css("article svg.diagram"):
            named = (svg.attributes.get("aria-labelledby") or "").split()
            assert len(named) == 2 and svg.attributes.get("role") == "img", f"{page}: {svg.html[:200]}"
            for part, identity in zip(("title", "desc"), named):
                node = svg.css_first(part)
                assert node and node.attributes.get("id") == identity and node.text().strip(), f"{page}: {identity}"
