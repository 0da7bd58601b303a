#!/usr/bin/env python3
"""Sweep matrix multiplications over shapes and formats, and print the TFLOP/s that each one reaches.

Every shape is C[M,N] = A[M,K] x B[K,N], with B stored as the weight of a linear layer is (N rows of K).
Before it is measured, a shape is warmed up; operands are random and rotate through enough copies to defeat
the caches. `--dry-run` and `--help` need the standard library only; the measurement needs PyTorch.

Exit codes: 0 measured; 1 something to look into (above peak, below --at-least, a shape failed);
2 misuse, a missing requirement, or an estimated run above a minute without --yes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import platform
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

# format → bytes of an element of A and B, bytes of an element of C
DTYPES = {"float64": (8, 8), "float32": (4, 4), "tf32": (4, 4), "bfloat16": (2, 2), "float16": (2, 2), "float8": (1, 2)}
ALIASES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8"}
DEFAULT_SIZES = {"cpu": [256, 512, 1024], "accelerator": [1024, 2048, 4096, 8192]}
FREE_SECONDS = 60.0  # a longer run loads the machine for others: ask first
MOST_SHAPES = 100_000
HEAD = f"{'format':9}{'M':>6}{'N':>7}{'K':>7}{'GFLOP':>10}{'MB':>9}{'FLOP/B':>8}"
FAILURES = (RuntimeError, TypeError, NotImplementedError)  # what PyTorch raises: out of memory, unsupported
# bits of NVML's nvmlClocksEventReasons that mean "slower than the work would allow"
SLOWDOWNS = {0x04: "software power cap", 0x08: "hardware slowdown", 0x20: "software thermal slowdown"}
SLOWDOWNS.update({0x40: "hardware thermal slowdown", 0x80: "hardware power brake"})


@dataclass(frozen=True)
class Shape:
    """A matrix multiplication of M x K by K x N elements."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Operations of one call: a multiplication and an addition for each of M·N·K products."""
        return 2 * self.m * self.n * self.k

    def operand_bytes(self, dtype: str) -> int:
        """Bytes of A and B."""
        return DTYPES[dtype][0] * (self.m * self.k + self.k * self.n)

    def bytes(self, dtype: str) -> int:
        """Least memory traffic of one call: A and B read once, C written once."""
        return self.operand_bytes(dtype) + DTYPES[dtype][1] * self.m * self.n


def parse_sizes(text: str) -> list[int]:
    """`256,512` or `1024:4096:1024` (both ends included), mixed at will, to a list of sizes."""
    sizes: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?::(\d+):(\d+))?", part)
        start, stop, step = (int(number or found[1]) for number in found.groups()) if found else (0, 0, 0)
        if not found or not 0 < start <= stop < 2**31 or step < 1 or (stop - start) // step >= MOST_SHAPES:
            raise argparse.ArgumentTypeError(f"{part!r} is neither a size nor START:STOP:STEP (from 1, STOP included)")
        sizes.extend(range(start, stop + 1, step))
    return sizes


def parse_dtypes(text: str) -> list[str]:
    """`bf16,float8` to the names of DTYPES."""
    names = [ALIASES.get(name, name) for name in text.split(",")]
    for name in names:
        if name not in DTYPES:
            raise argparse.ArgumentTypeError(f"unknown format {name!r}; known: {', '.join([*DTYPES, *ALIASES])}")
    return names


