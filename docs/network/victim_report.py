#!/usr/bin/env python3
"""Compare a collective measured alone with the same one beside a neighbour.

Reads what nccl-tests or rccl-tests print (their rows of numbers; the out-of-place
time counts), or one JSON document of collective_bench.py a line. Each file may hold
any number of runs. For each collective and size it prints the median and the 99th
percentile of both, and

    impact = median beside the neighbour / median alone
    tail   = 99th percentile beside the neighbour / median alone

    python3 victim_report.py --alone victim_alone.jsonl --loaded victim_loaded.jsonl

Fewer than 100 runs have no 99th percentile: the slowest run stands in its place.
Exit codes: 0 fine, 1 an impact or a tail above its limit, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

# size, count, type, redop and root, then the time in microseconds of the out-of-place run
ROW = re.compile(r"^\s*(\d+)\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+\s+([\d.]+(?:e\+?\d+)?)\s+[\d.]+\s+[\d.]+\s")
STARTING = re.compile(r"^# Collective test starting: (\w+?)_perf")
LARGEST = 1 << 60  # bytes
LONGEST_US = 1e12  # eleven days: a longer time is no measurement


def show_size(size: int) -> str:
    """Bytes in the unit that divides them: 1048576 -> '1 MiB'."""
    for unit, scale in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size} B"


def json_rows(line: str) -> list[tuple[str, int, float]]:
    """Collective, bytes and microseconds of each row of one JSON document; raises ValueError."""
    try:
        return [(str(row["op"]), int(row["bytes"]), float(row["time_us"])) for row in json.loads(line)["rows"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as problem:
        raise ValueError(f"not a result of collective_bench.py --json: {problem!r}") from None


def read(paths: list[Path]) -> dict[tuple[str, int], list[float]]:
    """Times in microseconds of every run, by collective and size; raises ValueError with file and line."""
    times = defaultdict(list)
    for path in paths:
        name = "collective"
        for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
            rows = []
            try:
                if found := STARTING.match(line):
                    name = found[1]
                elif found := ROW.match(line):
                    rows = [(name, int(found[1]), float(found[2]))]
                elif line.lstrip().startswith("{"):
                    rows = json_rows(line)
                for op, size, time_us in rows:
                    if not (0 <= size < LARGEST and 0 <= time_us < LONGEST_US):  # not a number fails it, too
                        raise ValueError(f"{op} of {size:.6g} bytes cannot take {time_us} us")
                    times[op, size].append(time_us)
            except (ValueError, OverflowError) as problem:
                raise ValueError(f"{path}:{number}: {problem}") from None
    return times


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that `share` of the values do not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def compare(alone: dict, loaded: dict) -> list[dict]:
    """One row for each collective and size that both have, in order."""
    rows = []
    for op, size in sorted(alone.keys() & loaded.keys()):
        before, after = alone[op, size], loaded[op, size]
        median = statistics.median(before)
        if median <= 0:
            continue  # nccl-tests prints 0.00 where it measured nothing
        rows.append(
            {
                "op": op,
                "bytes": size,
                "runs": [len(before), len(after)],
                "alone_us": {"median": median, "p99": percentile(before, 0.99)},
                "loaded_us": {"median": statistics.median(after), "p99": percentile(after, 0.99)},
                "impact": statistics.median(after) / median,
                "tail": percentile(after, 0.99) / median,
            }
        )
    return rows


def verdict(row: dict, limit: float, tail_limit: float) -> str:
    words = []
    if row["impact"] > limit:
        words.append("SLOWER")
    if row["tail"] > tail_limit:
        words.append("TAIL")
    return " ".join(words)


def show(rows: list[dict], limit: float, tail_limit: float) -> None:
    print(f"{'':26}{'alone, us':>20}{'loaded, us':>22}")
    print(f"{'collective':>15}{'size':>11}{'median':>10}{'p99':>10}{'median':>12}{'p99':>10}{'impact':>9}{'tail':>7}")
    for row in rows:
        a, b = row["alone_us"], row["loaded_us"]
        print(
            f"{row['op']:>15}{show_size(row['bytes']):>11}{a['median']:10.0f}{a['p99']:10.0f}"
            f"{b['median']:12.0f}{b['p99']:10.0f}{row['impact']:9.2f}{row['tail']:7.2f}"
            f"  {verdict(row, limit, tail_limit)}".rstrip()
        )
    fewest = min(min(row["runs"]) for row in rows)
    print(f"{fewest} runs at least" + (": too few for a 99th percentile, p99 is the slowest" if fewest < 100 else ""))


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio of 1 or more")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", nargs="+", type=Path, required=True, metavar="FILE", help="runs without a neighbour")
    parser.add_argument("--loaded", nargs="+", type=Path, required=True, metavar="FILE", help="runs beside one")
    parser.add_argument("--limit", type=ratio, default=1.2, help="of the impact, default 1.2")
    parser.add_argument("--tail-limit", type=ratio, default=2.0, help="of the tail, default 2")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args()
    try:
        alone, loaded = read(args.alone), read(args.loaded)
    except (OSError, ValueError) as problem:
        parser.error(str(problem))
    rows = compare(alone, loaded)
    left_out = sorted((alone.keys() | loaded.keys()) - {(row["op"], row["bytes"]) for row in rows})
    if not rows:
        parser.error("no collective and size is in both: the files must come from the same command")
    failed = [row for row in rows if verdict(row, args.limit, args.tail_limit)]
    if args.json:
        limits = {"limit": args.limit, "tail_limit": args.tail_limit}
        print(json.dumps({"rows": rows, **limits, "slower": len(failed), "not_compared": left_out}))
    else:
        show(rows, args.limit, args.tail_limit)
        if left_out:
            names = ", ".join(f"{op} {show_size(size)}" for op, size in left_out)
            print(f"not compared, as only one has a time above 0: {names}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = main()
        sys.stdout.flush()
    except OSError as problem:  # the reader of a pipe left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1 if isinstance(problem, BrokenPipeError) else 2
        if code == 2:
            print(f"victim_report.py: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
