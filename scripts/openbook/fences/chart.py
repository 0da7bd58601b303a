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
from openbook.fences.chart_draw import shape
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
    legend = tag("ul", "".join(_entry(n, group) for n, group in enumerate(chart.groups())), class_="chart-legend")
    table = tag("details", tag("summary", "Values and sources") + chart.table, class_="chart-values")
    content = drawn(chart, identifier) + (legend if len(chart.groups()) > 1 else "")
    return tag("figure", content + table + tag("figcaption", escape(chart.caption)), class_="chart")


def _entry(n: int, group: str) -> str:
    mark = tag("svg", shape(n % 6, 6, 6), viewBox="0 0 12 12", aria_hidden="true")
    return tag("li", mark + escape(group))


render = base.formatter("chart", core)
validate = base.validator("chart")
