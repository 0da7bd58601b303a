#!/usr/bin/env python3
"""Hang a small distributed job on purpose, and watch it the way a hung training job is watched.

The launcher starts local ranks (gloo, CPU). Each rank prints a heartbeat before everything that can
block. When no heartbeat arrives for --stall seconds, the launcher prints the last heartbeat of every
rank and sends SIGUSR1, on which faulthandler prints the Python stack of each. Then the collective
runs into its timeout. Under torchrun the same file acts as one rank:

    torchrun --nproc-per-node 4 hung_collective.py --fault branch

Needs PyTorch on Linux or macOS. Exit codes: 0 finished, 1 hung or failed, 2 misuse.
"""

import argparse
import atexit
import contextlib
import faulthandler
import importlib.util
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

STEPS = 6
FAULT_STEP = 3
NUMEL = 4096  # elements of the pretended gradient
FAULTS = {
    "branch": "rank 0 alone enters a collective (validation) while the others wait in a barrier",
    "mismatch": "rank 1 issues the same two collectives in the other order",
    "uneven": "the last rank has one batch less and leaves the loop early",
    "exception": "rank 1 raises, but a thread that is no daemon keeps its process alive",
    "loader": "rank 2 waits for a batch that its loader never delivers",
    "shapes": "rank 1 reduces a tensor of another size",
    "killed": "rank 1 is killed with SIGKILL, as the kernel's OOM killer does",
}
HEARTBEAT = re.compile(r"^rank (\d+) step (\d+) (\w+)$")
FRAME = re.compile(r'^ +File "(.+)", line (\d+) in (\S+)$')


# ---- what runs in every rank -------------------------------------------------------------------


