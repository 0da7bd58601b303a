#!/usr/bin/env python3
"""Measure what `import MODULE` asks of the file system, and what a job makes of it.

    import_storm.py torch --ranks 512 --rate 20000

Times the import in new processes, counts the files that Python opens (audit hook) and asks for
(stat), the shared libraries that it maps, and, if strace is present and may trace, every
file-name system call. Then: calls x ranks / the metadata operations per second that the file
system does = the least time of the start. The first run is cold only if nobody ran it before.
Exit codes: 0 measured, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Runs in the process that is measured; sys.argv[1] is the module.
PROBE = r"""
import os, sys  # both are loaded already
external = sys.modules["_frozen_importlib_external"]
opened, stats, listed = [], 0, 0
def hook(event, arguments):
    global listed
    if event == "open" and isinstance(arguments[0], str):
        opened.append(arguments[0])
    elif event in ("os.listdir", "os.scandir"):
        listed += 1
plain = external._path_stat
def counted(path):  # importlib asks for attributes through this one function
    global stats
    stats += 1
    return plain(path)
external._path_stat = counted
before = set(sys.modules)
sys.addaudithook(hook)
__import__(sys.argv[1])
external._path_stat = plain
paths, modules = list(opened), len(set(sys.modules) - before)
mapped = set()
if os.path.exists("/proc/self/maps"):
    with open("/proc/self/maps") as maps:
        mapped = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
def size(names):
    return sum(os.path.getsize(name) for name in names if os.path.isfile(name))
import json
print(json.dumps({
    "modules": modules, "opens": len(paths), "stats": stats, "listings": listed,
    "files": len(set(paths)), "file_bytes": size(set(paths)),
    "mapped_files": len([name for name in mapped if os.path.isfile(name)]), "mapped_bytes": size(mapped)}))