def parse_peaks(text: str) -> dict[str, float]:
    """`989` (for the only format) or `bf16=989,fp8=1979` to TFLOP/s by format; the key "" stands for the only one."""
    peaks: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        if not re.fullmatch(r"\d*\.?\d+(e-?\d\d?)?", value) or float(value) == 0:
            raise argparse.ArgumentTypeError(f"{part!r} is neither TFLOP/s nor FORMAT=TFLOP/s")
        peaks[parse_dtypes(name)[0] if name else ""] = float(value)
    return peaks


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option, sizes = parser.add_argument, "sizes: 256,512 or START:STOP:STEP"
    option("--m", type=parse_sizes, help=f"{sizes} (default: 256,512,1024 on a CPU, else 1024,2048,4096,8192)")
    option("--n", type=parse_sizes, help=f"{sizes} (default: same as M)")
    option("--k", type=parse_sizes, help=f"{sizes} (default: same as M)")
    option("--dtype", type=parse_dtypes, help=f"of {', '.join(DTYPES)} (default: float32 on a CPU, else bf16)")
    option("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps, xpu; an AMD GPU is cuda (default: auto)")
    option("--warmup", type=int, default=5, help="unmeasured calls before each measurement (default: 5)")
    option("--iterations", type=int, default=20, help="measured calls (default: 20)")
    option("--soak", type=float, default=0.0, help="seconds of load before the first shape, to settle the clock")
    option("--data", choices=("normal", "zeros"), default="normal", help="contents of A and B (default: normal)")
    option("--cold-mib", type=int, default=512, help="rotate operands through this many MiB; 0: warm caches")
    option("--peak", type=parse_peaks, default={}, help="dense peak, TFLOP/s: 989, or bf16=989,fp8=1979")
    option("--at-least", type=float, help="exit with 1 if a format's best median is below this %% of its peak")
    option("--dry-run", action="store_true", help="list shapes, FLOPs and bytes; measure nothing")
    option("--yes", action="store_true", help="allow a run estimated above a minute")
    option("--json", action="store_true", help="one JSON document on standard output")
    return parser


def check(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Stop with exit code 2 where options contradict each other; give a bare --peak its format."""
    finite = all(0 <= number < math.inf for number in (args.warmup, args.soak, args.at_least or 0))  # not "nan"
    if not finite or args.iterations < 1 or not 0 <= args.cold_mib <= 65536:
        parser.error("--iterations must be at least 1; --warmup, --soak, --at-least at least 0; --cold-mib 0 to 65536")
    if math.prod(len(sizes or [0]) for sizes in (args.m, args.n, args.k)) * len(args.dtype) > MOST_SHAPES:
        parser.error(f"more than {MOST_SHAPES} shapes: give fewer sizes")
    if "" in args.peak:
        if len(args.dtype) > 1 or len(args.peak) > 1:
            parser.error("several formats have several peaks: --peak bf16=989,fp8=1979")
        args.peak = {args.dtype[0]: args.peak[""]}
    if args.at_least is not None and not set(args.dtype) <= set(args.peak):
        parser.error("--at-least needs --peak for every format")


def make_shapes(args: argparse.Namespace) -> list[Shape]:
    """All combinations of the sizes given; an omitted N or K follows M."""
    sizes = itertools.product(args.m, args.n or [0], args.k or [0])
    return [Shape(m, n or m, k or m) for m, n, k in sizes]


def describe(shape: Shape, dtype: str) -> dict:
    """What is known of a shape without running it."""
    size = shape.bytes(dtype)
    known = {"dtype": dtype, **vars(shape), "flops": shape.flops, "bytes": size}
    return {**known, "flops_per_byte": round(shape.flops / size, 1)}


def smi(command: list[str]) -> str | None:
    """Standard output of a vendor's tool; None if it is missing, hangs or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def read_nvidia(gpu: str) -> dict | None:
    """One reading of an NVIDIA GPU (index or UUID): MHz, W, reasons for slowdown."""
    for reasons in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):  # new name, old name
        fields = f"--query-gpu=clocks.sm,power.draw,{reasons}"
        row = smi(["nvidia-smi", "-i", gpu, fields, "--format=csv,noheader,nounits"])
        found = re.fullmatch(r"([\d.]+), ([\d.]+), (0x[0-9a-fA-F]+)\s*", row or "")  # "[N/A]" under MIG
        if found:
            active = [name for bit, name in SLOWDOWNS.items() if int(found[3], 16) & bit]
            return {"mhz": float(found[1]), "watt": float(found[2]), "slowdowns": active}
    return None


