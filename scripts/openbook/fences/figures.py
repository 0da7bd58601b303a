"""The `figures` fence: a table of records of docs/data, every value with its source.

topic: accelerators
columns: [vendor, bf16_dense, memory_size]
records: [nvidia-h100-sxm, amd-mi300x]   # these, in this order; or
filter: {vendor: [NVIDIA, AMD], status: shipping}
sort: -bf16_dense                        # a column or name; `-` for falling
units: {memory_size: GiB}
caption: Dense peak and memory
"""

from openbook.data.lines import Node
from openbook.data.load import Data, load
from openbook.data.model import Column
from openbook.data.problem import Problem
from openbook.fences import base
from openbook.fences.figures_read import request_of
from openbook.fences.figures_table import render_table

NO_RECORD = "give a value, or `none:` or `unpublished:` with where it was looked for"


def core(root: Node, problems: list[Problem]) -> str:
    request = request_of(root, load(), problems)
    return render_table(request) if request else ""


def cells_without_record(root: Node, data: Data) -> list[Problem]:
    """Cells that the table shows without a word on where they were looked for: rows for which nothing was read."""
    request = request_of(root, data, [])
    if request is None:
        return []
    line = root.value["columns"].line
    return [
        Problem(line, "no-record", f"{record.id} has no figure for {column.name}, which the table shows", NO_RECORD)
        for record in request.records
        for column in request.columns
        if isinstance(column, Column) and column.name not in record.figures and not record.looked_in
    ]


render = base.formatter("figures", core)
validate = base.validator("figures")