"""


class Misuse(Exception):
    """The request makes no sense here; the message names the fix (exit code 2)."""


def whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 10000000")
    return int(text)


def start(python: str, module: str, *options: str) -> subprocess.Popen:
    code = f"import {module}" if module else "pass"
    command = [python, *options, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen, module: str) -> str:
    """Wait for an importing process; returns its standard error."""
    errors = process.communicate()[1]
    if process.returncode:
        last = errors.strip().splitlines()[-1] if errors.strip() else f"exit code {process.returncode}"
        raise Misuse(f"import {module} failed: {last} (--python names the interpreter of the environment)")
    return errors


def seconds_of(python: str, module: str, processes: int) -> list[float]:
    """Wall-clock seconds of each of the processes, all started at once."""
    began = time.perf_counter()
    running = {process.pid: process for process in (start(python, module) for _ in range(processes))}
    took = []
    while running:
        for pid, process in list(running.items()):
            if process.poll() is not None:
                took.append(time.perf_counter() - began)
                finish(running.pop(pid), module)
        time.sleep(0.002)
    return took


def slowest_imports(text: str, top: int = 5) -> list[dict[str, Any]]:
    """The modules with the most own time, from the lines of `python -X importtime`."""
    rows = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \| *(\S+)", text)
    rows.sort(key=lambda row: -int(row[0]))
    return [{"module": name, "self_ms": int(own) / 1e3} for own, _, name in rows[:top]]


def count_calls(python: str, module: str) -> dict[str, int] | None:
    """System calls that take a file name, by strace; None where strace is missing or may not trace."""
    strace = shutil.which("strace")
    if not strace:
        return None
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "calls"
        command = [strace, "-f", "-qq", "-e", "trace=%file", "-o", str(log), python, "-c", f"import {module}"]
        done = subprocess.run(command, capture_output=True, text=True)
        counts = parse_calls(log.read_text(errors="replace")) if log.exists() else {}
    return counts if done.returncode == 0 and counts.get("calls") else None


def parse_calls(text: str) -> dict[str, int]:
    """Calls per name, and how many failed, from the lines of `strace -f -e trace=%file`.

    fstat of an open file is newfstatat with an empty name: no look-up, so it is left out, and so
    is getcwd, which asks the kernel only.
    """
    counts = {"calls": 0, "failed": 0}
    for line in text.splitlines():
        call = re.match(r"(?:\d+\s+)?([a-z]\w*)\(", line)
        if not call or call[1] == "getcwd" or "AT_EMPTY_PATH" in line:
            continue
        counts[call[1]] = counts.get(call[1], 0) + 1
        counts["calls"] += 1
        counts["failed"] += " = -1 E" in line
    return counts


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run everything once; times in seconds, sizes in bytes."""
    first = seconds_of(args.python, args.module, 1)[0]
    again = [seconds_of(args.python, args.module, 1)[0] for _ in range(args.repeats)]
    empty = statistics.median(seconds_of(args.python, "", 1)[0] for _ in range(3))
    probe = subprocess.run([args.python, "-c", PROBE, args.module], capture_output=True, text=True)
    counts = json.loads(probe.stdout.splitlines()[-1]) if probe.returncode == 0 else None
    report = {
        "module": args.module,
        "python": args.python,
        "seconds": {"empty": empty, "first": first, "again": statistics.median(again)},
        "python_counts": counts,
        "slowest": slowest_imports(finish(start(args.python, args.module, "-X", "importtime"), args.module)),
        "calls": None if args.no_strace else count_calls(args.python, args.module),
    }
    if args.processes > 1:
        took = seconds_of(args.python, args.module, args.processes)
        report["together"] = {"processes": args.processes, "fastest": min(took), "slowest": max(took)}
    known = report["calls"] or counts
    if known:
        one = known["calls"] if "calls" in known else known["opens"] + known["stats"] + known["listings"]
        report["storm"] = {"ranks": args.ranks, "rate": args.rate, "operations_each": one}
        nodes = -(-args.ranks // args.per_node)
        report["storm"].update(nodes=nodes, operations=one * args.ranks)
        report["storm"]["seconds_shared"] = one * nodes / args.rate  # ranks of a node share its cache
        report["storm"]["seconds_each"] = one * args.ranks / args.rate
    return report


def show(report: dict[str, Any]) -> None:
    seconds, counts, calls = report["seconds"], report["python_counts"], report["calls"]
    print(f"import {report['module']} with {report['python']}")
    print(f"  first {seconds['first']:.2f} s, again {seconds['again']:.2f} s, empty Python {seconds['empty']:.2f} s")
    if counts:
        print(f"  Python: {counts['modules']} modules, {counts['opens']} opens, {counts['stats']} stats,", end=" ")
        print(f"{counts['listings']} listings; {counts['files']} files, {counts['file_bytes'] / 1e6:.1f} MB")
        print(f"  mapped: {counts['mapped_files']} files, {counts['mapped_bytes'] / 1e6:.0f} MB on disk")
    if calls:
        names = sorted((name for name in calls if name not in ("calls", "failed")), key=lambda name: -calls[name])
        listed = ", ".join(f"{name} {calls[name]}" for name in names[:4])
        print(f"  strace: {calls['calls']} calls with a file name, {calls['failed']} of them failed ({listed})")
    else:
        print("  strace: not counted (missing, or tracing not permitted)")
    print("  slowest by itself: " + ", ".join(f"{row['module']} {row['self_ms']:.0f} ms" for row in report["slowest"]))
    if "together" in report:
        row = report["together"]
        print(f"  {row['processes']} at once: first done {row['fastest']:.2f} s, last {row['slowest']:.2f} s")
    if "storm" in report:
        row = report["storm"]
        print(f"  {row['ranks']} ranks on {row['nodes']} nodes, {row['operations_each']} operations each,", end=" ")
        print(f"{row['rate']}/s: {row['seconds_shared']:.0f} s if the ranks of a node share its cache,", end=" ")
        print(f"{row['seconds_each']:.0f} s if nothing is cached")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", help="what to import, as torch or transformers.models.llama")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment (this one)")
    parser.add_argument("--repeats", type=whole, default=3, help="further runs, of which the median counts (3)")
    parser.add_argument("--processes", type=whole, default=1, help="also this many at once; above the cores: --yes")
    parser.add_argument("--ranks", type=whole, default=512, help="processes of the job (512)")
    parser.add_argument("--per-node", type=whole, default=8, help="ranks on a node (8)")
    parser.add_argument("--rate", type=whole, default=20_000, help="metadata operations/s of the file system (20000)")
    parser.add_argument("--no-strace", action="store_true", help="do not trace")
    parser.add_argument("--yes", action="store_true", help="allow more processes than cores")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if not MODULE.fullmatch(args.module):
        parser.error(f"{args.module!r} is not the name of a module")
    if not shutil.which(args.python):
        parser.error(f"--python {args.python}: no such program")
    if args.processes > (os.cpu_count() or 1) and not args.yes:
        parser.error(f"--processes {args.processes} is more than this machine's cores: add --yes")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        report = measure(args)
    except Misuse as error:
        print(f"import_storm.py: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