def read_amd() -> dict | None:
    """One reading of the busiest AMD GPU: MHz, W. rocm-smi names no reasons for slowdown."""
    text = smi(["rocm-smi", "--showpower", "--showclocks", "--json"]) or ""
    readings = []
    for card in re.findall(r"{[^{}]*}", text):  # a card's part; warnings can stand around the document
        clock = re.search(r'"sclk clock speed:": "\((\d+)Mhz', card)
        power = re.search(r'"(?:Average|Current Socket) Graphics Package Power \(W\)": "([\d.]+)"', card)
        if clock and power:
            readings.append({"mhz": float(clock[1]), "watt": float(power[1]), "slowdowns": []})
    return max(readings, key=lambda reading: reading["watt"], default=None)


class Monitor:
    """Reads clock and power twice a second in a thread while shapes are measured."""

    def __init__(self, read) -> None:
        self.read, self.readings, self.done = read, [], threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        """Collect readings until told to stop or until the tool fails."""
        while (reading := self.read()) is not None:
            self.readings.append(reading)
            if self.done.wait(0.5):
                break

    def summary(self) -> dict | None:
        """Stop; median and lowest clock, highest power, every slowdown seen. None if nothing could be read."""
        self.done.set()
        self.thread.join()
        if not self.readings:
            return None
        clocks, watts = ([reading[key] for reading in self.readings] for key in ("mhz", "watt"))
        slowdowns = sorted({name for reading in self.readings for name in reading["slowdowns"]})
        clock = {"readings": len(clocks), "median_mhz": statistics.median(clocks), "lowest_mhz": min(clocks)}
        return {**clock, "highest_watt": max(watts), "slowdowns": slowdowns}


