"""Limits of the acceptance test, made from docs/data for docs/compute/node_acceptance.py.

.venv/bin/python -m openbook.data.limits            write docs/compute/acceptance_limits.json anew
.venv/bin/python -m openbook.data.limits --check    exit with 1 if it is not current
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence

from openbook import ROOT
from openbook.data.load import Data, load
from openbook.data.model import Record

PATH = ROOT / "docs" / "compute" / "acceptance_limits.json"
# The book's tolerances; docs/compute/acceptance.md#tolerances says why.
OF_BEST_MATMUL = 0.85  # of the best published matmul: a shape, a library and a clock are never the best found
OF_PEAK_MATMUL = 0.50  # where nobody published a best
OF_MEMORY_BANDWIDTH = 0.75  # of the published peak
OF_MEMORY_SIZE = 0.95  # of the size as printed: the driver keeps a part
OF_MEDIAN = 0.95  # of the median of like nodes
# What drivers call the chips. A name matches the device whose name it is or begins.
REPORTED_AS = {
    "nvidia-a100-sxm-40gb": ["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"],
    "nvidia-a100-sxm-80gb": ["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"],
    "nvidia-a100-pcie-40gb": ["NVIDIA A100-PCIE-40GB"],
    "nvidia-a100-pcie-80gb": ["NVIDIA A100 80GB PCIe"],
    "nvidia-h100-sxm": ["NVIDIA H100 80GB HBM3"],
    "nvidia-h100-pcie": ["NVIDIA H100 PCIe"],
    "nvidia-h100-nvl": ["NVIDIA H100 NVL"],
    "nvidia-h200-sxm": ["NVIDIA H200"],
    "nvidia-h200-nvl": ["NVIDIA H200 NVL"],
    "nvidia-gh200": ["NVIDIA GH200"],
    "nvidia-l4": ["NVIDIA L4"],
    "nvidia-l40s": ["NVIDIA L40S"],
    "nvidia-b200": ["NVIDIA B200"],
    "nvidia-gb200": ["NVIDIA GB200"],
    "nvidia-b300": ["NVIDIA B300"],
    "nvidia-gb300": ["NVIDIA GB300"],
    "amd-mi250x-gcd": ["AMD Instinct MI250X"],
    "amd-mi300a": ["AMD Instinct MI300A"],
    "amd-mi300x": ["AMD Instinct MI300X"],
    "amd-mi325x": ["AMD Instinct MI325X"],
    "amd-mi350x": ["AMD Instinct MI350X"],
    "amd-mi355x": ["AMD Instinct MI355X"],
}
# name of the measurement → column of topic acceptance, unit
OPERATORS = {
    "allreduce_node": ("allreduce_min", "GB/s"),
    "host_copy": ("host_copy_min", "GB/s"),
    "peer_copy": ("peer_copy_min", "GB/s"),
    "rdma_write": ("rdma_min", "Gb/s"),
}


def make(data: Data) -> dict:
    """The document: a chip with limits for every accelerator whose bf16 peak is known."""
    tested = data.topic("acceptance").records
    chips = [
        {
            "id": record.id,
            "name": record.name,
            "vendor": record.vendor,
            "reported_as": REPORTED_AS.get(record.id, []),
            "limits": limits(record, tested.get(record.id)),
        }
        for record in data.topic("accelerators").records.values()
        if (record.status == "shipping" and record.per == "chip") or record.id in REPORTED_AS
        if "bf16_dense" in record.values()
    ]
    return {
        "about": "Lower limits of the acceptance test. Generated from docs/data by openbook.data.limits: do not edit.",
        "of_median": OF_MEDIAN,
        "chips": chips,
    }


def limits(record: Record, tested: Record | None) -> dict[str, dict]:
    """Name of a measurement or property → least value, unit, and what it was derived from."""
    values = record.values()
    made = {}
    if "memory_size" in values:
        made["memory_gb"] = share(OF_MEMORY_SIZE, values["memory_size"], "GB", "the size as printed")
    slot = record.figure("pcie")
    if slot and (found := re.search(r"Gen (\d)(?: x(\d+))?", str(slot.value))):
        made["pcie_gen"] = {"min": int(found[1]), "unit": "generation", "why": f"data sheet: {slot.value}"}
        if found[2]:
            made["pcie_width"] = {"min": int(found[2]), "unit": "lanes", "why": f"data sheet: {slot.value}"}
    best = tested.values().get("matmul_best") if tested else None
    if best:
        made["matmul_bf16"] = share(OF_BEST_MATMUL, best, "TFLOP/s", "the best published")
    else:
        made["matmul_bf16"] = share(OF_PEAK_MATMUL, values["bf16_dense"], "TFLOP/s", "the dense peak")
    if "memory_bandwidth" in values:
        made["memory_bandwidth"] = share(
            OF_MEMORY_BANDWIDTH, values["memory_bandwidth"], "TB/s", "the published bandwidth"
        )
    for name, (column, unit) in OPERATORS.items():
        figure = tested.figure(column) if tested else None
        if tested and figure and figure.source:
            made[name] = {"min": figure.value, "unit": unit, "why": f"limit of {figure.source.by}: {figure.source.url}"}
            if name == "allreduce_node":
                made[name]["gpus"] = int(tested.values()["gpus"])
            if name == "rdma_write":
                made[name]["port"] = int(tested.values()["port"])
    return made


def share(part: float, whole: float, unit: str, of: str) -> dict:
    """A limit that is a part of a figure, with three significant digits."""
    return {"min": float(f"{part * whole:.3g}"), "unit": unit, "why": f"{100 * part:.0f} % of {whole:.4g}, {of}"}


def render(data: Data) -> str:
    return json.dumps(make(data), indent=1, ensure_ascii=False) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="openbook.data.limits", description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is not current")
    text = render(load())
    if options.parse_args(argv).check:
        return int(not PATH.exists() or PATH.read_text(encoding="utf-8") != text)
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
