#!/usr/bin/env python3
"""Judge a node: its inventory and its measurements against limits. Compare the reports of many nodes.

    python3 node_acceptance.py                                   inventory and checks; loads nothing
    python3 node_acceptance.py --run matmul,collective --yes     loads the node with the book's programs
    python3 node_acceptance.py --results gpu-*.json --measured memory_bandwidth=2.9 --out reports
    python3 node_acceptance.py --compare reports/*.json          nodes that differ from the others

Takes the inventory with node_inventory.py and the limits of the chip from acceptance_limits.json, both beside
this program. Prints the report as Markdown, with --json as the document that acceptance_report.schema.json
describes; --out DIR keeps both. Results of matmul_sweep.py, collective_bench.py and checkpoint_writer.py (--json)
are read with --results, numbers of other tools with --measured.

Exit codes: 0 nothing failed; 1 a check failed, nodes differ or, with --complete, a limit was not measured;
2 misuse, a missing file, or --run without --yes.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "matmul": HERE / "matmul_sweep.py",
    "collective": HERE.parent / "network/collective_bench.py",
    "checkpoint": HERE.parent / "storage/checkpoint_writer.py",
}
# Xids after which a GPU needs a reset, a power cycle or a person; 144 to 150 are NVLink 5
STOP_XIDS = {46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158}
PROPERTIES = ("memory_gb", "pcie_gen", "pcie_width")  # limits of the inventory; the others are measured
VARYING = re.compile(r"hostname|serial|uuid|\.bus$|kernel_log|\.idle|replays|link_downed")  # not compared
UNITS = {"matmul": "TFLOP/s", "memory_b": "TB/s", "rdma_w": "Gb/s", "checkpoint_v": "checkpoints", "program": ""}
BROKEN = (KeyError, TypeError, AttributeError, ValueError, StopIteration)  # what a document of another form raises


class Misuse(Exception):
    """The request cannot be met; the message names the fix (exit code 2)."""


def load(path: Path) -> dict:
    """A JSON object. Raises Misuse, OSError."""
    try:
        found = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Misuse(f"{path} holds no JSON object")
    return found


def locate(path: Path) -> str:
    """A program of the book: at its place in the repository, or beside this one. Raises Misuse."""
    found = next((place for place in (path, HERE / path.name) if place.exists()), None)
    if not found:
        raise Misuse(f"{path.name} is missing: download it from the same book and put it into {HERE}")
    return str(found)


def run(names: list[str], gpus: list[dict], args: argparse.Namespace) -> list[tuple[str, dict]]:
    """Start the book's programs, on all GPUs at once; (subject, JSON) of each."""
    found = []
    for name in names:
        command = [sys.executable, locate(PROGRAMS[name])]
        if name == "matmul" and gpus:
            options = ["--m", "4096,8192,16384", "--dtype", "bf16", "--soak", str(args.soak), "--yes", "--json"]
            jobs = [(f"GPU {gpu['index']}", command + options, visible(gpu)) for gpu in gpus]
        elif name == "matmul":
            jobs = [("CPU", [*command, "--device", "cpu", "--m", "256,512", "--json"], {})]
        elif name == "collective" and gpus:
            launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(gpus)}", *command[1:]]
            sizes = ["--op", "all_reduce,all_gather", "-b", "1G", "-e", "8G", "--json"]
            jobs = [("node", [sys.executable, *launcher, *sizes], {})]
        elif name == "collective":
            jobs = [("CPU", [*command, "--op", "all_reduce", "-b", "64K", "-e", "4M", "-n", "5", "--json"], {})]
        else:
            folder = str(args.checkpoint_dir)
            size = ["--step", str(int(time.time())), "--shards", "8", "--size", args.checkpoint_size]
            write, verify = ["write", folder, *size, "--yes", "--json"], ["verify", folder, "--json"]
            jobs = [(folder, command + write, {}), (folder, command + verify, {})]
        started = ((subject, start(line, extra)) for subject, line, extra in jobs)  # what is verified must be written
        found += [wait(*job) for job in (started if name == "checkpoint" else list(started))]
    return found


def visible(gpu: dict) -> dict[str, str]:
    """The environment in which a program sees this GPU only."""
    name = "HIP_VISIBLE_DEVICES" if "bad_pages" in gpu and not gpu.get("uuid") else "CUDA_VISIBLE_DEVICES"
    return {name: gpu.get("uuid") or str(gpu["index"])}


