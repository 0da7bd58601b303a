"""The `chart` fence: records of docs/data, or lines from formulas, as SVG made when the page is built.

kind: bar                       # one column
topic: accelerators             # topic, records or filter, sort and units as in a figures fence
columns: [bf16_dense]
records: [nvidia-h100-sxm, amd-mi300x]
caption: Dense bf16 peak per chip

kind: scatter                   # two columns: along and up
columns: [memory_bandwidth, bf16_dense]
log: [x, y]

kind: line                      # y over x by formulas, over x and named values
x: {title: Arithmetic intensity, unit: FLOP/B, from: 1, to: 10000, log: true}
y: {title: Attainable, unit: TFLOP/s, log: true}
series:
  - title: H100 SXM
    expr: min(peak, x * bandwidth)
    values: {peak: accelerators.nvidia-h100-sxm.bf16_dense, bandwidth: accelerators.nvidia-h100-sxm.memory_bandwidth}
  - title: measured                 # or records, joined in order of x: formulas over their columns and named values
    topic: matmuls
    filter: {group: H100 SXM}       # or records
    x: intensity
    y: rate
points:
  - {title: ridge, x: peak / bandwidth, y: peak, values: {…}}

Below the drawing a folded table holds the values with their sources.
"""

from openbook.data.lines import Node
from openbook.data.load import load
from openbook.data.problem import Problem
from openbook.fences import base
from openbook.fences.base import escape, tag
from openbook.fences.chart_cache import drawn
from openbook.fences.chart_draw import sample, shape
from openbook.fences.chart_lines import read_lines
from openbook.fences.chart_model import Chart
from openbook.fences.chart_records import read_records

KINDS = {"bar": read_records, "scatter": read_records, "line": read_lines}


def chart_of(root: Node, problems: list[Problem]) -> Chart | None:
    """What a body asks for; None where something is wrong."""
    kind = root.value.get("kind") if isinstance(root.value, dict) else None
    if kind is None or not isinstance(kind.value, str) or kind.value not in KINDS:
        line = kind.line if kind else root.line
        problems.append(Problem(line, "unknown-word", f"'kind' of the chart must be one of {', '.join(KINDS)}"))
        return None
    return KINDS[kind.value](root, load(), problems)


def core(root: Node, problems: list[Problem]) -> str:
    chart = chart_of(root, problems)
    if chart is None:
        return ""
    identifier = base.identifier("chart", f"{chart.kind} {chart.caption} {chart.desc} {chart.lines}")
    entries = _entries(chart)
    legend = tag("ul", "".join(tag("li", entry) for entry in entries), class_="chart-legend") if entries else ""
    table = tag("details", tag("summary", "Values and sources") + chart.table, class_="chart-values")
    return tag(
        "figure", drawn(chart, identifier) + legend + table + tag("figcaption", escape(chart.caption)), class_="chart"
    )


def _entries(chart: Chart) -> list[str]:
    """What the legend says: groups of dots, or lines whose names are too long to stand beside them."""
    if chart.named_below():
        return [sample(n, line) + escape(line.title) for n, line in enumerate(chart.lines)]
    groups = chart.groups()
    mark = [tag("svg", shape(n % 6, (6, 6)), viewBox="0 0 12 12", aria_hidden="true") for n in range(len(groups))]
    return [one + escape(group) for one, group in zip(mark, groups)] if len(groups) > 1 else []


render = base.formatter("chart", core)
validate = base.validator("chart")