class Bench:
    """Matrix multiplications on one device, timed call by call."""

    def __init__(self, torch, device, data: str, cold_mib: int) -> None:
        self.torch, self.device, self.data, self.cold_bytes = torch, device, data, cold_mib * 2**20

    def name(self) -> str:
        """The device as people know it."""
        cpu = f"{self.device} ({platform.machine()}, {self.torch.get_num_threads()} threads)"
        return self.torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else cpu

    def monitor(self) -> Monitor | None:
        """A started monitor where the device has a vendor's tool."""
        if self.device.type != "cuda":
            return None
        uuid = getattr(self.torch.cuda.get_device_properties(self.device), "uuid", None)
        gpu = f"GPU-{uuid}" if uuid else str(self.device.index or 0)  # an index ignores CUDA_VISIBLE_DEVICES
        monitor = Monitor(read_amd if self.torch.version.hip else lambda: read_nvidia(gpu))
        monitor.thread.start()
        return monitor

    def float8(self):
        """The 8-bit format of this device: MI300 has its own encoding."""
        if self.torch.version.hip and "gfx94" in self.torch.cuda.get_device_properties(self.device).gcnArchName:
            return self.torch.float8_e4m3fnuz
        return self.torch.float8_e4m3fn

    def calls(self, shape: Shape, dtype: str):
        """An endless iterator of calls without arguments, each on the next copy of the operands."""
        torch, device = self.torch, self.device
        if dtype == "tf32" and device.type != "cuda":
            raise RuntimeError("tf32 exists on GPUs only")
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        kind = {"tf32": torch.float32, "float8": self.float8()}.get(dtype) or getattr(torch, dtype)
        fill = torch.randn if self.data == "normal" else torch.zeros
        base = [fill(rows, shape.k, device=device).to(kind) for rows in (shape.m, shape.n)]
        copies = min(4096, max(1, math.ceil(self.cold_bytes / shape.operand_bytes(dtype))))
        operands = [base] + [[matrix.clone() for matrix in base] for _ in range(copies - 1)]
        if dtype == "float8":
            one, mm = torch.ones((), device=device), torch._scaled_mm  # private; the public scaled_mm is newer
            functions = (lambda a=a, b=b: mm(a, b.t(), one, one, out_dtype=torch.bfloat16) for a, b in operands)
        else:
            out = torch.empty(shape.m, shape.n, device=device, dtype=kind)
            functions = (lambda a=a, b=b: torch.mm(a, b.t(), out=out) for a, b in operands)
        return itertools.cycle(functions)

    def seconds(self, calls, count: int) -> list[float]:
        """Time `count` calls, each on its own."""
        if self.device.type == "cuda":  # events let calls queue: a launch shorter than a call is hidden
            events = [[self.torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
            for start, end in events:
                call = next(calls)
                start.record()
                call()
                end.record()
            self.torch.cuda.synchronize(self.device)
            return [start.elapsed_time(end) / 1e3 for start, end in events]
        synchronize = getattr(getattr(self.torch, self.device.type), "synchronize", lambda: None)
        times = []
        for _ in range(count):
            call = next(calls)
            start = time.perf_counter()
            call()
            synchronize()
            times.append(time.perf_counter() - start)
        return times

    def rate(self, dtype: str) -> float:
        """FLOP/s of a small probe, for the estimate of the run's length."""
        probe = Shape(512, 512, 512)
        return probe.flops / min(self.seconds(self.calls(probe, dtype), 4))

    def measure(self, shape: Shape, dtype: str, warmup: int, iterations: int) -> dict:
        """TFLOP/s of the first call, and median and best of the measured ones."""
        calls = self.calls(shape, dtype)
        first = self.seconds(calls, 1)[0]
        self.seconds(calls, warmup)
        times = self.seconds(calls, iterations)
        seconds = {"first": first, "median": statistics.median(times), "best": min(times)}
        return {name: shape.flops / 1e12 / value for name, value in seconds.items()}


def pick_device(torch, name: str):
    """The device asked for, or the fastest present. Raises ValueError with the fix where there is none."""
    modules = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.backends.mps}
    present = [kind for kind, module in modules.items() if module and module.is_available()] + ["cpu"]
    kind = present[0] if name == "auto" else name.split(":")[0]
    if kind not in present:
        raise ValueError(f"this PyTorch ({torch.__version__}) sees no {name}; it sees: {', '.join(present)}")
    device = torch.device(present[0] if name == "auto" else name)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # events are recorded on the current device
    return device


def look_into(rows: list[dict], args: argparse.Namespace) -> list[str]:
    """What in the results asks for an explanation."""
    findings = [f"{row['dtype']} {row['m']}x{row['n']}x{row['k']}: {row['error']}" for row in rows if "error" in row]
    for dtype, peak in args.peak.items():
        medians = [row["median"] for row in rows if row["dtype"] == dtype and "median" in row]
        percent = 100 * max(medians, default=0) / peak
        if percent > 100:
            findings.append(f"{dtype}: {percent:.1f} % of the peak given: another format's, or another product's?")
        if args.at_least is not None and percent < args.at_least:
            findings.append(f"{dtype}: the best median is {percent:.1f} % of peak, below {args.at_least:g} %")
    return findings


def line(row: dict, peak: float | None) -> str:
    """A row for people."""
    text = f"{row['dtype']:9}{row['m']:>6}{row['n']:>7}{row['k']:>7}{row['flops'] / 1e9:>10.3f}"
    text += f"{row['bytes'] / 1e6:>9.1f}{row['flops_per_byte']:>8.1f}"
    text += "  failed" if "error" in row else ""
    if "median" in row:
        text += "".join(f"{row[key]:>9.3f}" for key in ("first", "median", "best"))
        text += f"{100 * row['median'] / peak:>8.1f}%" if peak else ""
    return text


def run(args: argparse.Namespace, bench: Bench, shapes: list[Shape]) -> list[dict]:
    """Measure every format and shape; a shape that fails (out of memory, unsupported) becomes a row with `error`."""
    rows, end = [], time.monotonic() + args.soak
    for shape in sorted(shapes, key=lambda shape: shape.flops, reverse=True) if args.soak else ():
        with contextlib.suppress(*FAILURES):  # too large: soak with the next one; its own row tells
            calls = bench.calls(shape, args.dtype[0])
            while time.monotonic() < end:
                bench.seconds(calls, 10)
            break
    for dtype, shape in itertools.product(args.dtype, shapes):
        row = describe(shape, dtype)
        try:
            row.update(bench.measure(shape, dtype, args.warmup, args.iterations))
        except FAILURES as error:
            row["error"] = str(error).splitlines()[0]
        rows.append(row)
        if not args.json:
            print(line(row, args.peak.get(dtype)), flush=True)
    return rows


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args()
    bench = None
    if not args.dry_run:
        try:
            import torch
        except ImportError:
            fix = "pip install torch --index-url https://download.pytorch.org/whl/cpu (or your GPU's index)"
            parser.error(f"PyTorch is missing: {fix}; --dry-run does without")
        try:
            bench = Bench(torch, pick_device(torch, args.device), args.data, args.cold_mib)
        except (ValueError, RuntimeError) as error:
            parser.error(str(error))
    on_cpu = bench.device.type == "cpu" if bench else args.device in ("auto", "cpu")
    args.m = args.m or DEFAULT_SIZES["cpu" if on_cpu else "accelerator"]
    args.dtype = args.dtype or ["float32" if on_cpu else "bfloat16"]
    check(args, parser)
    shapes = make_shapes(args)
    report: dict = {"program": "matmul_sweep", "dry_run": args.dry_run}
    if bench is None:
        report["results"] = rows = [describe(shape, dtype) for dtype, shape in itertools.product(args.dtype, shapes)]
        print(json.dumps(report) if args.json else "\n".join([HEAD, *(line(row, None) for row in rows)]))
        return 0

    calls, flops = 1 + args.warmup + args.iterations, sum(shape.flops for shape in shapes)
    try:
        estimate = args.soak + sum(calls * flops / bench.rate(dtype) for dtype in args.dtype)
    except FAILURES as error:
        parser.error(f"{bench.name()} cannot multiply {', '.join(args.dtype)}: {str(error).splitlines()[0]}")
    if estimate > FREE_SECONDS and not args.yes:
        parser.error(f"about {estimate:.0f} s of full load on {bench.name()}: add --yes, or give fewer, smaller shapes")
    report.update(device=bench.name(), torch=torch.__version__, data=args.data, cold_mib=args.cold_mib)
    report.update(warmup=args.warmup, iterations=args.iterations, estimate_seconds=round(estimate, 1), peak=args.peak)
    if not args.json:
        print(f"{bench.name()}, PyTorch {torch.__version__}; {args.data} data, rotating through {args.cold_mib} MiB;")
        print(f"{args.warmup} warm-up and {args.iterations} measured calls a shape; first, median, best in TFLOP/s\n")
        print(f"{HEAD}{'first':>9}{'median':>9}{'best':>9}" + " of peak" * bool(args.peak), flush=True)
    monitor = bench.monitor()
    report["results"] = run(args, bench, shapes)
    report["clock_and_power"] = clocks = monitor.summary() if monitor else None
    report["findings"] = findings = look_into(report["results"], args)
    if args.json:
        print(json.dumps(report))
    else:
        if clocks:
            slow = ", ".join(clocks["slowdowns"]) or "none reported"
            print(f"\nclock: median {clocks['median_mhz']:.0f} MHz, lowest {clocks['lowest_mhz']:.0f} MHz; ", end="")
            print(f"power: up to {clocks['highest_watt']:.0f} W; slowdowns: {slow} ({clocks['readings']} readings)")
        print("".join(f"\nLOOK: {finding}" for finding in findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    sys.exit(main())
