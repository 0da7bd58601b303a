#!/usr/bin/env python3
"""Measure every pair of ranks, print the matrix, and say which rank or which path is slow.

    pair_matrix.py --ranks 4 -s 1M                   here, on CPU with gloo: to see how it works
    srun -N 64 --ntasks-per-node=1 --gpus-per-node=1 python3 pair_matrix.py --json > pairs.json
    pair_matrix.py --replay pairs.json               print and judge a recorded file, without PyTorch

Row i, column j is the rate from rank i to rank j in GB/s (10^9 bytes per second): --iters messages of --size,
each answered by 4 bytes, the median counts. Pairs are measured in rounds in which every rank has one partner
(--alone: one pair at a time), so n ranks need n - 1 rounds. A pair is slow below --below times the median of its
kind: same node; same local rank of two nodes (a rail); different local ranks of two nodes. A rank whose own
median is slow is named, with the direction; pairs that no slow rank explains are named as paths.

Exit codes: 0 nothing slow, 1 slow pairs or a failed run, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

NO_TORCH = "PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu"
SUFFIXES = {"K": 1024, "M": 1024**2, "G": 1024**3}
WIDEST = 24  # ranks whose matrix still fits a terminal


def parse_size(text: str) -> int:
    """'64M' -> bytes; K, M and G are powers of 1024."""
    found = re.fullmatch(r"([1-9]\d{0,12})([KMG]?)", text.upper())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4096, 64K, 16M or 1G")
    return int(found[1]) * SUFFIXES.get(found[2], 1)


def whole(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999")
    return int(text)


def share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def misuse(message: str) -> int:
    print(f"pair_matrix: {message}", file=sys.stderr)
    return 2


def rounds(n: int, alone: bool = False) -> list[list[tuple[int, int]]]:
    """Pairings of n ranks, each pair once: the circle method of tournaments, n - 1 rounds (n if n is odd)."""
    seats = list(range(n)) + ([-1] if n % 2 else [])
    found = []
    for _ in range(len(seats) - 1):
        pairs = [tuple(sorted((seats[i], seats[-1 - i]))) for i in range(len(seats) // 2)]
        found.append([pair for pair in pairs if pair[0] >= 0])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return [[pair] for pairs in found for pair in pairs] if alone else found


def kind(a: dict, b: dict) -> str:
    """Pairs of one kind should be equally fast: 'node', 'rail' or 'cross' for two places {host, local}."""
    if a["host"] == b["host"]:
        return "node"
    return "rail" if a["local"] == b["local"] else "cross"


def judge(record: dict, below: float) -> dict:
    """Medians of each kind, slow ranks (with direction), slow pairs that they do not explain."""
    gbs, places = record["gbs"], record["ranks"]
    n = len(places)
    rates: dict[str, list[float]] = {}
    for i, j in ordered(n):
        rates.setdefault(kind(places[i], places[j]), []).append(gbs[i][j])
    medians = {name: statistics.median(values) for name, values in rates.items()}

    def relative(i: int, j: int) -> float:
        usual = medians[kind(places[i], places[j])]
        return gbs[i][j] / usual if usual else 0.0

    slow_ranks, explained = [], set()
    for rank in range(n) if n > 3 else []:  # of three ranks, two medians would accuse each other
        others = [other for other in range(n) if other != rank]
        sends = statistics.median(relative(rank, other) for other in others)
        receives = statistics.median(relative(other, rank) for other in others)
        if min(sends, receives) < below:
            slow_ranks.append({"rank": rank, "sends": round(sends, 3), "receives": round(receives, 3)})
            explained |= {(rank, other) for other in others if sends < below}
            explained |= {(other, rank) for other in others if receives < below}
    slow = [(i, j) for i, j in ordered(n) if relative(i, j) < below]
    pairs = [{"from": i, "to": j, "share": round(relative(i, j), 3)} for i, j in slow if (i, j) not in explained]
    return {"medians_gbs": medians, "slow_ranks": slow_ranks, "slow_pairs": pairs, "slow_of_all": len(slow)}


def ordered(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(n) if i != j]


def show(record: dict, found: dict, below: float) -> None:
    """Matrix and findings for people."""
    gbs, places = record["gbs"], record["ranks"]
    n = len(places)
    print(f"# {n} ranks, {record['backend']}, {record['size_bytes']} bytes, GB/s from row to column")
    if n <= WIDEST:
        print("from\\to" + "".join(f"{j:>9}" for j in range(n)))
        for i in range(n):
            cells = (f"{'.':>9}" if i == j else f"{gbs[i][j]:>9.3g}" for j in range(n))
            print(f"{i:>7}" + "".join(cells) + f"   {places[i]['host']}:{places[i]['local']}")
    for name, value in found["medians_gbs"].items():
        print(f"median of kind '{name}': {value:.3g} GB/s; slow is below {below * value:.3g}")
    for row in found["slow_ranks"]:
        where = places[row["rank"]]
        way = [word for word in ("sends", "receives") if row[word] < below]
        print(
            f"SLOW RANK {row['rank']} ({where['host']}:{where['local']}): {' and '.join(way)} at "
            + ", ".join(f"{row[word]:.0%}" for word in way)
            + " of the median: its card, cable, slot or switch port"
        )
    for row in found["slow_pairs"]:
        print(f"SLOW PATH {row['from']} -> {row['to']}: {row['share']:.0%} of the median; both ends are fine elsewhere")
    if not found["slow_of_all"]:
        print(f"no pair is below {below:.0%} of the median of its kind")


def read_record(path: str) -> dict:
    """A file written with --json. Raises OSError and ValueError."""
    record = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        n = len(record["ranks"])
        sound = n >= 2 and all(len(row) == n for row in record["gbs"]) and len(record["gbs"]) == n
        sound = sound and all(0 <= record["gbs"][i][j] < math.inf for i, j in ordered(n))
        sound = sound and all(isinstance(place, dict) and {"host", "local"} <= set(place) for place in record["ranks"])
        known = {"backend", "size_bytes"} <= set(record)
    except (TypeError, KeyError, ValueError):
        sound = known = False
    if not sound or not known:
        raise ValueError(f"{path} is not a record of pair_matrix.py --json")
    return record


def launched() -> dict[str, int] | None:
    """Rank, world and local rank from torchrun or srun; None when this process stands alone."""
    env = os.environ
    if "RANK" in env:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    elif env.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
    else:
        return None
    missing = [name for name in (*names, "MASTER_ADDR", "MASTER_PORT") if not env.get(name)]
    if missing:
        fix = "use torchrun, or export MASTER_ADDR (first host) and MASTER_PORT (a free port) before srun"
        raise SystemExit(misuse(f"a launcher started this, but {', '.join(missing)} is not set: {fix}"))
    wrong = [f"{name}={env[name]}" for name in names if not env[name].isdigit()]
    if wrong:
        raise SystemExit(misuse(f"{', '.join(wrong)} is not a whole number"))
    return dict(zip(("rank", "world", "local"), (int(env[name]) for name in names)))


def exchange(dist, torch, buffer, answer, peer: int, sending: bool) -> None:
    """One message of buffer to or from peer, and 4 bytes back, finished on this rank."""
    order = [(dist.isend, buffer), (dist.irecv, answer)] if sending else [(dist.irecv, buffer), (dist.isend, answer)]
    for action, tensor in order:
        for work in dist.batch_isend_irecv([dist.P2POp(action, tensor, peer)]):
            work.wait()
    if buffer.is_cuda:
        torch.cuda.synchronize()


def measure(args, place: dict[str, int]) -> dict | None:
    """All rounds; the record on rank 0, None elsewhere."""
    import torch
    import torch.distributed as dist

    if args.backend == "nccl" and not torch.cuda.is_available():
        raise SystemExit(misuse("--backend nccl needs a GPU that PyTorch sees; on CPU use --backend gloo"))
    backend = args.backend if args.backend != "auto" else "nccl" if torch.cuda.is_available() else "gloo"
    device = torch.device("cuda", place["local"] % torch.cuda.device_count()) if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    n, me = place["world"], place["rank"]
    dist.init_process_group(backend, rank=me, world_size=n, timeout=timedelta(seconds=args.timeout))
    buffer = torch.ones(max(args.size // 4, 1), dtype=torch.float32, device=device)
    answer = torch.ones(1, dtype=torch.float32, device=device)
    rates = torch.zeros(n, n, dtype=torch.float64, device=device)
    for pairs in rounds(n, args.alone):
        dist.all_reduce(answer)  # all start the round together; the first one connects the group
        answer.fill_(1)
        for pair in (pair for pair in pairs if me in pair):
            peer = pair[1] if me == pair[0] else pair[0]
            for sender in pair:
                seconds = []
                for turn in range(args.warmup + args.iters):
                    began = time.perf_counter()
                    exchange(dist, torch, buffer, answer, peer, me == sender)
                    if turn >= args.warmup:
                        seconds.append(time.perf_counter() - began)
                if me == sender:
                    rates[me, peer] = buffer.numel() * 4 / statistics.median(seconds) / 1e9
    dist.all_reduce(rates)
    places: list = [None] * n
    dist.all_gather_object(places, {"host": socket.gethostname(), "local": place["local"]})
    dist.destroy_process_group()
    if me:
        return None
    return {
        "ranks": places,
        "gbs": [[round(value, 6) for value in row] for row in rates.tolist()],
        "backend": backend,
        "size_bytes": buffer.numel() * 4,
        "iters": args.iters,
        "alone": args.alone,
        "torch": torch.__version__,
    }


def spawn(args: argparse.Namespace) -> int:
    """Start --ranks copies of this program on this machine; the worst exit code counts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(args.ranks)}
    if sys.platform == "linux":
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here; do not depend on the host's name
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    ranks = [
        subprocess.Popen(command, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(args.ranks)
    ]
    try:
        while any(process.poll() is None for process in ranks):
            if any(process.poll() for process in ranks[1:]):
                break  # a rank died: the others would wait for it until --timeout
            time.sleep(0.05)
    finally:
        for process in ranks:
            if process.poll() is None:
                process.terminate()
    codes = [process.wait() for process in ranks]
    return codes[0] if not any(codes[1:]) else 1 if max(codes) < 2 else max(codes)


def conclude(record: dict, args: argparse.Namespace) -> int:
    found = judge(record, args.below)
    if args.json:
        print(json.dumps({**record, "below": args.below, **found}))
    else:
        show(record, found, args.below)
    return 1 if found["slow_of_all"] else 0


def dry_run(args: argparse.Namespace, n: int) -> int:
    plan = rounds(n, args.alone)
    sent = n * (n - 1) * (args.iters + args.warmup) * args.size
    if args.json:
        print(json.dumps({"plan": True, "world_size": n, "rounds": plan, "bytes_sent": sent}))
        return 0
    print(f"{n} ranks, {n * (n - 1) // 2} pairs in {len(plan)} rounds, {sent / 1e9:.3g} GB sent in all; nothing is run")
    for number, pairs in enumerate(plan[:8]):
        print(f"round {number}: " + " ".join(f"{a}-{b}" for a, b in pairs))
    if len(plan) > 8:
        print(f"… and {len(plan) - 8} more")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", metavar="FILE", help="judge a file written with --json; nothing is measured")
    parser.add_argument("-s", "--size", type=parse_size, default="64M", help="of a message, default 64M")
    parser.add_argument("-n", "--iters", type=whole, default=10, help="timed messages of each direction, default 10")
    parser.add_argument("-w", "--warmup", type=whole, default=3, help="untimed messages before, default 3")
    parser.add_argument("--below", type=share, default=0.8, help="slow is below this share of the median, default 0.8")
    parser.add_argument("--alone", action="store_true", help="one pair at a time: no pair disturbs another")
    parser.add_argument("--ranks", type=whole, default=4, help="without a launcher: ranks to start here, default 4")
    parser.add_argument("--backend", choices=("auto", "gloo", "nccl"), default="auto", help="auto: nccl on GPUs")
    parser.add_argument("--timeout", type=whole, default=120, help="seconds to wait for a peer, default 120")
    parser.add_argument("--dry-run", action="store_true", help="print the rounds; needs no PyTorch")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return parser.parse_args()


def main() -> int:
    args = parse()
    if args.replay:
        try:
            return conclude(read_record(args.replay), args)
        except (OSError, ValueError) as error:
            return misuse(str(error))
    place = launched()
    n = place["world"] if place else args.ranks
    if n < 2:
        return misuse("a pair needs two ranks: raise --ranks, or start more with torchrun or srun")
    if args.dry_run:
        return dry_run(args, n) if not place or place["rank"] == 0 else 0
    if not place:
        return misuse("at most 64 ranks here; --dry-run takes more") if n > 64 else spawn(args)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C must also end a rank that waits for a peer
    try:
        record = measure(args, place)
    except ImportError:
        return misuse(NO_TORCH)
    except RuntimeError as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        print(f"pair_matrix: rank {place['rank']}: {text}", file=sys.stderr)
        return 1
    return conclude(record, args) if record else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
