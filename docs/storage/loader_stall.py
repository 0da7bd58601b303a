#!/usr/bin/env python3
"""Find out whether the data loader keeps up with the accelerator, and which stage stalls.

    loader_stall.py --simulate --read-ms 3 --decode-ms 12 --step-ms 250 --batch 64
    loader_stall.py --dataset train.py:build_dataset --step-ms 250 --batch 64 --workers 4,8,16 --yes

Stages of a batch: read (storage), decode (CPU of a worker), hand-over (worker to main process),
step (accelerator; here a sleep of --step-ms). --simulate needs the standard library only: it
plays the queues of torch.utils.data.DataLoader with the times given. Without it a real DataLoader
is timed, on own samples (--dataset FILE.py:CALLABLE, a map-style data set), on the files of
--folder, or on made-up samples. Nothing is loaded until --yes.
Exit codes: 0 the loader keeps up, 1 the accelerator waits, 2 misuse.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

TOLERATED = 0.05  # share of the time that the accelerator may wait before it is a finding
SPARE = 1.25  # workers above the mean need, for batches that take longer than the mean
LIMIT_WORKERS = 256


class Misuse(Exception):
    """The request makes no sense; the message names the fix (exit code 2)."""


def cores_allowed() -> int:
    """Cores that this process may use: what Slurm, taskset or a container left of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- simulation -------------------------------------------------------------------------------


def simulate(args: argparse.Namespace, workers: int) -> dict[str, Any]:
    """Play --batches batches through the queues; times in seconds, medians per sample or batch.

    As in torch 2.13: batch n goes to worker n mod workers, which holds at most --prefetch
    batches that the main process has not taken, and batches are taken in order.
    """
    rng = random.Random(args.seed)
    crowded = max(1.0, workers / args.cores)  # processes share cores evenly
    read, decode = args.read_ms / 1e3, args.decode_ms / 1e3 * crowded
    step, handover = args.step_ms / 1e3, args.handover_ms / 1e3 if workers else 0.0
    finish: list[float] = []
    taken: list[float] = []
    waits: list[float] = []
    now = storage_free = 0.0
    reads: list[float] = []
    for n in range(args.batches):
        slow = sum(rng.random() < args.slow_share for _ in range(args.batch)) * args.slow_ms / 1e3
        window = workers * args.prefetch
        asked = now if not workers else taken[n - window] if n >= window else 0.0
        start = max(asked, finish[n - workers] if workers and n >= workers else 0.0)
        read_end = start + args.batch * read + slow
        if args.storage_rate:
            storage_free = max(storage_free, start) + args.batch / args.storage_rate
            read_end = max(read_end, storage_free)
        reads.append((read_end - start) / args.batch)
        finish.append(read_end + args.batch * decode)
        arrived = max(now, finish[n]) + handover
        waits.append(arrived - now)
        taken.append(arrived)
        now = arrived + step
    return {
        "read": statistics.median(reads),
        "decode": decode,
        "decode_cpu": args.decode_ms / 1e3,
        "handover": handover,
        **rates(args, waits, workers),
    }


def rates(args: argparse.Namespace, waits: list[float], workers: int) -> dict[str, Any]:
    """Samples per second and the share of waiting; the batches that fill the queues are left out."""
    steady = waits[min(max(1, workers * args.prefetch), len(waits) // 2) :]
    mean_wait, step = statistics.fmean(steady), args.step_ms / 1e3
    return {
        "workers": workers,
        "wait_mean": mean_wait,
        "wait_longest": max(steady),
        "wait_share": mean_wait / (mean_wait + step),
        "samples_per_second": args.batch / (mean_wait + step),
    }


# --- measurement ------------------------------------------------------------------------------


class MadeUp:
    """Samples that cost what they are told: a sleep stands for storage, arithmetic for decoding."""

    def __init__(self, read_ms: float, decode_ms: float, sample_bytes: int) -> None:
        self.read_s, self.decode_s, self.size = read_ms / 1e3, decode_ms / 1e3, sample_bytes

    def __len__(self) -> int:
        return 1 << 30

    def read(self, index: int) -> int:
        time.sleep(self.read_s)
        return index

    def decode(self, raw: int) -> Any:
        import torch

        end = time.thread_time() + self.decode_s
        while time.thread_time() < end:
            pass
        return torch.frombuffer(bytearray(self.size), dtype=torch.uint8)


class Files:
    """The files under a folder: pictures through Pillow to 224 x 224 x 3, others as bytes."""

    def __init__(self, folder: Path, sample_bytes: int) -> None:
        self.paths = sorted(str(p) for p in folder.rglob("*") if p.is_file())
        self.size = sample_bytes
        random.Random(0).shuffle(self.paths)  # neighbours on disk would flatter the storage

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> tuple[str, bytes]:
        return self.paths[index], Path(self.paths[index]).read_bytes()

    def decode(self, raw: tuple[str, bytes]) -> Any:
        import torch

        name, data = raw
        if name.lower().endswith((".jpg", ".jpeg", ".png", ".webp")):
            import io

            from PIL import Image

            data = Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224)).tobytes()
            return torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return torch.frombuffer(bytearray(data[: self.size].ljust(self.size, b"\0")), dtype=torch.uint8)