def start(command: list[str], extra: dict[str, str]) -> subprocess.Popen:
    """A program in the background, with these variables added."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **extra})


def wait(subject: str, process: subprocess.Popen) -> tuple[str, dict]:
    """The JSON of a program that exits with 0 or 1 (findings); its error line otherwise."""
    out, err = process.communicate()
    try:
        return subject, json.loads(out)
    except ValueError:
        lines = [line for line in err.splitlines() if line.strip()] or [f"exit code {process.returncode}, no output"]
        return subject, {"failed": lines[-1], "command": Path(process.args[1]).name}


def measured(subject: str, result: dict, gpus: int) -> list[dict]:
    """Measurements of a result of one of the book's programs. Raises Misuse for anything else."""

    def one(name: str, value: float, source: str, wrong: str = "") -> dict:
        if not 0 <= value < float("inf"):
            raise TypeError(f"{name} is {value}")
        return {"name": name, "subject": subject, "value": value, "unit": unit(name), "from": source, "wrong": wrong}

    if "failed" in result:  # made by wait()
        return [one("program", 0, result["command"], result["failed"])]
    if result.get("program") == "matmul_sweep":
        best: dict[str, float] = {}
        for row in result["results"]:
            best[row["dtype"]] = max(best.get(row["dtype"], 0), row.get("median", 0))
        hot = [name for name in (result.get("clock_and_power") or {}).get("slowdowns", []) if "power cap" not in name]
        names = {dtype: f"matmul_{dtype.replace('bfloat16', 'bf16')}" for dtype in best}
        return [one(names[dtype], value, "matmul_sweep", ", ".join(hot)) for dtype, value in best.items()]
    if "world_size" in result and "summary" in result:
        ranks = result["world_size"]
        whole = "node" if ranks == gpus or not gpus else "cluster" if ranks > gpus else "part"
        wrong = f"wrong results in {', '.join(result['wrong'])}" if result["wrong"] else ""
        peaks = {op.replace("_", ""): value["peak_busbw_gbs"] for op, value in result["summary"].items()}
        return [one(f"{op}_{whole}", peak, "collective_bench", wrong) for op, peak in peaks.items()]
    if "bytes_per_s" in result:
        return [one("checkpoint_write", result["bytes_per_s"] / 1e9, "checkpoint_writer")]
    if "checkpoints" in result:
        bad = [p for p, wrong in (result["checkpoints"] or {"there is no checkpoint": True}).items() if wrong]
        return [one("checkpoint_verified", len(result["checkpoints"]), "checkpoint_writer", ", ".join(bad))]
    raise Misuse(f"{subject}: not a result of matmul_sweep, collective_bench or checkpoint_writer (with --json)")


def unit(name: str) -> str:
    """The unit in which a measurement is kept, by the beginning of its name."""
    return next((u for start, u in UNITS.items() if name.startswith(start)), "GB/s")


def chip_of(gpus: list[dict], limits: dict, name: str | None) -> dict | None:
    """The chip asked for, or the one with the longest name that the first GPU's name begins with. Raises Misuse."""
    chips = {chip["id"]: chip for chip in limits["chips"]}
    if name and name not in chips:
        raise Misuse(f"--chip {name}: unknown; known: {', '.join(chips)}")
    device = gpus[0]["name"] if gpus else ""
    fits = [(len(n), id_) for id_, c in chips.items() for n in c["reported_as"] if f"{device} ".startswith(f"{n} ")]
    return chips.get(name or max(fits, default=(0, ""))[1])


def judge_gpu(gpu: dict, limits: dict):
    """(check, value, result, why) of a GPU's properties."""
    idle, least = gpu.get("idle", True), {name: limits[name]["min"] for name in PROPERTIES if name in limits}
    if "memory_gb" in least:
        yield "memory_gb", (size := gpu["memory_gb"]), size >= least["memory_gb"] or "fail", limits["memory_gb"]["why"]
    for name, slow in (("pcie_width", "fail"), ("pcie_gen", "look" if idle else "fail")):
        now, most = gpu.get(name), gpu.get(f"{name}_max")
        if now and most:
            why = "idle GPUs lower it: look under load" if slow == "look" else f"slot and GPU could {most}"
            yield name, now, now >= most or slow, why
            if most < least.get(name, 0):
                yield f"{name}_max", most, "look", limits[name]["why"]
    for name in ("remap_pending", "remap_failure", "sram_threshold", "slowdowns", "uncorrectable", "links_down"):
        if name in gpu:
            yield name, gpu[name], not gpu[name] or "fail", "health.md"
    if gpu.get("ecc"):
        yield "ecc", gpu["ecc"], gpu["ecc"] == "Enabled" or "fail", "health.md"
    if (gpu.get("power_limit_w") or 0) < (gpu.get("power_default_w") or 0):
        yield "power_limit_w", gpu["power_limit_w"], "look", f"default {gpu['power_default_w']} W"
    for name, strange in (("replays", 0), ("bad_pages", 0), ("mig", "Disabled")):
        if gpu.get(name) and gpu[name] != strange:
            yield name, gpu[name], "look", "health.md"