class Rank:
    """One rank of the pretended training job; `fault` is None in a healthy or repaired one."""

    def __init__(self, fault, timeout):
        import datetime

        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.fault = torch, dist, fault
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.step = 0

    def has(self, fault, rank):
        """True when this rank must misbehave now."""
        return self.fault == fault and self.rank == rank and self.step == FAULT_STEP

    def heartbeat(self, phase):
        print(f"rank {self.rank} step {self.step} {phase}", flush=True)

    def next_batch(self):
        self.heartbeat("next_batch")
        if self.has("loader", 2):
            queue.Queue().get()  # no worker will ever put a batch here
        if self.has("exception", 1):
            threading.Thread(target=threading.Event().wait, name="prefetch").start()
            raise ValueError(f"bad sample at step {self.step}")
        if self.has("killed", 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.torch.full((NUMEL,), float(self.step))

    def reduce_gradients(self, gradient):
        self.heartbeat("reduce_gradients")
        if self.has("shapes", 1):
            gradient = gradient[: NUMEL // 2]
        self.dist.all_reduce(gradient)

    def sync_metrics(self):
        self.heartbeat("sync_metrics")
        metrics = [self.reduce_loss, self.gather_tokens]
        if self.has("mismatch", 1):
            metrics.reverse()  # in real code: a loop over a set, or over a dict filled differently
        for metric in metrics:
            metric()

    def reduce_loss(self):
        self.dist.all_reduce(self.torch.ones(1))

    def gather_tokens(self):
        tokens = [self.torch.empty(8) for _ in range(self.world)]
        self.dist.all_gather(tokens, self.torch.ones(8))

    def validate(self):
        self.heartbeat("validate")
        self.reduce_loss()

    def save_checkpoint(self):
        self.heartbeat("save_checkpoint")
        self.dist.barrier()

    def train(self):
        short = self.fault == "uneven" and self.rank == self.world - 1
        for self.step in range(FAULT_STEP if short else STEPS):
            gradient = self.next_batch()
            self.reduce_gradients(gradient)
            self.sync_metrics()
            if self.step == FAULT_STEP and (self.rank == 0 or self.fault != "branch"):
                self.validate()
            if self.step == FAULT_STEP:
                self.save_checkpoint()
        self.save_checkpoint()
        self.dist.destroy_process_group()


def run_rank(args):
    """Run this process as one rank; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # stacks on request, no ptrace needed
    rank = Rank(None if args.fix else args.fault, args.timeout)
    atexit.register(rank.heartbeat, "ended")  # from here on nothing handles SIGUSR1
    rank.train()
    return 0


# ---- what watches the ranks --------------------------------------------------------------------


class Watched:
    """A started rank: its process, what it printed, and its last heartbeat."""

    def __init__(self, command, env, on_line):
        self.lines, self.beat, self.beat_time = [], (-1, "starting"), time.monotonic()
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self.reader.start()

    def _read(self, on_line):
        for line in self.process.stdout:
            on_line(line.rstrip("\n"))
            match = HEARTBEAT.match(line)
            if match:
                self.beat, self.beat_time = (int(match[2]), match[3]), time.monotonic()
            else:
                self.lines.append(line.rstrip("\n"))

    def lives(self):
        """True while the rank runs its own code, so that SIGUSR1 prints stacks and does not kill."""
        return self.process.poll() is None and self.beat[1] != "ended"

    def stack(self):
        """What faulthandler printed so far: thread heads, and frames as `file:line function`, newest first."""
        found, inside = [], False
        for line in self.lines:
            match = FRAME.match(line)
            if line.startswith(("Thread 0x", "Current thread")):
                inside = True
                found.append("main thread" if line.startswith("Current") else "other thread")
            elif match and inside:
                found.append(f"  {Path(match[1]).name}:{match[2]} {match[3]}")
        return tuple(found)

    def last_words(self):
        """The line that says why the rank ended: the exception's, or the last one printed."""
        errors = [line for line in self.lines if re.match(r"^\S*(Error|Exception)\b|^  what\(\)", line)]
        return (errors or self.lines or [""])[-1].strip()


def start(args, on_line):
    """Start args.ranks copies of this file as ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, os.path.abspath(__file__), "--fault", args.fault, "--timeout", str(args.timeout)]
    command += ["--fix"] if args.fix else []
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    env["WORLD_SIZE"] = str(args.ranks)
    return [
        Watched(command, {**env, "RANK": str(rank)}, lambda line, rank=rank: on_line(rank, line))
        for rank in range(args.ranks)
    ]


def odd_ones(beats):
    """Ranks whose (step, phase) is not the commonest one; none when no phase has a majority."""
    common, count = Counter(beats).most_common(1)[0]
    return [rank for rank, beat in enumerate(beats) if beat != common] if 2 * count > len(beats) else []


def stop(ranks, grace=2.0):
    """SIGTERM, then SIGKILL for those that stay: a rank stuck in native code ignores the first."""
    for send in ("terminate", "kill"):
        for watched in ranks:
            if watched.process.poll() is None:
                getattr(watched.process, send)()
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and any(w.process.poll() is None for w in ranks):
            time.sleep(0.05)


def watch(args, say):
    """Run the job under a heartbeat watchdog; return the record that --json prints."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` below stops the ranks
    ranks = start(args, lambda rank, line: say(f"[{rank}] {line}") if args.verbose else None)
    stalled_at, beats, stacks = None, [], []
    try:
        while any(w.process.poll() is None for w in ranks):
            time.sleep(0.1)
            now = time.monotonic()
            started = all(w.beat[0] >= 0 for w in ranks)
            quiet = now - max(w.beat_time for w in ranks)
            if stalled_at is None and started and quiet > args.stall and any(w.lives() for w in ranks):
                stalled_at, beats = now, [w.beat for w in ranks]
                stacks = report_stall(ranks, quiet, say)
            if stalled_at is None and not started and now - min(w.beat_time for w in ranks) > 120:
                raise SystemExit("the ranks did not start within 120 s; see --verbose")
            if stalled_at and (args.kill_on_stall or now - stalled_at > args.timeout + 2):
                break
    finally:
        left = [rank for rank, w in enumerate(ranks) if w.process.poll() is None]
        stop(ranks)
    for w in ranks:
        w.reader.join(5)
    exits = [w.process.returncode for w in ranks]
    outcome = "finished" if not any(exits) else "hang" if stalled_at else "error"
    say(f"\noutcome: {outcome}\nrank  exit  last words")
    for rank, w in enumerate(ranks):
        words = "still running, killed by the launcher" if rank in left else w.last_words()
        say(f"{rank:4}  {exits[rank]:4}  {words[:160]}")
    return {
        "fault": args.fault,
        "fixed": args.fix,
        "outcome": outcome,
        "heartbeats": [{"step": step, "phase": phase} for step, phase in beats],
        "odd_ranks": odd_ones(beats) if beats else [],
        "stacks": stacks,
        "exit_codes": exits,
        "killed_by_launcher": left,
        "last_words": [w.last_words() for w in ranks],
    }


def report_stall(ranks, quiet, say):
    """Print the heartbeats, signal every rank, print each distinct set of stacks once; return all stacks."""
    odd = odd_ones([w.beat for w in ranks])
    say(f"no heartbeat for {quiet:.0f} s\nrank  pid      step  phase")
    for rank, w in enumerate(ranks):
        mark = "   <- odd one out" if rank in odd else ""
        say(f"{rank:4}  {w.process.pid:<7}  {w.beat[0]:4}  {w.beat[1]}{mark}")
    for w in ranks:
        with contextlib.suppress(ProcessLookupError):
            if w.lives():
                w.process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    stacks = [w.stack() for w in ranks]
    for stack in sorted(set(stacks), key=stacks.count):
        members = [rank for rank, other in enumerate(stacks) if other == stack]
        say(f"\n--- {len(members)} of {len(ranks)} ranks: {' '.join(map(str, members))} ---")
        for line in stack:
            say(line)
    return stacks


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=sorted(FAULTS), help="which hang; without it, the faults are listed")
    parser.add_argument("--fix", action="store_true", help="run the repaired variant, which finishes")
    parser.add_argument("--ranks", type=int, default=4, help="local ranks, 3 to 16 (default 4)")
    parser.add_argument("--timeout", type=float, default=8.0, help="collective timeout in seconds (default 8)")
    parser.add_argument("--stall", type=float, default=3.0, help="seconds without a heartbeat (default 3)")
    parser.add_argument("--kill-on-stall", action="store_true", help="end the job once the stacks are printed")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--verbose", action="store_true", help="pass on every line of every rank")
    args = parser.parse_args(argv)
    if not 3 <= args.ranks <= 16:
        parser.error("--ranks must be 3 to 16: with two ranks there is no odd one out")
    if not 0 < args.stall < args.timeout <= 86400:
        parser.error("--stall must be above 0 and below --timeout (at most 86400), or the stacks come too late")
    return args


def main(argv=None):
    args = parse(argv)
    if args.fault is None:
        print(json.dumps(FAULTS, indent=2) if args.json else "\n".join(f"{k:10} {v}" for k, v in FAULTS.items()))
        return 0
    if not hasattr(signal, "SIGUSR1"):
        print("SIGUSR1 is missing here: run under Linux, macOS or WSL", file=sys.stderr)
        return 2
    if importlib.util.find_spec("torch") is None:
        fix = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
        print(f"PyTorch is missing: {fix}", file=sys.stderr)
        return 2
    if "RANK" in os.environ:
        return run_rank(args)
    out = sys.stderr if args.json else sys.stdout
    try:
        record = watch(args, lambda text: print(text, file=out, flush=True))
    except KeyboardInterrupt:
        print("interrupted; all ranks are ended", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps(record, indent=2))
    return 0 if record["outcome"] == "finished" else 1


if __name__ == "__main__":
    sys.exit(main())