class Timed:
    """A map-style data set whose samples carry their times: (sample, read, decode, CPU) in s."""

    def __init__(self, source: Any, total: int) -> None:
        self.source, self.total = source, total

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, index: int) -> tuple[Any, float, float, float]:
        index %= len(self.source)
        wall, cpu = time.perf_counter(), time.thread_time()
        if hasattr(self.source, "decode"):
            raw = self.source.read(index)
            between = time.perf_counter()
            cpu = time.thread_time()
            sample = self.source.decode(raw)
            used = time.thread_time() - cpu
            return sample, between - wall, time.perf_counter() - between, used
        sample = self.source[index]
        used = time.thread_time() - cpu
        blocked = time.perf_counter() - wall - used  # no CPU used: waiting for storage, or for a core
        return sample, max(0.0, blocked), used, used


class Collate:
    """Batches the samples, and puts the times and the moment of completion beside them."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, items: list[tuple[Any, float, float, float]]) -> tuple[Any, list[tuple], float]:
        batch = self.collate([item[0] for item in items])
        return batch, [item[1:] for item in items], time.monotonic()


def own_dataset(spec: str) -> Any:
    """Call CALLABLE of FILE.py, which returns a data set with __len__ and __getitem__."""
    path, _, name = spec.partition(":")
    if not name or not Path(path).is_file():
        raise Misuse(f"--dataset {spec}: wanted FILE.py:CALLABLE, and the file must exist")
    module_spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if module_spec is None or module_spec.loader is None:
        raise Misuse(f"--dataset {spec}: {path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module  # spawned workers unpickle by module name
    sys.path.insert(0, str(Path(path).resolve().parent))
    module_spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise Misuse(f"--dataset {spec}: {path} has no callable {name}")
    dataset = getattr(module, name)()
    if not hasattr(dataset, "__getitem__") or not len(dataset):
        raise Misuse(f"--dataset {spec}: it must return a map-style data set with samples")
    return dataset


def source_of(args: argparse.Namespace) -> Any:
    if args.dataset:
        return own_dataset(args.dataset)
    if args.folder:
        files = Files(args.folder, args.sample_kb * 1000)
        if not files.paths:
            raise Misuse(f"--folder {args.folder}: no files there")
        return files
    return MadeUp(args.read_ms, args.decode_ms, args.sample_kb * 1000)


def measure(args: argparse.Namespace, source: Any, workers: int) -> dict[str, Any]:
    """Time a real DataLoader with this number of workers; times in seconds, medians."""
    from torch.utils.data import DataLoader, default_collate

    options: dict[str, Any] = {"num_workers": workers}
    if workers:
        options.update(prefetch_factor=args.prefetch, multiprocessing_context=args.start_method)
    dataset = Timed(source, args.batch * args.batches)
    loader = DataLoader(dataset, args.batch, collate_fn=Collate(default_collate), **options)
    waits: list[float] = []
    handovers: list[float] = []
    samples: list[tuple[float, float, float]] = []
    step = args.step_ms / 1e3
    start = time.monotonic()
    for n, (_, times, done) in enumerate(loader):
        arrived = time.monotonic()
        waits.append(arrived - start)
        # The main process was waiting for it, so what is left is the queue; not while workers start.
        if workers and done > start and n >= workers * args.prefetch:
            handovers.append(arrived - done)
        samples.extend(times)
        time.sleep(step)
        start = time.monotonic()
    read, decode, cpu = (statistics.median(column) for column in zip(*samples))
    return {
        "read": read,
        "decode": decode,
        "decode_cpu": cpu,
        "handover": statistics.median(handovers) if handovers else None,  # None: it never waited
        **rates(args, waits, workers),
    }


# --- judgement --------------------------------------------------------------------------------


def judge(args: argparse.Namespace, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Name the stage that stalls with the most workers tried, and the number of workers needed."""
    last, first = rows[-1], min(rows, key=lambda row: row["workers"])
    step = args.step_ms / 1e3
    # Cost without crowding: the smallest seen at any number of workers.
    read = min(row["read"] for row in rows)
    cpu = min(row["decode_cpu"] for row in rows)
    need = math.ceil(args.batch * (read + cpu) / step * SPARE)
    cores_need = args.batch * cpu / step
    waits = last["wait_share"] > TOLERATED
    if not waits:
        stage, advice = "none", "the loader keeps up: look for the time elsewhere"
    elif (last["handover"] or 0) > 0.7 * last["wait_mean"]:
        stage, advice = "hand-over", "smaller samples (uint8, crop in the worker); convert on the accelerator"
    elif cores_need > args.cores:
        stage = "cores"
        advice = f"decoding needs {cores_need:.1f} cores and {args.cores} are allowed: cheaper decoding, or more cores"
    elif first["workers"] < last["workers"] and last["read"] > 1.5 * first["read"] and last["read"] > last["decode"]:
        stage, advice = "storage", "reads slow down as workers are added: fewer, larger reads (shards), or local disk"
    elif need <= last["workers"]:
        stage, advice = "slow samples", "enough workers on average, but some samples take long: raise the prefetch"
    else:
        stage = "read" if read > cpu else "decode"
        advice = f"use {need} workers" + ("; waiting is cheap, so they may exceed the cores" if read > cpu else "")
    return {
        "stage": stage,
        "waits": waits,
        "workers_needed": max(1, need),
        "cores_needed": cores_need,
        "advice": advice,
    }


