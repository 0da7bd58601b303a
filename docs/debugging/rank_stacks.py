#!/usr/bin/env python3
"""Find the training ranks on this node, dump their stacks, and group ranks that stand in the same place.

    rank_stacks.py list                    ranks on this node: state, CPU use, whether SIGUSR1 is handled
    rank_stacks.py dump --out DIR          py-spy dump of each rank into DIR/HOST-rankN.txt
    rank_stacks.py signal --yes            SIGUSR1 to each rank that handles it (faulthandler prints stacks)
    rank_stacks.py group DIR/*.txt         ranks by stack, the smallest group first

A rank is a process with RANK in its environment whose parent is not the same rank, which leaves out
data loader workers. Under srun without torchrun, SLURM_PROCID counts too. Linux; `group` runs anywhere.
Exit codes: 0 fine, 1 nothing found or a dump failed, 2 misuse.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
PYSPY_FRAME = re.compile(r"^ +(\S.*) \(([^()]+):(\d+)\)(?: \(.*\))?$")
FAULTHANDLER_FRAME = re.compile(r'^ *File "(.+)", line (\d+) in (\S+)$')
USR1_BIT = 1 << (signal.SIGUSR1 - 1) if hasattr(signal, "SIGUSR1") else 0
STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in the kernel, uninterruptible",
    "Z": "dead, not reaped",
    "T": "stopped",
}


def read_process(pid, proc=Path("/proc")):
    """Rank, parent, state, CPU seconds and signal mask of a process; None if it is no rank or is gone."""
    try:
        environ = (proc / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
        status = dict(line.split(":", 1) for line in (proc / str(pid) / "status").read_text().splitlines())
        command = (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        stat = (proc / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, ValueError):
        return None
    names = dict(item.split("=", 1) for item in environ if "=" in item)
    source = next((name for name in RANK_NAMES if names.get(name, "").isdigit()), None)
    if source is None or "python" not in command:
        return None
    return {
        "pid": pid,
        "parent": int(status["PPid"]),
        "rank": int(names[source]),
        "source": source,
        "has_local_rank": "LOCAL_RANK" in names,
        "state": status["State"].split()[0],
        "cpu_s": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        "handles_usr1": bool(int(status["SigCgt"], 16) & USR1_BIT),
        "command": command,
    }


def find_ranks(proc=Path("/proc")):
    """All ranks on this node, by rank; a child of the same rank is a helper process and is left out."""
    own = str(os.getpid())  # under srun this program has a SLURM_PROCID, too
    found = [read_process(int(e.name), proc) for e in proc.iterdir() if e.name.isdigit() and e.name != own]
    sources = {process["source"] for process in found if process}
    best = next((name for name in RANK_NAMES if name in sources), None)  # torchrun itself has SLURM_PROCID only
    ranks = {process["pid"]: process for process in found if process and process["source"] == best}
    parents = {process["parent"] for process in ranks.values() if process["has_local_rank"]}
    for pid in [pid for pid in parents if pid in ranks and not ranks[pid]["has_local_rank"]]:
        del ranks[pid]  # a torchrun agent in a pod whose RANK counts the pods
    tops = [p for p in ranks.values() if ranks.get(p["parent"], {}).get("rank") != p["rank"]]
    if not tops:
        print("no rank found: run this on the job's node, in its container, as its user or root", file=sys.stderr)
    return sorted(tops, key=lambda process: (process["rank"], process["pid"]))


def add_cpu_use(ranks, seconds):
    """Share of one core each rank used over `seconds`: about 1 in a busy loop, 0 when it sleeps."""
    before = {process["pid"]: process["cpu_s"] for process in ranks}
    time.sleep(seconds)
    for process in ranks:
        now = read_process(process["pid"])
        process["cores"] = round((now["cpu_s"] - before[process["pid"]]) / seconds, 2) if now else None


def command_list(args):
    ranks = find_ranks()
    add_cpu_use(ranks, args.seconds)
    if args.json:
        print(json.dumps(ranks, indent=2))
    else:
        print("rank  pid      cores  SIGUSR1    state")
        for p in ranks:
            handled = "handled" if p["handles_usr1"] else "would kill"
            state = STATES.get(p["state"], p["state"])
            cores = "gone" if p["cores"] is None else f"{p['cores']:.2f}"
            print(f"{p['rank']:4}  {p['pid']:<7}  {cores:>5}  {handled:9}  {state}")
    return 0 if ranks else 1


def run_pyspy(command, seconds=60):
    """Exit status and text of one py-spy dump; a rank in state D can hold py-spy for ever."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return 1, f"no answer from py-spy within {seconds} s: read /proc/PID/wchan and /proc/PID/stack as root"
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr.strip()


