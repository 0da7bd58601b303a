#!/usr/bin/env python3
"""Measure memory bandwidth as STREAM does: read, write, copy and triad over arrays far larger than the caches.

    python3 memory_bandwidth.py --dry-run                 sizes and bytes, with the standard library only
    python3 memory_bandwidth.py                           CPU, with PyTorch if it is installed, else NumPy
    python3 memory_bandwidth.py --device cuda --peak 3350 a GPU (AMD too), against 3,350 GB/s
    numactl --cpunodebind=0 --membind=1 python3 memory_bandwidth.py     across the sockets

Counted as STREAM counts: bytes that the program asks for, not what the caches move beside. GB is 10^9 bytes.
Exit codes: 0 measured; 1 above peak or below --at-least; 2 misuse or a missing requirement.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import signal
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# kernel → arrays that are read and written per pass. NumPy has no fused triad: two passes, five arrays
ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}
NUMPY_TRIAD = 5
DEFAULT_MIB = {"cpu": 128, "accelerator": 1024}
INSTALL = {
    "torch": "PyTorch is missing: pip install torch (CPU: --index-url https://download.pytorch.org/whl/cpu)",
    "numpy": "neither PyTorch nor NumPy is installed: pip install numpy; --dry-run does without",
}


def cache_mib(sys_: Path = Path("/sys")) -> float:
    """Size of all last-level caches of this machine together in MiB; 0 where /sys does not tell."""
    caches: dict[str, tuple[int, float]] = {}
    for folder in sys_.glob("devices/system/cpu/cpu[0-9]*/cache/index*"):
        try:
            level, size = int((folder / "level").read_text()), (folder / "size").read_text().strip()
            shared = (folder / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        if level >= max((known for known, _ in caches.values()), default=0) and size.endswith("K"):
            caches[f"{level}:{shared}"] = (level, float(size[:-1]) / 1024)
    top = max((level for level, _ in caches.values()), default=0)
    return sum(size for level, size in caches.values() if level == top)


def torch_kernels(torch, count: int, device: str, kernels: list[str]) -> dict:
    """Kernel → call that runs it once over `count` float32 elements, operands allocated and touched."""
    a, b, c = (torch.full((count,), value, dtype=torch.float32, device=device) for value in (1.0, 2.0, 3.0))
    calls = {
        "read": lambda: a.sum(),
        "write": lambda: a.fill_(4.0),
        "copy": lambda: a.copy_(b),
        "triad": lambda: torch.add(b, c, alpha=5.0, out=a),
    }
    return {kernel: calls[kernel] for kernel in kernels}


def numpy_kernels(numpy, count: int, threads: int, kernels: list[str]) -> dict:
    """The same with NumPy, each thread on its own part, which it also touches first."""
    pool = ThreadPoolExecutor(threads)
    a, b, c = (numpy.empty(count, dtype=numpy.float32) for _ in range(3))
    edges = [count * part // threads for part in range(threads + 1)]
    parts = [slice(first, last) for first, last in zip(edges, edges[1:])]

    def everywhere(work) -> None:
        list(pool.map(work, parts))

    def touch(part: slice) -> None:
        a[part], b[part], c[part] = 1.0, 2.0, 3.0

    def triad(part: slice) -> None:
        numpy.multiply(c[part], numpy.float32(5), out=a[part])
        numpy.add(a[part], b[part], out=a[part])

    everywhere(touch)
    calls = {
        "read": lambda: everywhere(lambda part: a[part].sum()),
        "write": lambda: everywhere(lambda part: a[part].fill(4.0)),
        "copy": lambda: everywhere(lambda part: numpy.copyto(a[part], b[part])),
        "triad": lambda: everywhere(triad),
    }
    return {kernel: calls[kernel] for kernel in kernels}


def timed(call, repeats: int, synchronize) -> list[float]:
    """Seconds of each repetition, after two that do not count."""
    seconds = []
    for repetition in range(repeats + 2):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        if repetition >= 2:
            seconds.append(time.perf_counter() - start)
    return seconds


def measure(args: argparse.Namespace, report: dict) -> list[dict]:
    """One row a kernel: median and best GB/s, and the share of the peak that the best reaches."""
    count, synchronize = args.mib * 2**20 // 4, lambda: None
    if args.library == "torch":
        import torch

        torch.set_num_threads(args.threads)
        device = torch.device(args.device)
        if device.type != "cpu":
            module = getattr(torch, device.type)
            synchronize = module.synchronize if device.index is None else lambda: module.synchronize(device)
            report["device_name"] = (
                module.get_device_name(device) if hasattr(module, "get_device_name") else args.device
            )
        report["version"] = torch.__version__
        calls = torch_kernels(torch, count, args.device, args.kernels)
    else:
        import numpy

        report["version"] = numpy.__version__
        calls = numpy_kernels(numpy, count, args.threads, args.kernels)
    rows = []
    for kernel, call in calls.items():
        size = moved(kernel, args)
        seconds = timed(call, args.repeats, synchronize)
        best, median = size / min(seconds) / 1e9, size / statistics.median(seconds) / 1e9
        share = best / args.peak if args.peak else None
        rows.append({"kernel": kernel, "bytes": size, "best_gb_s": best, "median_gb_s": median, "share": share})
    return rows


def moved(kernel: str, args: argparse.Namespace) -> int:
    """Bytes that one pass of a kernel reads and writes."""
    arrays = NUMPY_TRIAD if kernel == "triad" and args.library == "numpy" else ARRAYS[kernel]
    return arrays * args.mib * 2**20


def findings(rows: list[dict], args: argparse.Namespace) -> list[str]:
    """What is wrong with the figures."""
    if not args.peak:
        return []
    best = max(rows, key=lambda row: row["best_gb_s"])
    found = [
        f"{row['kernel']}: above the peak: served by a cache, or the wrong peak" for row in rows if row["share"] > 1
    ]
    if args.at_least and best["share"] * 100 < args.at_least:
        found.append(
            f"best kernel ({best['kernel']}) reaches {best['share']:.0%} of the peak, below {args.at_least:g} %"
        )
    return found


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """The parser, for its error message, and what it read."""

    def positive(text: str) -> int:
        if not text.isdigit() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
        return int(text)

    def rate(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
        return value

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--device", default="cpu", help="cpu, cuda, cuda:1, xpu, mps; an AMD GPU is cuda (default: cpu)")
    option("--library", choices=["torch", "numpy"], help="default: torch where it is installed, else numpy")
    option("--kernels", default=",".join(ARRAYS), help="of read, write, copy, triad (default: all)")
    option(
        "--mib", type=positive, help="size of an array (default: 128 MiB or 4 times the last-level caches, GPU: 1024)"
    )
    option("--threads", type=positive, help="of the CPU (default: as many as this process may run on)")
    option("--repeats", type=positive, default=20, help="measured passes (default: 20)")
    option("--peak", type=rate, help="GB/s to compare with")
    option("--at-least", type=rate, help="exit with 1 if the best kernel stays below this %% of --peak")
    option("--dry-run", action="store_true", help="sizes and bytes; measure nothing")
    option("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args()
    args.kernels = args.kernels.split(",")
    unknown = set(args.kernels) - set(ARRAYS)
    if unknown:
        parser.error(f"unknown kernel {min(unknown)!r}: choose from {', '.join(ARRAYS)}")
    if not re.fullmatch(r"(cpu|mps|(cuda|xpu)(:\d+)?)", args.device):
        parser.error(f"unknown device {args.device!r}: cpu, cuda, cuda:1, xpu or mps")
    if args.at_least and not args.peak:
        parser.error("--at-least needs --peak")
    if args.device != "cpu" and args.library == "numpy":
        parser.error("NumPy measures the CPU only")
    return parser, args


def choose_library(parser: argparse.ArgumentParser, args: argparse.Namespace) -> str:
    """torch or numpy, whichever is wanted and there; ends the program with the fix where none is."""
    for name in [args.library] if args.library else ["torch"] if args.device != "cpu" else ["torch", "numpy"]:
        try:
            __import__(name)
            return name
        except ImportError:
            missing = name
    parser.error(INSTALL[missing])


def main() -> int:
    parser, args = arguments()
    caches = cache_mib()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    args.threads = args.threads or allowed
    if args.mib is None:
        args.mib = (
            max(DEFAULT_MIB["cpu"], math.ceil(4 * caches)) if args.device == "cpu" else DEFAULT_MIB["accelerator"]
        )
    if not args.dry_run:
        args.library = choose_library(parser, args)
    report: dict = {"program": "memory_bandwidth", "dry_run": args.dry_run, "device": args.device, "mib": args.mib}
    report.update(
        threads=args.threads, library=args.library, machine=platform.machine(), cache_mib=caches, peak=args.peak
    )
    if args.device == "cpu" and args.mib < 4 * caches:
        report["warning"] = f"arrays of {args.mib} MiB, caches of {caches:g} MiB: below 4 times, caches will help"
    found: list[str] = []
    if args.dry_run:
        rows = [{"kernel": kernel, "bytes": moved(kernel, args)} for kernel in args.kernels]
    else:
        try:
            rows = measure(args, report)
        except (RuntimeError, AssertionError, AttributeError, MemoryError, ValueError) as error:
            parser.error(f"{args.device}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        found = findings(rows, args)
    report.update(kernels=rows, findings=found)
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, rows, found)
    return 1 if found else 0


def show(report: dict, rows: list[dict], found: list[str]) -> None:
    """The report for people."""
    where = report.get("device_name", report["device"])
    threads = f", {report['threads']} threads" if report["device"] == "cpu" else ""
    how = f", {report['library']} {report['version']}" if "version" in report else ""
    print(
        f"{where}: 3 arrays of {report['mib']} MiB{threads}{how}; last-level caches of the CPU {report['cache_mib']:g} MiB"
    )
    if "warning" in report:
        print(f"warning: {report['warning']}")
    for row in rows:
        line = f"{row['kernel']:6} {row['bytes'] / 1e6:9.1f} MB a pass"
        if "best_gb_s" in row:
            line += f"  best {row['best_gb_s']:8.1f} GB/s  median {row['median_gb_s']:8.1f} GB/s"
            line += f"  {row['share']:5.0%} of peak" if row["share"] else ""
        print(line)
    for line in found:
        print(f"finding: {line}")


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
