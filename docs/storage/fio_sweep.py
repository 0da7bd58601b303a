#!/usr/bin/env python3
"""Measure a directory with fio over loads, queue depths and jobs; table, JSON and a plot.

A load is PATTERN:BLOCK, with the pattern one of read, write, randread, randwrite. Each is run at every
combination of --depths (requests in flight per job) and --jobs (processes). All files are made in a new directory
below --dir and removed at the end, also after Ctrl-C. `--read` loads results instead of measuring: JSON that fio wrote
on several nodes (a row for each job: all nodes' bytes over the slowest node's time), or documents of this program.

Exit codes: 0 measured; 1 findings (fio failed, below --at-least, nodes not at the same time); 2 misuse, fio missing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
PATTERNS = ("read", "write", "randread", "randwrite")
MOST_POINTS = 500
SPARE = 0.9  # share of the free space that may be used: others write to the file system too
METRICS = {"iops": "IOPS", "mb_s": "MB/s", "p50_us": "median latency, µs", "p99_us": "p99 latency, µs"}
LATENCIES = {"p50_us": "50.000000", "p99_us": "99.000000", "p999_us": "99.900000"}  # name → key of fio
LINES = ("line-strong", "line", "dash", "ok", "bad")
HEAD = f"{'load':22}{'depth':>6}{'jobs':>6}{'MB/s':>9}{'IOPS':>10}{'p50 µs':>10}{'p99 µs':>10}{'p99.9 µs':>10}"
STYLE = """<style>
svg { --ink: #37474f; --accent: #0b5c63; --ok: #2e7d32; --bad: #b3261e; background: #fff; font-family: sans-serif }
@media (prefers-color-scheme: dark) {
  svg { --ink: #cfd8dc; --accent: #6fd0d6; --ok: #81c784; --bad: #f28b82; background: #1e2529 } }
path { fill: none; stroke-width: 1.5 } .line, .dash { stroke: var(--ink) } .dash { stroke-dasharray: 5 4 }
.line-strong { stroke: var(--accent); stroke-width: 2.5 } .ok { stroke: var(--ok) } .bad { stroke: var(--bad) }
text { fill: var(--ink); font-size: 13px } .label-strong { font-size: 15px; font-weight: 700 }
</style>"""


class Misuse(Exception):
    """Something that the caller has to mend; ends with exit code 2."""


def parse_size(text: str) -> int:
    """`4k`, `1M` or `512` to bytes; binary units, as fio reads them."""
    found = re.fullmatch(r"([1-9]\d{0,8})([kmgt]?)(?:i?b)?", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size like 4k, 1M or 2G")
    return int(found[1]) * UNITS[found[2]]


def short(size: float) -> str:
    """Bytes to `256k` or `2g`, for fio and for people."""
    unit = next(name for name in ("t", "g", "m", "k", "") if size % UNITS[name] == 0)
    return f"{int(size) // UNITS[unit]}{unit}"


def parse_loads(text: str) -> list[tuple[str, int]]:
    """`write:1m,randread:4k` to patterns with their block sizes in bytes."""
    loads = []
    for part in text.split(","):
        pattern, _, block = part.partition(":")
        if pattern not in PATTERNS or not block:
            raise argparse.ArgumentTypeError(f"{part!r} is not PATTERN:BLOCK with one of {', '.join(PATTERNS)}")
        loads.append((pattern, parse_size(block)))
    return loads


def parse_counts(text: str) -> list[int]:
    """`1,16,64` to positive numbers."""
    if not re.fullmatch(r"[1-9]\d{0,4}(,[1-9]\d{0,4})*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers like 1,16,64")
    return [int(number) for number in text.split(",")]


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--dir", type=Path, help="directory on the file system to measure")
    option("--loads", type=parse_loads, default="write:1m,randread:256k,randread:4k", help="default: %(default)s")
    option("--depths", type=parse_counts, default=[1, 8, 32], help="requests in flight per job (default: 1,8,32)")
    option("--jobs", type=parse_counts, default=[1, 4], help="processes at a time (default: 1,4)")
    option("--size", type=parse_size, default=parse_size("1g"), help="file of each job (default: 1g)")
    option("--runtime", type=int, default=10, help="most seconds of each point (default: 10)")
    option("--buffered", action="store_true", help="through the page cache (default: direct, past it)")
    option("--engine", default="libaio", help="fio's ioengine; psync for one request a job (default: libaio)")
    option("--at-least", type=float, metavar="MB/s", help="exit with 1 if a load's best point is below this")
    option("--read", type=Path, nargs="+", metavar="FILE", help="results to show instead of measuring")
    option("--svg", type=Path, metavar="FILE", help="draw the results over the depth")
    option("--metrics", default="iops,p99_us", help=f"to draw: of {', '.join(METRICS)} (default: iops,p99_us)")
    option("--embed", action="store_true", help="leave out the drawing's own colours, for a page that has them")
    option("--dry-run", action="store_true", help="print the commands; run and write nothing")
    option("--yes", action="store_true", help="really write to --dir and load it")
    option("--json", action="store_true", help="one JSON document on standard output")
    return parser


def command(args: argparse.Namespace, pattern: str, block: int, depth: int, jobs: int) -> list[str]:
    """fio's command line for one point; it runs in the working directory."""
    if pattern == "write":  # new files, as a checkpoint; done when fsync says so
        options = {"name": "new", "fallocate": "none", "end_fsync": 1, "unlink": 1}
    else:  # the files that were laid out before
        options = {"name": "data", "time_based": 1, "randrepeat": 0, "norandommap": 1}
    options.update(rw=pattern, bs=short(block), size=short(args.size), iodepth=depth, numjobs=jobs)
    options.update(ioengine=args.engine, direct=int(not args.buffered), runtime=args.runtime, lat_percentiles=1)
    return spell(options, "--group_reporting")


def layout(args: argparse.Namespace) -> list[str]:
    """fio's command line that writes the files which the other patterns read or overwrite."""
    options = {"name": "data", "rw": "read", "bs": "1m", "size": short(args.size), "numjobs": max(args.jobs)}
    return spell(options, "--create_only=1")


def spell(options: dict, *more: str) -> list[str]:
    """Options to a command line; with --thread all jobs are one process, which a signal ends as a whole."""
    return ["fio", *(f"--{key}={value}" for key, value in options.items()), *more, "--thread", "--eta=never"]


def plan(args: argparse.Namespace) -> list[tuple[str, int, int, int]]:
    """All points: pattern, block in bytes, depth, jobs."""
    points = [(*load, *rest) for load, *rest in itertools.product(args.loads, args.depths, args.jobs)]
    if len(points) > MOST_POINTS:
        raise Misuse(f"{len(points)} points are more than {MOST_POINTS}: give fewer loads, depths or jobs")
    return points


def file_system(path: Path) -> str:
    """Type of the file system that holds a path, from Linux's list of mounts; "unknown" elsewhere."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    names = [(mount[1].encode().decode("unicode_escape"), mount[2]) for mount in mounts]
    inside = [(len(name), kind) for name, kind in names if path == Path(name) or Path(name) in path.parents]
    return max(inside, default=(0, "unknown"), key=lambda found: found[0])[1]


def check_place(args: argparse.Namespace) -> tuple[int, int]:
    """Refuse what is no directory for test files; bytes that the files need and bytes that are free."""
    if args.dir is None:
        raise Misuse("--dir is missing: a directory on the file system to measure (or --read FILE)")
    if args.dir.is_block_device() or args.dir.is_char_device():
        raise Misuse(f"{args.dir} is a device: writing to it destroys its data. Give a directory on a file system")
    if not args.dir.is_dir():
        raise Misuse(f"{args.dir} is no directory: mkdir -p {shlex.quote(str(args.dir))}")
    args.dir = args.dir.resolve()
    if not os.access(args.dir, os.W_OK) or file_system(args.dir) in ("proc", "sysfs", "devtmpfs"):
        raise Misuse(f"{args.dir} cannot hold test files: give a directory that you may write to")
    patterns = {pattern for pattern, _ in args.loads}
    sets = ("write" in patterns) + bool(patterns - {"write"})  # new files beside those laid out
    return args.size * max(args.jobs) * sets, shutil.disk_usage(args.dir).free


def notes(args: argparse.Namespace) -> Iterator[str]:
    """What makes the numbers mean something else than the reader may think."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if file_system(args.dir) in ("tmpfs", "ramfs"):
        yield "this directory is memory, not a disk"
    if args.buffered and args.size * max(args.jobs) < 2 * memory:
        yield f"buffered, and the files fit into memory ({memory / 2**30:.0f} GiB): repeated reads measure the page cache"
    synchronous = args.engine in ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
    if max(args.depths) > 1 and (synchronous or (args.buffered and args.engine == "libaio")):
        yield f"{args.engine}{' with buffered I/O' * (not synchronous)} keeps one request in flight: the depth has no effect"


def load_document(path: Path, origin: str) -> dict:
    """The JSON in fio's output, which may start with warnings."""
    try:
        text = path.read_text()
        return json.loads(text[text.index("{") :])
    except ValueError:
        raise Misuse(f"{origin}: no JSON document of fio (--output-format=json) or of this program") from None


def numbers(side: dict, moves_data: bool) -> dict:
    """Rates and latencies of one direction of one of fio's jobs; total latency where fio was asked for it."""
    percentiles = side["lat_ns"].get("percentile") or side["clat_ns"].get("percentile", {})
    latency = {name: round(percentiles[key] / 1000, 1) for name, key in LATENCIES.items() if key in percentiles}
    work = {"bytes": side["io_bytes"] * moves_data, "requests": side["total_ios"], "seconds": side["runtime"] / 1000}
    return {**rates(**work), **latency, **work}


def rates(bytes: int, requests: int, seconds: float) -> dict:
    """MB/s and requests per second."""
    seconds = max(seconds, 0.001)  # fio counts whole milliseconds
    return {"mb_s": round(bytes / 1e6 / seconds, 1), "iops": round(requests / seconds, 1)}


def rows_of(document: dict, origin: str) -> Iterator[dict]:
    """A row for each job and direction of a document of fio."""
    try:
        for job in document.get("jobs", []):
            options = {**document.get("global options", {}), **job.get("job options", {})}
            moves_data = options.get("ioengine") not in ("filecreate", "filestat", "filedelete")
            for direction in ("read", "write"):
                if job[direction]["io_bytes"]:
                    about = {"job": job["jobname"], "direction": direction, "block": options.get("bs", "4k")}
                    about.update(depth=int(options.get("iodepth", 1)), jobs=int(options.get("numjobs", 1)))
                    yield {**about, **numbers(job[direction], moves_data)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Misuse(f"{origin}: not as fio writes it: {error!r}") from None


def own_rows(document: dict, origin: str) -> list[dict]:
    """The rows of a document of this program, if they have what is shown and drawn."""
    try:
        for row in document.get("results", []):
            values = [row[key] for key in ("depth", "jobs", "mb_s", "iops", *(LATENCIES.keys() & row))]
            if not isinstance(row["load"], str) or not all(0 <= value < float("inf") for value in values):
                raise ValueError(row)
    except (KeyError, TypeError, ValueError) as error:
        raise Misuse(f"{origin}: not as this program writes it: {error!r}") from None
    return document.get("results", [])


def measure(args: argparse.Namespace, findings: list[str]) -> Iterator[dict]:
    """Run every point in a new directory, which is gone afterwards."""
    work = Path(tempfile.mkdtemp(prefix="fio-sweep-", dir=args.dir))
    output = work / "result.json"
    try:
        if any(pattern != "write" for pattern, _ in args.loads):
            run(layout(args), work)
        for pattern, block, depth, jobs in plan(args):
            line = command(args, pattern, block, depth, jobs)
            label = f"{pattern}:{short(block)}"
            try:
                run([*line, "--output-format=json", f"--output={output}"], work)
            except Misuse as error:
                findings.append(f"{label} depth {depth} jobs {jobs}: {error}")
                continue
            for row in rows_of(load_document(output, "fio"), "fio"):
                yield {"load": label, **row, "depth": depth, "jobs": jobs}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run(line: list[str], work: Path) -> None:
    """Run fio; its first words if it fails."""
    done = subprocess.run(line, cwd=work, capture_output=True, text=True)
    if done.returncode:
        said = [text for text in (done.stderr + done.stdout).splitlines() if text.strip()] or ["no message"]
        hint = "; no direct I/O here? try --buffered" * any(re.search("direct(?!or)", text, re.I) for text in said)
        raise Misuse(f"fio ended with {done.returncode}: {said[0]}{hint}")


def merge(paths: list[Path], findings: list[str]) -> list[dict]:
    """Rows of this program's documents as they are; of fio's documents a row for each job, over all files."""
    rows, groups = [], {}
    for path in paths:
        document = load_document(path, str(path))
        rows.extend(own_rows(document, str(path)))
        for row in rows_of(document, str(path)):
            row.update(file=path.name, end=document.get("timestamp_ms", 0) / 1000)
            groups.setdefault(f"{row['job']} {row['direction']}", []).append(row)
    for load, found in groups.items():
        slowest, ends = min(found, key=lambda row: row["mb_s"]), [row["end"] for row in found]
        total = {key: sum(row[key] for row in found) for key in ("bytes", "requests")}
        total["seconds"] = max(row["seconds"] for row in found)  # done when the last one is done
        worst = {key: max(row[key] for row in found if key in row) for key in LATENCIES if key in slowest}
        shape = {"depth": slowest["depth"], "jobs": sum(row["jobs"] for row in found), "files": len(found)}
        row = {"load": load, **shape, **rates(**total), **worst, **total}
        rows.append({**row, "slowest": slowest["file"], "slowest_mb_s": slowest["mb_s"]})
        apart = max(ends) - min(ends)
        if apart > 1 + 0.1 * min(row["seconds"] for row in found):
            findings.append(f"{load}: ended up to {apart:.0f} s apart: not at the same time, so the total is too high")
    if not rows:
        raise Misuse("no results in these files")
    return rows


def show(rows: list[dict]) -> None:
    """The table for people."""
    print(HEAD)
    for row in rows:
        latency = "".join(f"{row[key]:>10.0f}" if key in row else f"{'-':>10}" for key in LATENCIES)
        print(f"{row['load']:22}{row['depth']:>6}{row['jobs']:>6}{row['mb_s']:>9.0f}{row['iops']:>10.0f}{latency}")
        if row.get("files", 1) > 1:
            print(f"  over {row['files']} files; slowest {row['slowest']}: {row['slowest_mb_s']:.0f} MB/s")


def tag_text(x: float, y: float, text: str, style: str = "label-small", anchor: str = "start") -> str:
    """A text element of the drawing."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def panel(load: str, metric: str, rows: list[dict], top: float) -> tuple[list[str], list[str]]:
    """Elements of one panel (value over depth, a line for each number of jobs), and its values in words."""
    left, right, bottom, most = 66, 320, top + 112, max(row[metric] for row in rows) or 1
    power = 10 ** (len(str(int(most))) - 1)
    peak = next(part * power for part in (1, 2, 5, 10) if part * power >= most)  # a round number at the top
    depths = sorted({row["depth"] for row in rows})
    across = {depth: 86 + 214 * i / max(len(depths) - 1, 1) for i, depth in enumerate(depths)}
    parts, spoken = [tag_text(left, top - 16, f"{load}: {METRICS[metric]}", "label-strong")], []
    for share in (0, 0.5, 1):
        y, look = bottom - 112 * share, 'class="dash" opacity="0.35"' if share else 'class="line"'
        parts.append(f'<path {look} d="M{left} {y} H{right}"/>')
        parts.append(tag_text(left - 8, y + 5, f"{peak * share:,.0f}", anchor="end"))
    parts += [tag_text(x, bottom + 20, str(depth), anchor="middle") for depth, x in across.items()]
    parts.append(tag_text(right + 4, bottom + 20, "depth"))
    lines = [sorted(same, key=lambda row: row["depth"]) for same in
             ([row for row in rows if row["jobs"] == jobs] for jobs in {row["jobs"] for row in rows})]  # fmt: skip
    above = bottom + 30  # names stand at the right ends of the lines, from below, at least 15 apart
    for found, style in zip(sorted(lines, key=lambda line: line[-1][metric]), itertools.cycle(LINES)):
        place = [(across[row["depth"]], bottom - 112 * row[metric] / peak) for row in found]
        parts.append(f'<path class="{style}" d="M' + " L".join(f"{x:.1f} {y:.1f}" for x, y in place) + '"/>')
        above = min(place[-1][1] + 5, above - 15)
        jobs = f"{found[0]['jobs']} job{'s' * (found[0]['jobs'] != 1)}"
        parts.append(tag_text(right - 12, above, jobs))
        values = ", ".join(f"{row[metric]:,.0f} at depth {row['depth']}" for row in found)
        spoken.append(f"{load}, {METRICS[metric]}, {jobs}: {values}.")
    return parts, spoken


def draw(rows: list[dict], metrics: list[str], embed: bool) -> str:
    """An SVG with a panel for each load and metric that has values."""
    parts, spoken, high = [], [], 0
    for load, metric in itertools.product(dict.fromkeys(row["load"] for row in rows), metrics):
        mine = [row for row in rows if row["load"] == load and metric in row]
        if mine:
            for all_of, some in zip((parts, spoken), panel(load, metric, mine, high + 34)):
                all_of += some
            high += 190
    head = f'<svg class="diagram" viewBox="0 0 390 {high}" role="img" aria-labelledby="fio-sweep-t fio-sweep-d"'
    head += ' xmlns="http://www.w3.org/2000/svg">\n<title id="fio-sweep-t">Results of a sweep with fio</title>'
    about = f'<desc id="fio-sweep-d">{escape(" ".join(spoken))}</desc>'
    return "\n".join([head, about, *([] if embed else [STYLE]), *parts, "</svg>"]) + "\n"


def work(args: argparse.Namespace) -> int:
    """Plan, measure or read, then report."""
    metrics = args.metrics.split(",")
    if not set(metrics) <= set(METRICS):
        raise Misuse(f"--metrics takes {', '.join(METRICS)}")
    if args.runtime < 1 or not 0 <= (args.at_least or 0) < float("inf"):
        raise Misuse("--runtime takes seconds from 1 on, --at-least a number of MB/s from 0 on")
    findings, said = [], []
    if args.read:
        rows = merge(args.read, findings)
    else:
        need, free = check_place(args)
        said = list(notes(args))
        points = plan(args)
        if args.dry_run:
            first = [layout(args)] * any(pattern != "write" for pattern, _ in args.loads)
            print("\n".join(shlex.join(line) for line in first + [command(args, *point) for point in points]))
        most = f"{need / 1e9:.1f} GB of {free / 1e9:.0f} GB free in {args.dir} ({file_system(args.dir)}), "
        most += f"{len(points)} points, up to {len(points) * args.runtime} s and the writing"
        for text in (most, *said):
            print(f"note: {text}", file=sys.stderr)
        if need > SPARE * free:
            raise Misuse(
                f"the files need {need / 1e9:.1f} of {free / 1e9:.1f} GB that are free: lower --size or --jobs"
            )
        if args.dry_run:
            return 0
        if shutil.which("fio") is None:
            raise Misuse(
                "fio is missing: sudo apt-get install fio (Debian, Ubuntu), sudo dnf install fio (Fedora, RHEL)"
            )
        if not args.yes:
            raise Misuse("nothing was run: this writes and loads the storage. Look with --dry-run, then add --yes")
        rows = list(measure(args, findings))
    for load in dict.fromkeys(row["load"] for row in rows):
        best = max(row["mb_s"] for row in rows if row["load"] == load)
        if best < (args.at_least or 0):
            findings.append(f"{load}: at best {best:.0f} MB/s, below {args.at_least:g}")
    if args.json:
        print(json.dumps({"results": rows, "notes": said, "findings": findings}, indent=1))
    else:
        show(rows)
    for text in findings:
        print(f"finding: {text}", file=sys.stderr)
    if args.svg and rows:
        args.svg.write_text(draw(rows, metrics, args.embed), encoding="utf-8")
    return 1 if findings else 0


def main() -> int:
    """Run the command line; a stop by signal still removes the files."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return work(build_parser().parse_args())
    except (Misuse, OSError) as error:
        print(f"fio_sweep.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