def command_dump(args):
    program = shutil.which("py-spy")
    if program is None:
        print("py-spy is missing: pip install py-spy (any environment on this node will do)", file=sys.stderr)
        return 2
    failed = 0
    ranks = find_ranks()
    args.out.mkdir(parents=True, exist_ok=True)
    for p in ranks:
        command = [program, "dump", "--pid", str(p["pid"])] + (["--native"] if args.native else [])
        status, text = run_pyspy(command)
        target = args.out / f"{socket.gethostname()}-rank{p['rank']}.txt"
        target.write_text(text)
        failed += status != 0
        print(f"rank {p['rank']}: {target if status == 0 else text}")
    return 0 if ranks and not failed else 1


def command_signal(args):
    ranks = find_ranks()
    for p in ranks:
        if not p["handles_usr1"]:
            print(f"rank {p['rank']} pid {p['pid']}: left alone, SIGUSR1 would kill it (no handler)")
        elif args.yes:
            try:
                os.kill(p["pid"], signal.SIGUSR1)
                print(f"rank {p['rank']} pid {p['pid']}: sent SIGUSR1, look at its standard error")
            except OSError as error:
                print(f"rank {p['rank']} pid {p['pid']}: not sent: {error.strerror}")
        else:
            print(f"rank {p['rank']} pid {p['pid']}: would send SIGUSR1 (say --yes)")
    return 0 if ranks else 1


def main_stack(text):
    """Frames of the main thread, newest first, as `file:line function`, from py-spy or faulthandler text."""
    frames, in_main = [], False
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            in_main = "MainThread" in line or line.startswith("Current thread")
            if in_main:
                frames = []
            continue
        spy, fault = PYSPY_FRAME.match(line), FAULTHANDLER_FRAME.match(line)
        if in_main and (spy or fault):
            path, number, name = (spy[2], spy[3], spy[1]) if spy else (fault[1], fault[2], fault[3])
            frames.append(f"{Path(path).name}:{number} {name.rsplit('.', 1)[-1]}")
    return tuple(frames)


def command_group(args):
    groups = defaultdict(list)
    for path in args.files:
        numbers = re.findall(r"rank[-_]?(\d+)", path.name)  # the last: a host may be called frank07
        groups[main_stack(path.read_text(errors="replace"))].append(int(numbers[-1]) if numbers else path.name)
    ordered = sorted(groups.items(), key=lambda item: len(item[1]))
    if args.json:
        print(json.dumps([{"ranks": members, "stack": stack} for stack, members in ordered], indent=2))
        return 0
    for stack, members in ordered:
        members.sort(key=lambda member: (isinstance(member, str), member))  # ranks, then file names
        shown = " ".join(map(str, members[:32])) + (" ..." if len(members) > 32 else "")
        print(f"--- {len(members)} of {len(args.files)} ranks: {shown} ---")
        print("\n".join(f"  {frame}" for frame in stack) or "  no Python stack in the file")
    return 0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="ranks on this node")
    listing.add_argument("--seconds", type=float, default=1.0, help="how long to measure CPU use (default 1)")
    listing.add_argument("--json", action="store_true")
    dump = commands.add_parser("dump", help="py-spy dump of each rank")
    dump.add_argument("--out", type=Path, default=Path("stacks"), help="folder for the dumps (default stacks)")
    dump.add_argument("--native", action="store_true", help="C and C++ frames too")
    send = commands.add_parser("signal", help="SIGUSR1 to the ranks that handle it")
    send.add_argument("--yes", action="store_true", help="send it; without, only say what would be done")
    group = commands.add_parser("group", help="group dumps by the main thread's stack")
    group.add_argument("files", type=Path, nargs="+")
    group.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.command != "group" and not Path("/proc/self/environ").exists():
        parser.error("this needs Linux's /proc: run it on the node where the ranks run")
    if args.command == "group":
        missing = [str(path) for path in args.files if not path.is_file()]
        if missing:
            parser.error(f"no such file: {missing[0]}")
    if args.command == "list" and not 0 < args.seconds <= 3600:
        parser.error("--seconds must be above 0 and at most 3600")
    table = {"list": command_list, "dump": command_dump, "signal": command_signal, "group": command_group}
    try:
        return table[args.command](args)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