def show(args: argparse.Namespace, rows: list[dict[str, Any]], verdict: dict[str, Any]) -> None:
    print(f"{'simulated' if args.simulate else 'measured'}: batch {args.batch}, step {args.step_ms:g} ms,", end=" ")
    print(f"prefetch {args.prefetch}, {args.cores} cores, needs {args.batch / args.step_ms * 1e3:.0f} samples/s")
    print("workers  read ms  decode ms  hand-over ms  wait ms  longest ms  waits   samples/s")
    for row in rows:
        handover = "-" if row["handover"] is None else f"{row['handover'] * 1e3:.2f}"
        print(
            f"{row['workers']:7}{row['read'] * 1e3:9.2f}{row['decode'] * 1e3:11.2f}{handover:>14}"
            f"{row['wait_mean'] * 1e3:9.1f}{row['wait_longest'] * 1e3:12.1f}{row['wait_share']:7.0%}"
            f"{row['samples_per_second']:12.0f}"
        )
    print(f"stalls: {verdict['stage']}. {verdict['advice']}")


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of at least 0")
    return value


def whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 1000000")
    return int(text)


def worker_list(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) <= LIMIT_WORKERS for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers from 0 to {LIMIT_WORKERS} like 0,2,8")
    return sorted({int(part) for part in parts})


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", action="store_true", help="play the queues; needs no PyTorch")
    parser.add_argument("--dataset", metavar="FILE.py:CALLABLE", help="measure samples of this map-style data set")
    parser.add_argument("--folder", type=Path, help="measure samples made of the files under this folder")
    parser.add_argument("--step-ms", type=positive, default=250, help="step without loading, by synthetic data (250)")
    parser.add_argument("--batch", type=whole, default=64, help="samples per rank and step (64)")
    parser.add_argument("--batches", type=whole, default=40, help="batches for each number of workers (40)")
    parser.add_argument("--workers", type=worker_list, default=[0, 1, 2, 4], help="numbers to try (0,1,2,4)")
    parser.add_argument("--prefetch", type=whole, default=2, help="prefetch_factor (2)")
    parser.add_argument("--read-ms", type=positive, default=3, help="reading a made-up sample (3)")
    parser.add_argument("--decode-ms", type=positive, default=12, help="decoding a made-up sample, CPU time (12)")
    parser.add_argument("--sample-kb", type=whole, default=150, help="size of a decoded sample, kB (150)")
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--cores", type=whole, default=cores_allowed(), help="cores of this rank (those allowed)")
    simulated = parser.add_argument_group("only with --simulate")
    simulated.add_argument("--handover-ms", type=positive, default=1, help="worker to main, per batch (1)")
    simulated.add_argument("--storage-rate", type=positive, default=0, help="samples/s that storage gives this rank")
    simulated.add_argument("--slow-share", type=positive, default=0, help="share of samples that are slow (0)")
    simulated.add_argument("--slow-ms", type=positive, default=1000, help="what a slow one costs more (1000)")
    simulated.add_argument("--seed", type=int, default=0)
    parser.add_argument("--yes", action="store_true", help="really load; without it only the plan is shown")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if not args.step_ms:
        parser.error("--step-ms must be above 0: time a step with synthetic data first")
    if args.folder and args.dataset:
        parser.error("--folder and --dataset exclude each other")
    if args.folder and not args.folder.is_dir():
        parser.error(f"--folder {args.folder}: no such directory")
    if args.simulate and (args.folder or args.dataset):
        parser.error("--simulate uses the times given: leave out --folder and --dataset")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if not args.simulate and not args.yes:
        print(f"would load {args.batches} batches of {args.batch} with {args.workers} workers; add --yes")
        return 0
    try:
        if args.simulate:
            rows = [simulate(args, workers) for workers in args.workers]
        else:
            if importlib.util.find_spec("torch") is None:
                raise Misuse(
                    "PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu"
                    " (or use --simulate, which needs nothing)"
                )
            source = source_of(args)
            warnings.filterwarnings("ignore", "This DataLoader will create")  # more than cores is on purpose
            rows = [measure(args, source, workers) for workers in args.workers]
    except Misuse as error:
        print(f"loader_stall.py: {error}", file=sys.stderr)
        return 2
    verdict = judge(args, rows)
    if args.json:
        print(json.dumps({"simulated": args.simulate, "rows": rows, "verdict": verdict}, indent=1))
    else:
        show(args, rows, verdict)
    return 1 if verdict["waits"] else 0


if __name__ == "__main__":
    sys.exit(main())
