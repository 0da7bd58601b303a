#!/usr/bin/env python3
"""Find the bad nodes of a list by halves: run a test on groups of nodes, keep what passes, split what fails.

    bad_node_search.py --nodes 'node[01-64]' --simulate node23        watch the search, nothing is run
    bad_node_search.py --nodes 'node[01-64]' --timeout 120 --yes \\
        --command 'srun -N {count} -w {nodes} --ntasks-per-node=8 ./all_gather_perf -b 1G -e 1G -c 1'

The command gets {nodes} (comma-separated), {count}, {first} (the first node) and {port} (another one for each
test) put in, and runs without a shell and without the number of tasks of the Slurm job around it. It must exit
with 0 if these nodes are good together; anything else, or no end within --timeout, is a failure. Groups below
--min-size (2: a node alone uses no network) are tested with nodes that passed before. Without --yes nothing is
run: the plan is printed.

Exit codes: 0 all nodes passed together, 1 a bad node or pair was found, 2 misuse.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

Group = tuple  # of node names, in the order given
GRACE_S = 15  # srun needs seconds to end its remote tasks after SIGTERM
MOST_NODES = 100_000
PORTS = (20000, 10000)  # first and how many: above the well-known, below Linux' ephemeral ones


class CannotRun(Exception):
    """The command is no program; testing on would call every node bad."""


def expand(text: str) -> list[str]:
    """'a[1-3,07],b' -> names; leading zeros are kept, several brackets multiply. Raises ValueError."""
    names: list[str] = []
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text)):
        raise ValueError(f"a bracket is open or nested in {text[:60]!r}")
    for part in re.findall(r"(?:[^,\[\]\s]|\[[^\]]*\])+", text):
        bracket = re.search(r"\[([^\]]*)\]", part)
        if not bracket:
            names.append(part)
            continue
        head, tail = part[: bracket.start()], part[bracket.end() :]
        for item in bracket[1].split(","):
            span = re.fullmatch(r"(\d+)(?:-(\d+))?", item)
            if not span or int(span[2] or span[1]) < int(span[1]):
                raise ValueError(f"{item!r} in {part!r} is not a number or a range such as 01-16")
            if int(span[2] or span[1]) - int(span[1]) >= MOST_NODES:
                raise ValueError(f"{item!r} in {part!r} has more than {MOST_NODES} nodes")
            for number in range(int(span[1]), int(span[2] or span[1]) + 1):
                names += expand(f"{head}{number:0{len(span[1])}d}{tail}")
    return names


def read_nodes(text: str) -> list[str]:
    """Names from a list such as 'node[1-8]', from '@file' or from '-' (standard input); doubles are dropped."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    return list(dict.fromkeys(expand(text)))


