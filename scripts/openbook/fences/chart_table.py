"""The text alternative of a chart: a table that scrolls in its own box."""

from collections.abc import Iterable

from openbook.fences.base import escape, tag


def chart_table(heads: Iterable[str], rows: Iterable[str]) -> str:
    """`rows` are tr elements."""
    head = tag("tr", "".join(tag("th", escape(text), scope="col") for text in heads))
    table = tag("table", tag("thead", head) + tag("tbody", "".join(rows)), class_="chart-table")
    return tag("div", table, class_="chart-scroll", tabindex="0", role="region", aria_label="Values of the chart")
