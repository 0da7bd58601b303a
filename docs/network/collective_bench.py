#!/usr/bin/env python3
"""Time the collectives of training and report algorithm and bus bandwidth.

On a laptop it starts its own ranks (gloo, CPU). Under torchrun, or srun with
MASTER_ADDR and MASTER_PORT exported, each process is one rank (nccl on GPUs; the
ROCm build of PyTorch calls RCCL by the same name).

    python3 collective_bench.py --dry-run --ranks 16
    python3 collective_bench.py --op all --ranks 2 -e 16M
    torchrun --nproc-per-node 8 collective_bench.py --op all_reduce -b 1K -e 8G

Sizes follow nccl-tests: S is the largest buffer of a rank (the whole output of an
all-gather, the whole input of a reduce-scatter), suffixes are powers of 1024, and
busbw = algbw x factor (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

Exit codes: 0 fine, 1 wrong results, a failed run or less than --expect, 2 misuse.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from datetime import timedelta

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
DTYPE_BYTES = {"float32": 4, "bfloat16": 2}
TOLERANCE = {"float32": 0.0, "bfloat16": 0.05}  # sums of small integers are exact in float32
NO_TORCH = "PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu"
SUFFIXES = {"K": 1024, "M": 1024**2, "G": 1024**3}


def parse_size(text: str) -> int:
    """'64M' -> bytes; K, M and G are powers of 1024, as in nccl-tests."""
    suffix = SUFFIXES.get(text[-1:].upper())
    number = text[:-1] if suffix else text
    if not re.fullmatch(r"0*[1-9][0-9]{0,14}", number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4096, 64K, 16M or 1G")
    return int(number) * (suffix or 1)


def show_size(size: int) -> str:
    """Bytes in the unit that divides them: 1048576 -> '1 MiB'."""
    for unit, scale in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size} B"


def positive(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999")
    return int(text)


def amount(text: str) -> float:
    """A finite number above 0; nan would pass every comparison of --expect."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def bus_factor(op: str, n: int) -> float:
    """busbw / algbw for n ranks: the share of S that each rank's link must carry, per direction."""
    return {"all_reduce": 2 * (n - 1) / n, "broadcast": 1.0}.get(op, (n - 1) / n)


def ring_steps(op: str, n: int) -> int:
    """Messages that follow one another in a ring (all_to_all: messages each rank sends)."""
    return 2 * (n - 1) if op == "all_reduce" else n - 1


