#!/usr/bin/env python3
"""Bind each rank of a node to the CPUs and memory next to its GPU, and check that running ranks are bound.

    python3 rank_binding.py                               the plan: rank → GPU, NUMA node, CPUs, network card
    torchrun --no-python --nproc-per-node=8 python3 rank_binding.py exec -- python3 train.py
    srun --cpu-bind=none python3 rank_binding.py exec -- python3 train.py
    python3 rank_binding.py check                         are the ranks that run here bound?
    python3 rank_binding.py record >node.json             keep the topology; --from node.json uses it elsewhere

Reads /sys (NUMA nodes, cores, PCI tree), nvidia-smi where present, and for `check` /proc. Standard library only.
`exec` replaces itself by the command: CPUs by sched_setaffinity, memory by set_mempolicy, as numactl does.
Exit codes: 0 fine; 1 findings (no CPU near the GPU, a rank not bound); 2 misuse. `exec` ends with the command's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

GPU_CLASSES = {"0x10de": ("0x0302", "0x0300"), "0x1002": ("0x0380", "0x1200", "0x0302")}  # vendor → PCI classes
RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
VISIBLE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # system call numbers: arch/*/…/syscall tables of Linux
POLICIES = {"preferred": 1, "bind": 2}  # MPOL_PREFERRED, MPOL_BIND: include/uapi/linux/mempolicy.h


def read(path: Path) -> str:
    """Contents of a small file without surrounding space; "" where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def cpus_of(text: str) -> set[int]:
    """{0, 1, 2, 8} of `0-2,8`. Raises ValueError on anything else."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def text_of(cpus: set[int]) -> str:
    """`0-2,8` of {0, 1, 2, 8}."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def topology(sys_: Path) -> dict:
    """NUMA nodes with their cores, GPUs in PCI order, and network cards of this machine, from /sys."""
    nodes = []
    for folder in sorted((sys_ / "devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = cpus_of(read(folder / "cpulist"))
        siblings = [
            read(sys_ / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in cpus
        ]
        cores = sorted(set(siblings), key=lambda core: min(cpus_of(core)))
        nodes.append({"node": int(folder.name[4:]), "cpus": text_of(cpus), "cores": cores})
    gpus, nics = [], []
    for device in sorted((sys_ / "bus/pci/devices").glob("*")):
        if read(device / "class")[:6] in GPU_CLASSES.get(read(device / "vendor"), ()):
            gpus.append({**place(device), "index": len(gpus)})
        elif (device / "infiniband").is_dir():
            nics.append({**place(device), "name": next((device / "infiniband").iterdir()).name})
    return {"numa": nodes, "gpus": names_from_driver(gpus) if sys_ == Path("/sys") else gpus, "nics": nics}


def place(device: Path) -> dict:
    """PCI address, the addresses of the bridges above it, NUMA node (-1: the firmware does not say)."""
    above = [part for part in device.resolve().parts if re.fullmatch(r"pci[0-9a-f:]+|[0-9a-f]+:[0-9a-f:.]+", part)]
    return {"bus": device.name, "above": above[:-1], "numa": int(read(device / "numa_node") or -1)}


def names_from_driver(gpus: list[dict]) -> list[dict]:
    """Index and UUID as nvidia-smi gives them; GPUs that a container hides are left out."""
    query = ["nvidia-smi", "--query-gpu=index,pci.bus_id,uuid", "--format=csv,noheader"]
    try:
        rows = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return gpus
    known = {gpu["bus"]: gpu for gpu in gpus}
    named = []
    for index, bus, uuid in (row.split(", ") for row in rows if row.count(", ") == 2):
        address = bus.lower()[4:] if len(bus) > 12 else bus.lower()  # nvidia-smi writes the domain with 8 digits
        named.append(
            {**known.get(address, {"bus": address, "above": [], "numa": -1}), "index": int(index), "uuid": uuid}
        )
    return named


def visible(gpus: list[dict], environment: dict) -> list[dict]:
    """The GPUs that a process sees, in its order. Raises ValueError when it names one that is not here."""
    wanted = next((environment[name] for name in VISIBLE_VARIABLES if environment.get(name)), "")
    if not wanted:
        return gpus
    chosen = []
    for item in wanted.split(","):
        matches = [
            gpu for gpu in gpus if str(gpu["index"]) == item or (len(item) > 4 and gpu.get("uuid", "").startswith(item))
        ]
        if not matches:
            raise ValueError(f"GPU {item} of the visible devices is not on this node (MIG slices are not supported)")
        chosen.append(matches[0])
    return chosen


def plan(found: dict, gpus: list[dict], allowed: set[int], share: str) -> list[dict]:
    """One row a rank. `exclusive` divides the cores of a NUMA node among the GPUs on it; `node` shares them."""
    nodes = {node["node"]: node for node in found["numa"]}
    cards: dict[str, int] = {}
    rows = []
    for rank, gpu in enumerate(gpus):
        numa = gpu["numa"] if gpu["numa"] in nodes else (next(iter(nodes)) if len(nodes) == 1 else None)
        near = (
            cpus_of(nodes[numa]["cpus"])
            if numa is not None
            else set().union(*(cpus_of(n["cpus"]) for n in nodes.values()))
        )
        usable, problem = near & allowed, None
        if numa is None:
            problem = "NUMA node of the GPU unknown: not bound"
        elif not usable:
            usable, problem = set(allowed), f"none of the allowed CPUs is on NUMA node {numa}: not bound"
        elif share == "exclusive":
            usable, problem = part_of(nodes[numa], usable, gpu, [g for g in gpus if g["numa"] == gpu["numa"]])
        nic = nearest(gpu, found["nics"], cards)
        row = {"rank": rank, "gpu": gpu["index"], "bus": gpu["bus"], "numa": numa, "cpus": text_of(usable)}
        rows.append({**row, "nic": nic[0], "nic_distance": nic[1], "problem": problem})
    return rows


def part_of(node: dict, usable: set[int], gpu: dict, sharers: list[dict]) -> tuple[set[int], str | None]:
    """This GPU's share of a node's cores, whole cores with all their threads; the node where there are too few."""
    cores = [core for core in (cpus_of(text) & usable for text in node["cores"]) if core]
    if len(cores) < len(sharers):
        return usable, f"{len(cores)} cores for {len(sharers)} GPUs: shared"
    position, size = sharers.index(gpu), len(sharers)
    part = cores[position * len(cores) // size : (position + 1) * len(cores) // size]
    return set().union(*part), None


def nearest(gpu: dict, nics: list[dict], used: dict[str, int]) -> tuple[str | None, str | None]:
    """The card with most PCI bridges in common, of equal ones the least used; and how near it is."""
    if not nics:
        return None, None

    def common(nic: dict) -> int:
        pairs = list(zip(gpu["above"], nic["above"]))
        return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))

    def near(nic: dict) -> tuple:
        return common(nic), nic["numa"] == gpu["numa"], -used.get(nic["name"], 0)

    best = max(nics, key=near)
    used[best["name"]] = used.get(best["name"], 0) + 1
    # above[0] is the root complex, above[1] its port: below a common port there is a common switch
    far = "same NUMA node" if best["numa"] == gpu["numa"] and gpu["numa"] >= 0 else "other NUMA node"
    return best["name"], "same switch" if common(best) > 1 else far


def set_memory(policy: str, node: int) -> str | None:
    """Memory policy of this process and of what it executes; returns why it could not be set."""
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return f"no system call number for {platform.machine()}"
    words = node // 64 + 1
    mask = (ctypes.c_uint64 * words)()
    mask[node // 64] = 1 << (node % 64)
    libc = ctypes.CDLL(None, use_errno=True)
    # maxnode counts one more than the bits that Linux reads
    result = libc.syscall(ctypes.c_long(number), ctypes.c_int(POLICIES[policy]), mask, ctypes.c_ulong(64 * words + 1))
    return None if result == 0 else os.strerror(ctypes.get_errno())


def local_rank(environment: dict) -> int | None:
    """This process's number on its node, by the first launcher's variable that is set."""
    return next((int(environment[name]) for name in RANK_VARIABLES if environment.get(name, "").isdigit()), None)


def execute(args: argparse.Namespace, found: dict, allowed: set[int]) -> int:
    """Bind and become the command. Binding that fails is said and never stops a job."""
    rank = local_rank(dict(os.environ))
    if rank is None:
        raise ValueError(f"none of {', '.join(RANK_VARIABLES)} is set: start this with torchrun, srun or mpirun")
    gpus = visible(found["gpus"], dict(os.environ))
    rows = plan(found, gpus, allowed, args.share)
    # with one GPU a task (srun --gpus-per-task=1) every rank sees its own as the first
    row = rows[rank] if rank < len(rows) else rows[0] if len(rows) == 1 else None
    if row is None:
        raise ValueError(f"local rank {rank}, but {len(rows)} GPUs")
    said = [row["problem"]] if row["problem"] else []
    try:
        os.sched_setaffinity(0, cpus_of(row["cpus"]))
    except OSError as error:
        said.append(f"CPUs not bound: {error.strerror}")
    if args.memory != "none" and row["numa"] is not None and not (row["problem"] or "").endswith("not bound"):
        failed = set_memory(args.memory, row["numa"])
        said += [f"memory policy not set: {failed}"] if failed else []
    if not args.quiet:
        line = (
            f"rank_binding: local rank {rank} gpu {row['gpu']} numa {row['numa']} cpus {row['cpus']} nic {row['nic']}"
        )
        print("; ".join([line, *said]), file=sys.stderr, flush=True)
    os.execvp(args.command[0], args.command)


def ranks_running() -> dict[int, dict]:
    """Process id → environment of the processes that a launcher started and whose environment may be read."""
    environments = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pairs = (item.partition("=") for item in read(folder / "environ").split("\0"))
        environment = {key: value for key, _, value in pairs}
        if local_rank(environment) is not None:
            environments[int(folder.name)] = environment
    # torchrun under srun has SLURM_LOCALID itself: where there are LOCAL_RANKs, only they are ranks
    own = {pid: environment for pid, environment in environments.items() if environment.get("LOCAL_RANK")}
    return {pid: env for pid, env in (own or environments).items() if pid != os.getpid()}


def check(found: dict, processes: dict[int, dict]) -> list[dict]:
    """One row a process: CPUs of all its threads, where its memory lies, and what is wrong."""
    nodes = {node["node"]: cpus_of(node["cpus"]) for node in found["numa"]}
    rows = []
    for pid, environment in sorted(processes.items()):
        status = [read(path) for path in Path(f"/proc/{pid}/task").glob("*/status")]
        lists = [cpus_of(m[1]) for m in (re.search(r"^Cpus_allowed_list:\s*(\S+)", s, re.M) for s in status) if m]
        if not lists:
            continue  # ended meanwhile
        rank, cpus = local_rank(environment), set().union(*lists)
        row = {"pid": pid, "rank": rank, "command": read(Path(f"/proc/{pid}/comm")), "threads": len(lists)}
        row.update(cpus=text_of(cpus), nodes=[n for n, own in nodes.items() if own & cpus], gpu_numa=None, problem=None)
        row["memory_mib"] = memory_of(read(Path(f"/proc/{pid}/numa_maps")))
        try:
            gpus = visible(found["gpus"], environment)
        except ValueError:
            gpus = []
        if gpus and rank is not None:
            row["gpu_numa"] = gpus[rank]["numa"] if rank < len(gpus) else gpus[0]["numa"] if len(gpus) == 1 else None
        rows.append({**row, "problem": verdict(row, len(nodes), len(cpus))})
    for row in rows:
        twins = [other for other in rows if other["cpus"] == row["cpus"] and other["rank"] != row["rank"]]
        if twins and row["problem"] is None and len(cpus_of(row["cpus"])) == 1:
            row["problem"] = f"one CPU, shared with rank {twins[0]['rank']}"
    return rows


def verdict(row: dict, nodes: int, cpus: int) -> str | None:
    """What is wrong with where a process may run."""
    if row["gpu_numa"] is not None and row["gpu_numa"] >= 0 and row["gpu_numa"] not in row["nodes"]:
        return f"wrong NUMA node: GPU on {row['gpu_numa']}"
    if nodes > 1 and len(row["nodes"]) > 1:
        return f"not bound: may run on {len(row['nodes'])} NUMA nodes"
    return "one CPU for several threads" if cpus == 1 and row["threads"] > 1 else None


def memory_of(maps: str) -> dict[str, int]:
    """MiB on each NUMA node, from /proc/PID/numa_maps."""
    totals: dict[str, int] = {}
    for line in maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            totals[node] = totals.get(node, 0) + int(pages) * int(size[1] if size else 4)
    return {node: kib // 1024 for node, kib in sorted(totals.items())}


def table(rows: list[dict], columns: list[str]) -> str:
    """Rows as text in columns."""
    cells = [columns] + [
        ["-" if row[column] in (None, "", [], {}) else shown(row[column]) for column in columns] for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def shown(value: object) -> str:
    """A cell: lists and amounts a node without brackets."""
    if isinstance(value, dict):
        return " ".join(f"N{key}:{amount}" for key, amount in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """The parser, for its error message, and what it read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("mode", nargs="?", default="plan", choices=["plan", "exec", "check", "record"])
    option("rest", nargs="*", metavar="COMMAND or PID", help="after `exec --` the command; after `check` process ids")
    option(
        "--share",
        default="exclusive",
        choices=["exclusive", "node"],
        help="divide a node's cores among its ranks, or share",
    )
    option(
        "--memory",
        default="preferred",
        choices=["preferred", "bind", "none"],
        help="of exec; bind fails when the node is full",
    )
    option(
        "--from", dest="recorded", type=Path, metavar="FILE", help="topology from `record` instead of this machine's"
    )
    option("--sysfs", type=Path, default=Path("/sys"), help="another /sys, such as /host/sys in a container")
    option("--quiet", action="store_true", help="exec prints no line")
    option("--json", action="store_true", help="one JSON document on standard output")
    own, command = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    args = parser.parse_intermixed_args(own)
    args.command = command
    if args.mode == "exec" and (not command or args.rest):
        parser.error("exec needs a command after --: rank_binding.py exec -- python3 train.py")
    if (args.mode in ("plan", "record") and (args.rest or command)) or (args.mode == "check" and command):
        parser.error(f"{args.mode} takes no command")
    return parser, args


def main() -> int:
    parser, args = arguments()
    try:
        found = json.loads(args.recorded.read_text()) if args.recorded else topology(args.sysfs)
        if not found["numa"]:
            raise ValueError("no NUMA node found")
        every = set().union(*(cpus_of(node["cpus"]) for node in found["numa"]))
        here = args.recorded is None or args.mode == "exec"
        allowed = os.sched_getaffinity(0) & every if here and args.sysfs == Path("/sys") else every
        if args.mode == "exec":
            return execute(args, found, allowed)
        if args.mode == "check":
            wanted = {int(pid) for pid in args.rest}
            processes = {pid: env for pid, env in ranks_running().items() if not wanted or pid in wanted}
            missing = wanted - set(processes)
            if missing:
                raise ValueError(
                    f"process {min(missing)}: not there, not readable, or without a rank in its environment"
                )
            rows = check(found, processes)
        else:
            rows = plan(found, visible(found["gpus"], dict(os.environ) if here else {}), allowed, args.share)
    except OSError as error:
        parser.error(f"{error.filename or ' '.join(args.command[:1])}: {error.strerror}")
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"{args.recorded or args.sysfs}: not a topology as `record` writes it ({error})")
    except ValueError as error:
        parser.error(str(error))
    if args.mode == "record":
        print(json.dumps(found, indent=1))
        return 0
    problems = any(row["problem"] for row in rows)
    if args.json:
        print(json.dumps({"program": "rank_binding", "mode": args.mode, "ranks": rows}, indent=1))
    elif not rows:
        print(
            "no GPU found"
            if args.mode == "plan"
            else "no rank runs here, or their environment may not be read (root may)"
        )
    else:
        columns = ["rank", "gpu", "bus", "numa", "cpus", "nic", "nic_distance", "problem"]
        if args.mode == "check":
            columns = ["rank", "pid", "command", "threads", "cpus", "nodes", "gpu_numa", "memory_mib", "problem"]
        print(table(rows, columns))
    return 1 if problems else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