class Tester:
    """Runs the test on groups and remembers each result as a dict for the report."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.log: list[dict] = []
        self.running: set[subprocess.Popen] = set()
        self.stopping = False
        self.failing = [frozenset(expand(item.replace("+", ","))) for item in args.simulate or []]

    def one(self, group: Group, number: int) -> tuple[str, str]:
        """('pass' | 'fail' | 'timeout', last line of output) of one run. Raises CannotRun."""
        if self.args.simulate is not None:
            guilty = [bad for bad in self.failing if bad <= set(group)]
            return ("fail" if guilty else "pass"), ""
        port = PORTS[0] + number % PORTS[1]
        values = {"nodes": ",".join(group), "count": len(group), "first": group[0], "port": port}
        words = [fill(word, values) for word in shlex.split(self.args.command)]
        # else a step of a few nodes would start as many tasks as the whole job has
        environment = {name: text for name, text in os.environ.items() if name not in ("SLURM_NTASKS", "SLURM_NPROCS")}
        try:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # so that a test's own children can be ended with it
            )
        except OSError as error:
            raise CannotRun(f"{words[0]}: {error.strerror}") from error
        self.running.add(process)
        try:
            output, verdict = process.communicate(timeout=self.args.timeout)[0], None
        except subprocess.TimeoutExpired:
            output, verdict = end(process), "timeout"
        self.running.discard(process)
        if self.args.logs:
            (self.args.logs / f"test-{number:04d}.txt").write_text(
                f"# {shlex.join(words)}\n{output}", encoding="utf-8", errors="replace"
            )
        last = (output.strip().splitlines() or [""])[-1]
        return verdict or ("fail" if process.returncode else "pass"), last

    def run(self, groups: list[Group], stage: str) -> list[bool]:
        """True for each group that passed all --repeat runs; disjoint groups side by side with --jobs."""
        start = len(self.log)
        self.log += [{"stage": stage, "nodes": list(group)} for group in groups]

        def judge(index: int) -> bool:
            row, began = self.log[start + index], time.monotonic()
            for turn in range(self.args.repeat):
                if self.stopping:
                    return False
                row["verdict"], row["last_line"] = self.one(groups[index], (start + index) * self.args.repeat + turn)
                if row["verdict"] != "pass":
                    break
            row["seconds"] = round(time.monotonic() - began, 1)
            if not self.args.json and not self.stopping:
                print(show_row(row), flush=True)
            return row["verdict"] == "pass"

        pool = ThreadPoolExecutor(self.args.jobs)
        try:
            return list(pool.map(judge, range(len(groups))))
        except BaseException:  # Ctrl-C above all: a test in its own session does not get it
            self.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """End the tests that run and start no more; their threads collect the output."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + GRACE_S
            for process in list(self.running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            while self.running and time.monotonic() < deadline:
                time.sleep(0.05)


def end(process: subprocess.Popen) -> str:
    """SIGTERM to the test and its children, after GRACE_S SIGKILL; gives what it had printed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=GRACE_S)[0]
    return ""


def fill(word: str, values: dict) -> str:
    """Put the values in; other braces (awk, JSON) stay as they are."""
    return re.sub(r"\{(nodes|count|first|port)\}", lambda match: str(values[match[1]]), word)


def short(nodes: list[str] | Group) -> str:
    return ",".join(nodes) if len(nodes) <= 6 else f"{nodes[0]} … {nodes[-1]}"


def show_row(row: dict) -> str:
    tail = f"  {row['last_line'][:60]}" if row["verdict"] != "pass" and row["last_line"] else ""
    return f"{row['stage']:<9}{len(row['nodes']):>5} nodes  {row['verdict']:<8}{short(row['nodes'])}{tail}"


def halves(group: Group) -> tuple[Group, Group]:
    middle = len(group) // 2
    return group[:middle], group[middle:]


def search(nodes: list[str], tester: Tester) -> dict:
    """Bad nodes, pairs of groups that fail only together, and suspects that no good node could judge."""
    least = tester.args.min_size
    result: dict = {"bad": [], "only_together": [], "undecided": []}
    good: list[str] = []
    leaves: list[Group] = []
    level = [tuple(nodes)]
    if tester.run(level, "all")[0]:
        return result
    while level:
        splittable = [group for group in level if len(group) >= 2 * least]
        leaves += [group for group in level if len(group) < 2 * least]
        parts = [half for group in splittable for half in halves(group)]
        passed = dict(zip(parts, tester.run(parts, "half")))
        level = [part for part in parts if not passed[part]]
        good += [node for part in parts if passed[part] for node in part]
        for group in splittable:
            if all(passed[half] for half in halves(group)):
                result["only_together"].append([list(half) for half in halves(group)])
    for leaf in leaves:
        judge_leaf(leaf, good, least, tester, result)
    return result


def judge_leaf(leaf: Group, good: list[str], least: int, tester: Tester, result: dict) -> None:
    """Test each node of a small failing group with nodes that passed."""
    if len(leaf) == 1:  # --min-size 1: it failed alone
        result["bad"] += leaf
        return
    partners = good[: least - 1]
    if len(partners) < least - 1:
        result["undecided"] += leaf
        return
    passed = [tester.run([(node, *partners)], "partner")[0] for node in leaf]  # one by one: they share partners
    result["bad"] += [node for node, fine in zip(leaf, passed) if not fine]
    if all(passed):
        result["only_together"].append([[node] for node in leaf])


def report(result: dict, nodes: list[str], tester: Tester) -> None:
    """What was found, in words."""
    tests, simulated = len(tester.log), " (simulated)" if tester.args.simulate is not None else ""
    print(f"{tests} tests of {len(nodes)} nodes{simulated}")
    for node in result["bad"]:
        print(f"BAD {node}")
    for parts in result["only_together"]:
        print("ONLY TOGETHER " + "  |  ".join(short(part) for part in parts))
        print("  each part passes, all of it fails: look at what lies between (uplinks, routing, subnet, size limits)")
    if result["undecided"]:
        print(f"UNDECIDED {short(result['undecided'])}: no group passed, so there is nothing good to test them with")
        print("  if every group fails, doubt the test first: run it by hand on two nodes that work")
    if not any(result.values()):
        print("all nodes pass together")


def plan(nodes: list[str], args: argparse.Namespace) -> int:
    """Say what would be run: the first command and how many tests to expect."""
    first = {"nodes": ",".join(nodes), "count": len(nodes), "first": nodes[0], "port": PORTS[0]}
    command = shlex.join([fill(word, first) for word in shlex.split(args.command)])
    rounds = max(math.ceil(math.log2(len(nodes) / args.min_size)), 0)
    last = 0 if args.min_size == 1 else 2 * args.min_size - 1
    expected = 1 + 2 * rounds + last
    seconds = expected * args.repeat * args.timeout
    if args.json:
        print(json.dumps({"plan": True, "nodes": nodes, "first_command": command, "tests_for_one_bad_node": expected}))
        return 0
    print(f"first test, {len(nodes)} nodes: {command}")
    print(f"one bad node: at most about {expected} tests, {seconds / 60:.0f} minutes if each took its --timeout")
    print("nothing was run; add --yes (it loads these nodes), or --simulate NODE to watch a search")
    return 0


def whole(low: int, high: int):
    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,6}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def parse(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", required=True, help="node[01-16,20],other1; @file; - for standard input")
    parser.add_argument(
        "--command", default="", help="test with {nodes}, {count}, {first}, {port}; exit code 0 is good"
    )
    parser.add_argument("--timeout", type=whole(1, 86400), default=300, help="seconds for one test, default 300")
    parser.add_argument("--min-size", type=whole(1, 1000), default=2, help="smallest group that can be tested: 2")
    parser.add_argument("--repeat", type=whole(1, 100), default=1, help="runs of each group; one failure is enough")
    parser.add_argument("--jobs", type=whole(1, 256), default=1, help="groups tested at the same time, default 1")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="write the output of each test there")
    parser.add_argument("--simulate", action="append", metavar="NODE", help="pretend it is bad; A+B: only together")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, as without --yes")
    parser.add_argument("--yes", action="store_true", help="run the tests: they load the nodes")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args(argv)
    try:
        nodes = read_nodes(args.nodes)
        words = shlex.split(args.command)
        unknown = {name for item in args.simulate or [] for name in expand(item.replace("+", ","))} - set(nodes)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if len(nodes) < args.min_size:
        parser.error(f"{len(nodes)} nodes are fewer than --min-size {args.min_size}")
    if unknown:
        parser.error(f"--simulate names nodes that are not in --nodes: {', '.join(sorted(unknown))}")
    if args.simulate is None and not any("{nodes}" in word for word in words):
        parser.error("--command must contain {nodes}, or every group would run the same test")
    return args, nodes


def main() -> int:
    args, nodes = parse()
    if args.simulate is None and (args.dry_run or not args.yes):
        return plan(nodes, args)
    tester = Tester(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # scancel and timeout end the running tests, too
    try:
        if args.logs:
            args.logs.mkdir(parents=True, exist_ok=True)
        result = search(nodes, tester)
    except CannotRun as error:
        print(f"bad_node_search: cannot run {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"bad_node_search: --logs {args.logs}: {error.strerror}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({**result, "nodes": nodes, "simulated": args.simulate is not None, "tests": tester.log}))
    else:
        report(result, nodes, tester)
    return 1 if any(result.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
