#!/usr/bin/env python3
"""Checkpoint arithmetic: size, time to write, bandwidth needed, interval and lost time.

The interval is Daly's (Young's beside it) for failures that come at random with a mean time
between failures (MTBF) of the whole job. Reads and writes nothing; exit codes: 0 fine, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


def quantity(text: str) -> float:
    """Parse `70B`, `20G`, `7e9` into a positive number; units are decimal, B is 10**9."""
    digits = text.rstrip("KMGBTkmgbt")
    try:
        value = float(digits) * UNITS[text[len(digits) :].upper()]
    except (KeyError, ValueError):
        value = 0.0
    if not 1e-30 < value < 1e30:  # keeps every product finite; false for nan too
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number like 70B, 20G or 7e9")
    return value


def count(text: str) -> int:
    """Parse a whole number from 1 to 10**9."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def young_interval(cost: float, mtbf: float) -> float:
    """Seconds of work between checkpoints, first order (Young 1974, doi:10.1145/361147.361115)."""
    return math.sqrt(2 * cost * mtbf)


def daly_interval(cost: float, mtbf: float) -> float:
    """Seconds of work between checkpoints, higher order (Daly 2006, doi:10.1016/j.future.2004.11.016)."""
    if cost >= 2 * mtbf:
        return mtbf
    x = cost / (2 * mtbf)
    return math.sqrt(2 * cost * mtbf) * (1 + math.sqrt(x) / 3 + x / 9) - cost


def lost_fraction(interval: float, cost: float, mtbf: float, restart: float) -> float:
    """Share of wall time that trains nothing, by Daly's cost function; all arguments in seconds."""
    exponent = (interval + cost) / mtbf
    if exponent + restart / mtbf > 700:  # exp() would overflow: nothing ever gets done
        return 1.0
    return max(0.0, 1 - interval / (mtbf * math.exp(restart / mtbf) * math.expm1(exponent)))


def plan(args: argparse.Namespace) -> dict[str, Any]:
    """Return sizes in bytes, times in seconds and rates in bytes/s."""
    mtbf = 3600 * (args.mtbf_hours or 24 * 1000 / (args.failure_rate * args.nodes))
    size = args.params * args.bytes_per_param
    write = size / args.bandwidth
    asynchronous = args.stall is not None
    cost = args.stall if asynchronous else write
    # An asynchronous save is of use once it is durable: a crash before that falls back further.
    restart = 60 * args.restart_minutes + (write if asynchronous else 0)
    daly = daly_interval(cost, mtbf)
    interval = max(daly, write) if asynchronous else daly  # saves must not overlap
    sweep = [interval * factor for factor in (0.25, 0.5, 1, 2, 4, 8)]
    return {
        "mode": "asynchronous" if asynchronous else "synchronous",
        "checkpoint_bytes": size,
        "bytes_per_node": size / args.nodes,
        "bytes_kept": size * (args.keep + 1),
        "write_s": write,
        "bandwidth_per_node": args.bandwidth / args.nodes,
        "bandwidth_for_target": size / args.target_seconds,
        "blocking_s": cost,
        "mtbf_s": mtbf,
        "young_s": young_interval(cost, mtbf),
        "daly_s": daly,
        "interval_s": interval,
        "sweep": [
            {"interval_s": t, "lost_fraction": lost_fraction(t, cost, mtbf, restart)}
            for t in sweep
            if not asynchronous or t >= write
        ],
    }


def duration(seconds: float) -> str:
    """Format a time for people."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"


def show(result: dict[str, Any], args: argparse.Namespace) -> None:
    """Print the plan for people."""

    def rate(total: float) -> str:
        return f"{total / 1e9:.3g} GB/s in all, {total / args.nodes / 1e9:.2g} GB/s per node"

    size = result["checkpoint_bytes"]
    rows = {
        "checkpoint": f"{size / 1e9:,.0f} GB ({size / 2**40:.2f} TiB), "
        f"{result['bytes_per_node'] / 1e9:,.3g} GB on each of {args.nodes} nodes",
        "space": f"{result['bytes_kept'] / 1e12:,.3g} TB: {args.keep} kept and one being written",
        "write": f"{duration(result['write_s'])} at {rate(args.bandwidth)}",
        f"in {duration(args.target_seconds)}": f"takes {rate(result['bandwidth_for_target'])}",
        "blocks": f"{duration(result['blocking_s'])} ({result['mode']})",
        "MTBF": f"{duration(result['mtbf_s'])}, restart {args.restart_minutes:g} min",
        "Young": duration(result["young_s"]),
        "Daly": duration(result["daly_s"]),
    }
    for name, value in rows.items():
        print(f"{name:12}{value}")
    print(f"\n{'every':>10}{'time lost':>12}")
    for row in result["sweep"]:
        mark = "  <- use" if row["interval_s"] == result["interval_s"] else ""
        print(f"{duration(row['interval_s']):>10}{row['lost_fraction']:>12.1%}{mark}")


def main() -> int:
    """Run the command line; return the exit code."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--params", type=quantity, required=True, help="parameters of the model, e.g. 70B")
    p.add_argument("--bandwidth", type=quantity, required=True, help="aggregate write bandwidth in byte/s, e.g. 20G")
    p.add_argument("--nodes", type=count, default=1, help="nodes of the job (default 1)")
    p.add_argument("--bytes-per-param", type=quantity, default=14.0, help="bytes saved per parameter (default 14)")
    failures = p.add_mutually_exclusive_group(required=True)
    failures.add_argument("--mtbf-hours", type=quantity, help="mean time between failures of the whole job")
    failures.add_argument("--failure-rate", type=quantity, help="failures per 1000 node-days, e.g. 6.5")
    p.add_argument("--restart-minutes", type=quantity, default=10.0, help="from crash to training again (default 10)")
    p.add_argument("--stall", type=quantity, help="asynchronous save: seconds for which training waits")
    p.add_argument("--target-seconds", type=quantity, default=60.0, help="wished write time (default 60)")
    p.add_argument("--keep", type=count, default=3, help="checkpoints kept (default 3)")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    args = p.parse_args()
    result = plan(args)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(result, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