def judge(found: dict, results: list[dict], chip: dict | None, own: dict[str, float], count: int | None) -> list[dict]:
    """All checks, each with a result: pass, fail, or look (a person must)."""
    checks, gpus, log = [], found["gpus"], found["kernel_log"]
    limits = {**(chip["limits"] if chip else {}), **{name: {"min": n, "why": "--limit"} for name, n in own.items()}}

    def add(check: str, subject: str, value, result, why: str = "", least=None) -> None:
        name = {True: "pass", False: "fail"}.get(result, result)
        checks.append({"check": check, "subject": subject, "value": value, "least": least, "result": name, "why": why})

    if count is not None:
        add("gpu_count", "node", len(gpus), len(gpus) == count, f"{count} were ordered", count)
    if gpus and not chip:
        add("chip", "node", gpus[0]["name"], "look", "no limits for this name: give --chip or --limit")
    for name in ("name", "vbios", "memory_gb") if gpus else ():
        add(f"same_{name}", "GPUs", sorted({gpu[name] for gpu in gpus}), len({gpu[name] for gpu in gpus}) == 1)
    for gpu in gpus:
        for check, value, result, why in judge_gpu(gpu, limits):
            add(check, f"GPU {gpu['index']}", value, result, why, limits.get(check, {}).get("min"))
    for device in found["pcie"]:
        kind, width, most = device["kind"], device["width"], device["width_max"]
        if kind in ("network", "nvme") and width and most and width < most:
            add("pcie_width", device["bus"], width, "look", f"the {kind} device could {most}")
    for nic in (nic for nic in found["nics"] if "layer" in nic):
        add("rdma_port", nic["name"], nic["state"], nic["state"] == "ACTIVE" or "look", f"{nic['rate_gbps']} Gb/s")
    add("kernel_log", "node", log["readable"], log["readable"] or "look", "" if log["readable"] else "run as root")
    for xid, times in log["xid"].items():
        add("xid", f"Xid {xid}", times, "fail" if int(xid) in STOP_XIDS else "look", "times since boot; health.md#xid")
    for name in [name for name in ("sxid", "amdgpu", "pcie_fatal") if log[name]]:
        add(name, "node", log[name], "look" if name == "sxid" else "fail", "in the kernel log; health.md")
    for result in results:
        limit = limits.get(result["name"], {})
        fits = len(gpus) == limit.get("gpus", len(gpus))  # an operator's limit is for its number of GPUs
        least = limit.get("min") if fits else None
        good = not result["wrong"] and result["value"] >= (least or 0)
        why = result["wrong"] or (limit.get("why", "") if fits else f"the limit is for {limit['gpus']} GPUs")
        if good and not limit and result["from"] == "given":  # a misspelt name must not look like a pass
            good, why = "look", f"no limit has this name; known: {', '.join(n for n in limits if n not in PROPERTIES)}"
        add(result["name"], result["subject"], round(result["value"], 3), good, why, least)
    return checks