def sizes(args: argparse.Namespace, n: int) -> list[int]:
    """Buffer sizes in bytes up to and with --max-bytes, in whole elements for each of n ranks."""
    unit = DTYPE_BYTES[args.dtype] * n
    wanted, size = [args.max_bytes], args.min_bytes
    while size < args.max_bytes:
        wanted.append(size)
        size *= args.factor
    return sorted({max(size // unit, 1) * unit for size in wanted})


def launched() -> dict[str, int] | None:
    """Rank, world and local rank from torchrun or srun; None when this process stands alone."""
    env = os.environ
    if "RANK" in env or "WORLD_SIZE" in env:
        names = {"rank": "RANK", "world": "WORLD_SIZE", "local": "LOCAL_RANK"}
    elif env.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        names = {"rank": "SLURM_PROCID", "world": "SLURM_STEP_NUM_TASKS", "local": "SLURM_LOCALID"}
    else:
        return None
    missing = [name for name in (*names.values(), "MASTER_ADDR", "MASTER_PORT") if not env.get(name)]
    if missing:
        fix = "start it with torchrun, or export MASTER_ADDR (first host) and MASTER_PORT (a free port) before srun"
        alone = "to run on this machine alone: env -u RANK -u WORLD_SIZE python3 collective_bench.py"
        raise SystemExit(misuse(f"a launcher started this, but {', '.join(missing)} is not set:\n{fix};\n{alone}"))
    place = {key: int(env[name]) for key, name in names.items() if re.fullmatch("[0-9]{1,7}", env[name])}
    if len(place) < 3 or place["rank"] >= place["world"]:
        given = ", ".join(f"{name}={env[name]}" for name in names.values())
        raise SystemExit(misuse(f"not a rank below a number of ranks: {given}"))
    return place


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def misuse(message: str) -> int:
    print(f"collective_bench: {message}", file=sys.stderr)
    return 2


def plan_row(op: str, size: int, n: int, args: argparse.Namespace) -> dict:
    """Bytes a rank sends and, with --link, the ring's time: steps x alpha + factor x S / link."""
    factor, steps = bus_factor(op, n), ring_steps(op, n)
    row = {"op": op, "bytes": size, "bus_factor": round(factor, 4), "sent_per_rank_bytes": round(size * factor)}
    row["ring_steps"] = steps
    row["predicted_us"] = round(steps * args.alpha + factor * size / args.link / 1e3, 1) if args.link else None
    return row


def dry_run(args: argparse.Namespace, n: int) -> int:
    """Print what would be run: sizes, factors, bytes on the wire and, with --link, the time."""
    rows = [plan_row(op, size, n, args) for op in args.ops for size in sizes(args, n)]
    if args.json:
        print(json.dumps({"plan": True, "world_size": n, "dtype": args.dtype, "iters": args.iters, "rows": rows}))
        return 0
    print(f"plan: {n} ranks, {args.dtype}, {args.warmup} warm-up and {args.iters} timed iterations; nothing is run")
    print(f"{'op':<15}{'size':>10}{'factor':>8}{'a rank sends':>14}{'steps':>7}{'predicted us':>14}")
    for row in rows:
        print(
            f"{row['op']:<15}{show_size(row['bytes']):>10}{row['bus_factor']:>8.3f}"
            f"{show_size(row['sent_per_rank_bytes']):>14}{row['ring_steps']:>7}{row['predicted_us'] or '-':>14}"
        )
    return 0


def pattern(rank: int, segment: int) -> int:
    """Fill value of a rank's segment; not symmetric, so that an exchange that did not happen shows."""
    return (3 * rank + segment) % 5 + 1


def make_call(op, dist, torch, n: int, rank: int, count: int, dtype, device):
    """(call, fill, expected, result): `fill` writes the pattern, segment i of `result` must be expected[i]."""
    buffer = torch.empty(count, dtype=dtype, device=device)
    shard = torch.empty(count // n, dtype=dtype, device=device)
    total = [sum(pattern(r, s) for r in range(n)) for s in range(n)]

    def fill_buffer() -> None:
        for segment in range(n):
            buffer.view(n, -1)[segment].fill_(pattern(rank, segment))

    if op == "all_reduce":
        return lambda: dist.all_reduce(buffer), fill_buffer, total, buffer
    if op == "broadcast":
        return lambda: dist.broadcast(buffer, src=0), fill_buffer, [pattern(0, s) for s in range(n)], buffer
    if op == "all_gather":
        sources = [pattern(r, 0) for r in range(n)]
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in PyTorch 2.13
        return lambda: gather(buffer, shard), lambda: shard.fill_(pattern(rank, 0)), sources, buffer
    if op == "reduce_scatter":
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        return lambda: scatter(shard, buffer), fill_buffer, [total[rank]], shard
    received = torch.empty_like(buffer)
    sources = [pattern(r, rank) for r in range(n)]
    return lambda: dist.all_to_all_single(received, buffer), fill_buffer, sources, received


def count_wrong(result, expected: list[int], tolerance: float) -> int:
    """Elements of `result` that differ from the expected value of their segment."""
    segments = result.view(len(expected), -1).float()
    return sum(int(((segments[i] - want).abs() > tolerance * want).sum()) for i, want in enumerate(expected))


def time_calls(call, iters: int, torch, on_gpu: bool) -> list[float]:
    """Seconds of each call on this rank: CUDA events on a GPU, the clock elsewhere."""
    if on_gpu:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(iters + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]
    seconds = []
    for _ in range(iters):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(op: str, size: int, args, torch, dist, place: dict[str, int], device) -> dict:
    """One row: check the result, warm up, time; the slowest rank counts, the median is reported."""
    n, dtype, count = place["world"], getattr(torch, args.dtype), size // DTYPE_BYTES[args.dtype]
    call, fill, expected, result = make_call(op, dist, torch, n, place["rank"], count, dtype, device)
    fill()
    call()
    wrong = torch.tensor(float(count_wrong(result, expected, TOLERANCE[args.dtype])), device=device)
    dist.all_reduce(wrong)
    result.zero_()  # repeated sums in place would overflow
    for _ in range(args.warmup):
        call()
    dist.barrier()
    seconds = torch.tensor(time_calls(call, args.iters, torch, device.type == "cuda"), device=device)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    each = sorted(seconds.tolist())
    median = statistics.median(each)
    algbw = size / median / 1e9
    return {
        "op": op,
        "bytes": size,
        "time_us": round(median * 1e6, 2),
        "min_us": round(each[0] * 1e6, 2),
        "max_us": round(each[-1] * 1e6, 2),
        "algbw_gbs": round(algbw, 4),
        "busbw_gbs": round(algbw * bus_factor(op, n), 4),
        "wrong": int(wrong.item()),
    }


def summarise(rows: list[dict]) -> dict:
    """Latency (median time of the smallest size), peak, and the size that reaches half of the peak."""
    peak = max(rows, key=lambda row: row["busbw_gbs"])
    half = min(row["bytes"] for row in rows if row["busbw_gbs"] >= peak["busbw_gbs"] / 2)
    return {
        "latency_us": rows[0]["time_us"],
        "peak_busbw_gbs": peak["busbw_gbs"],
        "peak_at_bytes": peak["bytes"],
        "half_peak_bytes": half,
    }


def pick_device(backend: str, local: int, torch):
    """This rank's device; nccl needs one GPU for each local rank."""
    if backend == "gloo":
        return torch.device("cpu")
    visible = torch.cuda.device_count()
    # srun --gpus-per-task=1 shows each task one GPU, numbered 0
    index = 0 if visible == 1 and "SLURM_LOCALID" in os.environ else local
    if index >= visible:
        raise ValueError(f"local rank {local} has no GPU, {visible} visible: lower the ranks, or use --backend gloo")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def run_rank(args: argparse.Namespace, place: dict[str, int]) -> int:
    """The work of one rank; rank 0 prints."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return misuse(NO_TORCH)
    n, rank = place["world"], place["rank"]
    backend = args.backend if args.backend != "auto" else ("nccl" if torch.cuda.is_available() else "gloo")
    try:
        device = pick_device(backend, place["local"], torch)
    except ValueError as error:
        return misuse(str(error))
    try:
        dist.init_process_group(backend, rank=rank, world_size=n, timeout=timedelta(seconds=args.timeout))
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        hint = "Check that the port is free on the first host, that every rank was started, and GLOO_SOCKET_IFNAME."
        return misuse(f"rank {rank} of {n} could not join the group at {where}: {first_line(error)}\n{hint}")
    talks = rank == 0 and not args.json
    if talks:
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        print(f"# {n} ranks, {backend} on {kind}, PyTorch {torch.__version__}, {args.dtype}, {args.iters} iterations")
        print(f"#{'op':>14}{'size':>10}{'median us':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}{'wrong':>7}")
    rows: list[dict] = []
    for op, size in ((op, size) for op in args.ops for size in sizes(args, n)):
        try:
            row = measure(op, size, args, torch, dist, place, device)
        except RuntimeError as error:
            print(f"collective_bench: rank {rank}: {op} failed: {first_line(error)}", file=sys.stderr)
            return 1
        rows.append(row)
        if talks:
            numbers = f"{row['time_us']:>12.1f}{row['algbw_gbs']:>12.3f}{row['busbw_gbs']:>12.3f}{row['wrong']:>7}"
            print(f"{op:>15}{show_size(row['bytes']):>10}{numbers}", flush=True)
    dist.destroy_process_group()
    return report(args, rows, backend, n, torch.__version__, quiet=rank != 0)


def report(args, rows: list[dict], backend: str, n: int, version: str, quiet: bool) -> int:
    """Print summary or JSON on rank 0; 1 when a result was wrong or slower than --expect."""
    summary = {op: summarise([row for row in rows if row["op"] == op]) for op in args.ops}
    slow = [op for op in args.ops if args.expect and summary[op]["peak_busbw_gbs"] < args.expect]
    wrong = sorted({row["op"] for row in rows if row["wrong"]})
    if not quiet and args.json:
        head = {"world_size": n, "backend": backend, "torch": version, "dtype": args.dtype, "iters": args.iters}
        print(json.dumps({**head, "rows": rows, "summary": summary, "wrong": wrong, "slow": slow}))
    elif not quiet:
        for op, s in summary.items():
            print(
                f"{op}: latency {s['latency_us']:.1f} us, peak busbw {s['peak_busbw_gbs']:.2f} GB/s at "
                f"{show_size(s['peak_at_bytes'])}, half of it from {show_size(s['half_peak_bytes'])}"
            )
        for op in slow:
            print(f"{op}: peak busbw {summary[op]['peak_busbw_gbs']:.2f} GB/s is below --expect {args.expect:g} GB/s")
        for op in wrong:
            print(f"{op}: WRONG RESULTS, see the last column")
    return 1 if slow or wrong else 0


def spawn(args: argparse.Namespace) -> int:
    """Start args.ranks copies of this program on this machine; the worst exit code counts."""
    if args.ranks > 64:  # each is a process with PyTorch in it
        return misuse(f"--ranks {args.ranks}: at most 64 on one machine without a launcher; --dry-run takes more")
    if importlib.util.find_spec("torch") is None:
        return misuse(NO_TORCH)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(args.ranks)}
    env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does: the ranks share the cores
    if sys.platform == "linux":
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here; do not depend on the host's name
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(args.ranks)]
    ranks = [subprocess.Popen(command, env={**env, **place}) for place in places]
    try:
        while any(process.poll() is None for process in ranks):
            if any(process.poll() for process in ranks):
                time.sleep(1)  # let the others print their reason
                break
            time.sleep(0.05)
    finally:
        stopped = [process for process in ranks if process.poll() is None]
        for process in stopped:
            process.terminate()
    codes = [process.wait() for process in ranks if process not in stopped]
    if -signal.SIGKILL in codes:
        print("collective_bench: a rank was killed by signal 9: out of memory?", file=sys.stderr)
    return max(code if code >= 0 else 1 for code in codes)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="all_reduce", help=f"comma-separated from {', '.join(OPS)}, or all")
    parser.add_argument("-b", "--min-bytes", type=parse_size, default="1K", metavar="SIZE", help="default 1K")
    parser.add_argument("-e", "--max-bytes", type=parse_size, default="64M", metavar="SIZE", help="default 64M")
    parser.add_argument("-f", "--factor", type=positive, default=4, help="between sizes, default 4")
    parser.add_argument("-n", "--iters", type=positive, default=20, help="timed calls of each size, default 20")
    parser.add_argument("-w", "--warmup", type=positive, default=5, help="untimed calls of each size, default 5")
    parser.add_argument("--dtype", choices=DTYPE_BYTES, default="float32")
    parser.add_argument("--backend", choices=("auto", "gloo", "nccl"), default="auto", help="auto: nccl on GPUs")
    parser.add_argument("--ranks", type=positive, default=2, help="without a launcher: ranks to start here, default 2")
    parser.add_argument("--timeout", type=positive, default=120, help="seconds to wait for a peer, default 120")
    parser.add_argument("--expect", type=amount, metavar="GB/s", help="exit 1 if an op's peak busbw is lower")
    parser.add_argument("--dry-run", action="store_true", help="print sizes, factors and bytes moved; needs no PyTorch")
    parser.add_argument("--link", type=amount, metavar="GB/s", help="dry run: predict times, link of one direction")
    parser.add_argument(
        "--alpha", type=amount, default=0.0, metavar="us", help="dry run with --link: latency of one step"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args(argv)
    args.ops = list(OPS) if args.op == "all" else args.op.replace(" ", "").split(",")
    unknown = [op for op in args.ops if op not in OPS]
    if unknown:
        parser.error(f"unknown --op {', '.join(unknown)}; choose from {', '.join(OPS)}, or all")
    if args.factor < 2 or args.min_bytes > args.max_bytes:
        parser.error("--factor must be 2 or more, and --min-bytes at most --max-bytes")
    if args.alpha and not args.link:
        parser.error("--alpha needs --link")
    return args


def main() -> int:
    args = parse()
    place = launched()
    n = place["world"] if place else args.ranks
    if n < 2:
        return misuse(f"a collective needs at least 2 ranks, this run has {n}: raise --ranks or --nproc-per-node")
    if args.dry_run:
        return dry_run(args, n) if not place or place["rank"] == 0 else 0
    if place:  # Ctrl-C must also end a rank that waits inside a collective
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_rank(args, place) if place else spawn(args)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe left
        os._exit(1)
