"""docs/reference/symptoms.md sends a reader only to sections that speak of the quoted error line."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "symptoms.md"
ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "](" in line]


def section(path, anchor):
    """The text of one section: from its heading to the next heading of the same or a higher level."""
    text = path.read_text()
    heading = re.search(r"^(#+) .*\{ #" + re.escape(anchor) + r" \}$", text, re.M)
    if heading is None:  # an anchor without an explicit id: the slug of the heading
        headings = re.finditer(r"^(#+) (.+)$", text, re.M)
        heading = next(m for m in headings if re.sub(r"[^\w\s-]", "", m[2]).strip().lower().replace(" ", "-") == anchor)
    following = re.search(r"^#{1," + str(len(heading[1])) + "} ", text[heading.end() :], re.M)
    return heading[0] + text[heading.end() :][: following.start() if following else None]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_quoted_line_is_on_a_linked_section(row):
    seen, target = row.strip("| ").split(" | ", 1)
    links = re.findall(r"\]\(([^)#]+)#([^)]+)\)", target)
    assert links, "a row links to sections, not to whole pages"
    sections = " ".join(section((PAGE.parent / page).resolve(), anchor) for page, anchor in links)
    missing = [quoted for quoted in re.findall(r"`([^`]+)`", seen) if quoted not in sections]
    assert not missing, f"{missing} not found in {links}"