def report(found: dict, results: list[dict], checks: list[dict], chip: dict | None, own: dict[str, float]) -> dict:
    """The document of acceptance_report.schema.json."""
    known = {result["name"] for result in results}.union(PROPERTIES)
    missing = [name for name in {**(chip["limits"] if chip else {}), **own} if name not in known]
    failed = any(check["result"] == "fail" for check in checks)
    verdict = "fail" if failed else "incomplete" if missing or not found["gpus"] else "pass"
    head = {"format": 1, "program": "node_acceptance", "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    head.update(verdict=verdict, chip=chip["id"] if chip else None, missing=missing)
    return {**head, "checks": checks, "measurements": results, "inventory": found}


def markdown(document: dict) -> str:
    """The report for people: what failed first."""
    found, order, host = document["inventory"], ("fail", "look", "pass"), document["inventory"]["host"]
    machine = f"{document['taken']}, {host['product'] or 'unknown product'}, {host['os']}, kernel {host['kernel']}"
    lines = [f"# Acceptance of {host['hostname'] or 'a node'}: {document['verdict']}", "", machine, ""]
    names = collections.Counter(gpu["name"] for gpu in found["gpus"])
    lines.append(f"- GPUs: {', '.join(f'{n} x {name}' for name, n in names.items()) or 'none found'}")
    missing, units = ", ".join(document["missing"]), {one["name"]: one["unit"] for one in document["measurements"]}
    lines.append(f"- limits of: {document['chip'] or 'no chip'}" + f"; not measured: {missing}" * bool(missing))
    lines += ["", "| result | check | of | value | at least | why |", "|---|---|---|---:|---:|---|"]
    shown = [check for check in document["checks"] if check["result"] != "pass" or check["check"] in units]
    for check in sorted(shown, key=lambda check: order.index(check["result"])):
        value = ", ".join(map(str, check["value"])) if isinstance(check["value"], list) else check["value"]
        least = "" if check["least"] is None else check["least"]
        name = ", ".join(filter(None, (check["check"], units.get(check["check"]))))
        lines.append(f"| {check['result']} | {name} | {check['subject']} | {value} | {least} | {check['why']} |")
    return "\n".join([*lines, "", f"{len(document['checks']) - len(shown)} more checks passed."])


def flatten(value, path: str = "") -> dict[str, str]:
    """`gpus.0.vbios` → value, for everything that should be alike on like nodes."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        key = "bus" if path == "pcie" else next(name for name in ("index", "node", "name") if name in value[0])
        parts = ((item[key], item) for item in value)
    else:
        return {path: f"{value:.3g}" if isinstance(value, float) else str(value)}
    flat: dict[str, str] = {}
    for name, inner in parts:
        flat.update(flatten(inner, f"{path}.{name}" if path else str(name)))
    return {name: inner for name, inner in flat.items() if not VARYING.search(name)}


def compare(documents: dict[str, dict], of_median: float) -> list[dict]:
    """Properties in which a node differs from most, and measurements below a share of the median."""
    flat, rows = {name: flatten(document["inventory"]) for name, document in documents.items()}, []
    for path in sorted({path for values in flat.values() for path in values}):
        values = {name: values.get(path, "absent") for name, values in flat.items()}
        usual, times = collections.Counter(values.values()).most_common(1)[0]
        if odd := {name: value for name, value in values.items() if value != usual}:
            rows.append({"what": path, "usual": usual, "nodes": times, "odd": odd})
    worst: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for name, document in documents.items():
        for one in document.get("measurements", []):
            worst[one["name"]][name] = min(one["value"], worst[one["name"]].get(name, one["value"]))
    for what, values in worst.items():
        median = statistics.median(values.values())
        if low := {name: f"{value:.4g}" for name, value in values.items() if value < of_median * median}:
            rows.append({"what": what, "usual": f"median {median:.4g}", "nodes": len(values), "odd": low})
    return rows


def pair(text: str) -> tuple[str, float]:
    """`memory_bandwidth=2.9` to its name and value."""
    if not re.fullmatch(r"[a-z]\w*=\d+\.?\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return text.split("=")[0], float(text.split("=")[1])


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--from", dest="source", type=Path, metavar="FILE", help="inventory or report, in place of this node")
    option("--root", default="/", help="where /sys, /proc and /etc are, for node_inventory.py")
    option("--anonymous", action="store_true", help="leave out this node's name, serial numbers and UUIDs")
    option("--gpus", type=int, help="how many GPUs the node must have")
    option("--chip", help="whose limits apply; by default known from the GPU's name")
    option("--limits", type=Path, default=HERE / "acceptance_limits.json", help="default: beside this program")
    option("--limit", type=pair, action="append", default=[], metavar="NAME=LEAST", help="a limit of your contract")
    option("--results", type=Path, nargs="+", default=[], metavar="FILE", help="JSON of the book's programs")
    option("--measured", type=pair, action="append", default=[], metavar="NAME=VALUE", help="from another tool")
    option("--run", type=lambda text: text.split(","), default=[], help=f"load the node: {','.join(PROGRAMS)}")
    option("--soak", type=int, default=30, help="seconds of load before matmuls are measured (default: 30)")
    option("--checkpoint-dir", type=Path, help="where --run checkpoint writes")
    option("--checkpoint-size", default="1G", help="of each of eight files (default: 1G)")
    option("--yes", action="store_true", help="really load the node and write")
    option("--complete", action="store_true", help="exit with 1 while a limit is not measured")
    option("--compare", type=Path, nargs="+", metavar="REPORT", help="reports of like nodes: show what differs")
    option("--out", type=Path, metavar="DIR", help="also write NODE.json and NODE.md there")
    option("--json", action="store_true", help="one JSON document on standard output")
    return parser


def main_compare(args: argparse.Namespace) -> int:
    """Show how reports differ; 1 if they do. Raises Misuse."""
    documents = {path.stem: load(path) for path in args.compare}
    if not 1 < len(documents) == len(args.compare):
        raise Misuse("--compare needs at least two reports of this program with different file names")
    for path, one in zip(args.compare, documents.values()):
        try:
            compare({path.stem: {**one, "inventory": {**one["inventory"]}}}, load(args.limits)["of_median"])
        except BROKEN as problem:
            raise Misuse(f"{path}, or {args.limits}: not a whole report ({problem!r})") from None
    rows = compare(documents, load(args.limits)["of_median"])
    lines = [f"{len(documents)} nodes, {len(rows)} differences\n\n| what | usual | nodes that differ |\n|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['what']} | {row['usual']} | {'; '.join(f'{n}: {v}' for n, v in row['odd'].items())} |")
    print(json.dumps({"nodes": sorted(documents), "differences": rows}) if args.json else "\n".join(lines))
    return 1 if rows else 0


def main_node(args: argparse.Namespace) -> int:
    """Report on one node; 1 if it failed. Raises Misuse, OSError."""
    if args.source:
        found = (document := load(args.source)).get("inventory", document)
    else:
        command = [sys.executable, locate(HERE / "node_inventory.py"), "--json", "--root", args.root]
        _, found = wait("node", start(command + ["--anonymous"] * args.anonymous, {}))
        if "failed" in found:
            raise Misuse(f"node_inventory.py: {found['failed']}")
    if not {"host", "gpus", "nics", "pcie", "kernel_log"} <= set(found):
        raise Misuse(f"{args.source} is neither an inventory of node_inventory.py nor a report of this program")
    try:
        chip = chip_of(found["gpus"], load(args.limits), args.chip)
        markdown(report(found, [], judge(found, [], chip, {}, None), chip, {}))
    except BROKEN as problem:
        raise Misuse(f"{args.source or 'inventory'}, or {args.limits}: not a whole document ({problem!r})") from None
    results = [(path.stem, load(path)) for path in args.results] + run(args.run, found["gpus"], args)
    taken: list[dict] = []
    for subject, result in results:
        try:
            taken += measured(subject, result, len(found["gpus"]))
        except BROKEN as problem:
            raise Misuse(f"{subject}: not a whole result of a program of the book ({problem!r})") from None
    given = {"subject": "node", "from": "given", "wrong": ""}
    taken += [{**given, "name": name, "value": value, "unit": unit(name)} for name, value in args.measured]
    own = dict(args.limit)
    document = report(found, taken, judge(found, taken, chip, own, args.gpus), chip, own)
    try:
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]", "_", found["host"]["hostname"] or "node")
            (args.out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
            (args.out / f"{name}.md").write_text(markdown(document) + "\n", encoding="utf-8")
    finally:  # also where --out cannot be written
        print(json.dumps(document) if args.json else markdown(document), flush=True)
    return 1 if document["verdict"] == "fail" or (args.complete and document["verdict"] != "pass") else 0


def main() -> int:
    """Run the command line; returns the exit code."""
    args = (parser := build_parser()).parse_args()
    if not set(args.run) <= set(PROGRAMS):
        parser.error(f"--run knows {', '.join(PROGRAMS)}, not {', '.join(set(args.run) - set(PROGRAMS))}")
    if args.run and (args.source or args.compare):
        parser.error("--run loads this node: not with --from or --compare")
    if "checkpoint" in args.run and not args.checkpoint_dir:
        parser.error("--run checkpoint writes files: say where with --checkpoint-dir")
    if args.run and not args.yes:
        parser.error(f"--run {','.join(args.run)} loads this node for minutes: add --yes when it is free")
    try:
        return main_compare(args) if args.compare else main_node(args)
    except (Misuse, OSError) as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
