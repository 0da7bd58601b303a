#!/usr/bin/env python3
"""Simulate a collective, transfer by transfer, on a described cluster; slow a rank or a card down and see what it costs.

    collective_simulator.py --nodes 4 --gpus 8 --size 1G               all algorithms of an all-reduce
    collective_simulator.py --nodes 4 --slow-card 2.5:0.25             card 5 of node 2 at a quarter of its rate
    collective_simulator.py --nodes 4 --late 9:2000                    rank 9 comes 2000 us late
    collective_simulator.py --published                                compare with measurements by others

The model: a transfer takes bytes / rate of the sender's and of the receiver's port, first come first served, and
arrives a latency later (alpha-beta). Inside a node each GPU has a port; between nodes each card is one. Ring and
tree run one channel per card, each with its share of the data and of the GPUs' ports, as NCCL does. What it leaves
out: switches that add (NVLS, SHARP), congestion between switches, protocols other than one.

Exit codes: 0 fine, 1 a published measurement is missed by more than the error stated for it, 2 misuse.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

SUFFIXES = {"K": 1024, "M": 1024**2, "G": 1024**3}
Port = tuple  # direction, node or rank, card
MOST = 3_000_000  # transfers that Python simulates in about half a minute
PIECES = 32  # pieces of a message that follow each other up and down a tree
ALGORITHMS = {
    "all_reduce": ("ring", "tree", "hierarchical"),
    "all_gather": ("ring", "hierarchical"),
    "reduce_scatter": ("ring",),
}


@dataclass(frozen=True)
class Cluster:
    """Rates in GB/s per direction, latencies in us. The defaults are NCCL 2.30's own for 8 H100 with 8 cards of 400 Gb/s."""

    nodes: int = 2
    gpus: int = 8
    cards: int = 8
    inside: float = 370.8  # 18 links x 20.6 GB/s, topo.h
    card: float = 48.0  # 96 % of 50 GB/s, topo.h
    inside_us: float = 3.4  # ring over NVLink, protocol Simple, tuning.cc
    network_us: float = 14.0
    launch_us: float = 0.0
    slow_ranks: dict[int, float] = field(default_factory=dict)  # rank -> share of its rate
    slow_cards: dict[tuple[int, int], float] = field(default_factory=dict)  # (node, card) -> share
    late: dict[int, float] = field(default_factory=dict)  # rank -> us

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus


@dataclass
class Transfer:
    source: int
    target: int
    size: float  # bytes
    card: int  # of both nodes; unused inside a node
    waits: int = 0  # transfers that must have arrived at the source before
    then: list[int] = field(default_factory=list)  # transfers that wait for this one


class Plan:
    """Transfers and what each waits for."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []

    def add(self, source: int, target: int, size: float, card: int, after: list[int]) -> int:
        number = len(self.transfers)
        self.transfers.append(Transfer(source, target, size, card, len(after)))
        for earlier in after:
            self.transfers[earlier].then.append(number)
        return number

    def ring(
        self, ranks: list[int], size: float, steps: int, card: int, begin: dict[int, list[int]]
    ) -> dict[int, list[int]]:
        """Each rank sends `size` bytes to the next, `steps` times; from the second step on what it received before.

        No rank sends before the transfers in `begin` have reached it. Returned is, by rank, what ends its part.
        """
        after = begin
        for _ in range(steps):
            arrived: dict[int, list[int]] = {}
            for source, target in zip(ranks, ranks[1:] + ranks[:1]):
                arrived[target] = [self.add(source, target, size, card, after.get(source, []))]
            after = {rank: arrived[rank] + begin.get(rank, []) for rank in ranks}
        return after


def ring(cluster: Cluster, op: str, size: float, card: int) -> Plan:
    plan, n = Plan(), cluster.ranks
    plan.ring(list(range(n)), size / n, (n - 1) * (2 if op == "all_reduce" else 1), card, {})
    return plan


def parents(nodes: int) -> list[int]:
    """Binary tree in which odd nodes are leaves; node 0 is the root (as in NCCL, src/graph/trees.cc)."""
    found = [-1]
    for node in range(1, nodes):
        bit = node & -node
        up = (node ^ bit) | (bit << 1)
        found.append(up if up < nodes else node ^ bit)
    return found


def tree(cluster: Cluster, op: str, size: float, card: int) -> Plan:
    """Two trees with half of the data each; the leaves of one are inner nodes of the other. A chain inside a node."""
    plan, nodes, gpus = Plan(), cluster.nodes, cluster.gpus
    piece = size / 2 / PIECES
    up_tree = parents(nodes)
    for turn in (0, 1):
        place = (
            [nodes - 1 - i if nodes % 2 == 0 else (i + 1) % nodes for i in range(nodes)] if turn else list(range(nodes))
        )
        order = sorted(range(nodes), key=lambda i: -depth(up_tree, i))  # children before parents
        for _ in range(PIECES):
            ready: dict[int, list[int]] = {i: [] for i in range(nodes)}  # arrivals at the first GPU of a node
            for i in order:
                first, chain = place[i] * gpus, []
                for gpu in range(gpus - 1, 0, -1):
                    chain = [plan.add(first + gpu, first + gpu - 1, piece, card, chain)]
                ready[i] += chain
                if up_tree[i] >= 0:
                    ready[up_tree[i]].append(plan.add(first, place[up_tree[i]] * gpus, piece, card, ready[i]))
            done = {0: ready[0]}
            for i in reversed(order):
                if up_tree[i] >= 0:
                    done[i] = [plan.add(place[up_tree[i]] * gpus, place[i] * gpus, piece, card, done[up_tree[i]])]
                chain, first = done[i], place[i] * gpus
                for gpu in range(gpus - 1):
                    chain = [plan.add(first + gpu, first + gpu + 1, piece, card, chain)]
    return plan


def depth(up: list[int], node: int) -> int:
    return 0 if up[node] < 0 else 1 + depth(up, up[node])


def hierarchical(cluster: Cluster, op: str, size: float, _card: int) -> Plan:
    """Inside each node, then along each rail (GPUs of one local rank), then inside again."""
    plan, nodes, gpus = Plan(), cluster.nodes, cluster.gpus
    inside = [list(range(node * gpus, (node + 1) * gpus)) for node in range(nodes)]
    after: dict[int, list[int]] = {}
    if op == "all_reduce":
        for ranks in inside:
            after.update(plan.ring(ranks, size / gpus, gpus - 1, 0, {}))
    rounds = (nodes - 1) * (2 if op == "all_reduce" else 1)
    between: dict[int, list[int]] = {}
    for gpu in range(gpus):
        rail = [node * gpus + gpu for node in range(nodes)]
        start = {rank: after.get(rank, []) for rank in rail}
        between.update(plan.ring(rail, size / cluster.ranks, rounds, gpu * cluster.cards // gpus, start))
    for ranks in inside:
        plan.ring(ranks, size / gpus, gpus - 1, 0, {rank: between.get(rank, []) for rank in ranks})
    return plan


def simulate(plan: Plan, cluster: Cluster, channels: int) -> float:
    """Seconds until the last transfer has arrived. `channels` share the GPUs' ports; a card belongs to one channel."""
    free: dict[tuple[str, int, int], float] = {}
    late = {rank: us * 1e-6 for rank, us in cluster.late.items()}
    known = [late.get(item.source, 0.0) for item in plan.transfers]  # no earlier than this can it be sent
    events = [(known[i], i, False) for i, item in enumerate(plan.transfers) if not item.waits]
    heapq.heapify(events)
    last = 0.0
    while events:
        now, number, sent = heapq.heappop(events)
        item = plan.transfers[number]
        rate, latency, out_port, in_port = link(cluster, item, channels)
        if not sent:  # the sender's port takes it as soon as it is free; its head reaches the other port at once
            start = max(now, free.get(out_port, 0.0))
            free[out_port] = start + item.size / rate
            heapq.heappush(events, (start, number, True))
            continue
        free[in_port] = max(now, free.get(in_port, 0.0)) + item.size / rate
        arrival = free[in_port] + latency
        last = max(last, arrival)
        for later in item.then:
            following = plan.transfers[later]
            known[later] = max(known[later], arrival)
            following.waits -= 1
            if not following.waits:
                heapq.heappush(events, (known[later], later, False))
    return last + cluster.launch_us * 1e-6


def link(cluster: Cluster, item: Transfer, channels: int) -> tuple[float, float, Port, Port]:
    """Rate in bytes/s, latency in s, and the two ports that a transfer occupies."""
    source, target = item.source // cluster.gpus, item.target // cluster.gpus
    share = min(cluster.slow_ranks.get(item.source, 1.0), cluster.slow_ranks.get(item.target, 1.0))
    inside = cluster.inside / channels
    if source == target:
        return inside * share * 1e9, cluster.inside_us * 1e-6, ("out", item.source, -1), ("in", item.target, -1)
    share *= min(cluster.slow_cards.get((node, item.card), 1.0) for node in (source, target))
    rate = min(cluster.card, inside) * share * 1e9  # a GPU cannot feed a card faster than its own port
    return rate, cluster.network_us * 1e-6, ("out", source, item.card), ("in", target, item.card)


def transfers(cluster: Cluster, op: str, algorithm: str) -> int:
    """How many transfers a simulation has, before it is begun."""
    n, gpus, twice = cluster.ranks, cluster.gpus, 2 if op == "all_reduce" else 1
    if algorithm == "tree":
        return 4 * PIECES * (n - 1)
    if algorithm == "ring":
        return twice * n * (n - 1)
    return twice * n * (gpus - 1 + cluster.nodes - 1)


def seconds(cluster: Cluster, op: str, algorithm: str, size: float) -> float:
    """Time of a collective of `size` bytes (all-gather and reduce-scatter: the whole buffer)."""
    build = {"ring": ring, "tree": tree, "hierarchical": hierarchical}[algorithm]
    if algorithm == "hierarchical":
        return simulate(build(cluster, op, size, 0), cluster, 1)
    channels = cluster.cards if cluster.nodes > 1 else 1
    different = {card for _, card in cluster.slow_cards}
    healthy = [card for card in range(channels) if card not in different]
    cards = sorted(different) + healthy[:1]  # healthy channels are alike: one of them is enough
    return max(simulate(build(cluster, op, size / channels, card), cluster, channels) for card in cards)


def bus(cluster: Cluster, op: str, size: float, time: float) -> float:
    """Bus bandwidth in GB/s as nccl-tests defines it."""
    n = cluster.ranks
    return (2 if op == "all_reduce" else 1) * (n - 1) / n * size / time / 1e9


P3DN = Cluster(nodes=2, cards=1, inside=120.0, card=12.0, inside_us=1.0, network_us=32.0, launch_us=9.4)
A100_HDR = Cluster(nodes=3, cards=4, inside=240.0, card=24.0)
GIST = "https://gist.github.com/jacobkahn/"
# name, cluster, op, algorithm, bytes, unit, measured, error allowed, role, source
PUBLISHED = [
    ("V100, EFA, 16 ranks", P3DN, "all_reduce", "ring", 8, "us", 163.4, 0.01, "fitted", GIST + "a92f4425abf831ac0799fabe9079263d"),
    ("V100, EFA, 32 ranks", replace(P3DN, nodes=4), "all_reduce", "ring", 8, "us", 319.4, 0.01, "fitted", GIST + "1fb3977e99056b7935a6c63dda1e145f"),
    ("V100, EFA, 64 ranks", replace(P3DN, nodes=8), "all_reduce", "ring", 8, "us", 631.3, 0.01, "predicted", GIST + "3150a1a38abba40f58d8263d9c55969f"),
    ("8 H100, one node", Cluster(nodes=1), "all_reduce", "ring", 2**33, "GB/s", 370, 0.02, "predicted", "https://github.com/NVIDIA/nccl-tests/issues/212"),
    ("24 A100, 4 HDR cards a node", A100_HDR, "all_reduce", "ring", 2**27, "GB/s", 96, 0.05, "predicted", "https://github.com/NVIDIA/nccl-tests/issues/119"),
    ("32 H100, 8 RoCE cards a node", Cluster(nodes=4), "all_reduce", "ring", 2**33, "GB/s", 320, 0.20, "predicted", "https://github.com/NVIDIA/nccl/issues/1221"),
]  # fmt: skip


def published() -> Iterator[dict]:
    for name, cluster, op, algorithm, size, unit, measured, allowed, role, source in PUBLISHED:
        time = seconds(cluster, op, algorithm, size)
        model = time * 1e6 if unit == "us" else bus(cluster, op, size, time)
        error = model / measured - 1
        yield {
            "name": name, "role": role, "bytes": size, "unit": unit, "measured": measured, "model": round(model, 1),
            "error": round(error, 4), "allowed": allowed, "ok": abs(error) <= allowed, "source": source,
        }  # fmt: skip


def parse_size(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,12})([KMG]?)", text.upper())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4096, 64K, 16M or 1G")
    return int(found[1]) * SUFFIXES.get(found[2], 1)


def whole(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 9999")
    return int(text)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def fault(text: str) -> tuple[str, float]:
    where, _, value = text.partition(":")
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", where) or not value:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not WHERE:VALUE, such as 5:0.5, or 2.0:0.25 for card 0 of node 2"
        )
    return where, positive(value)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fine = Cluster()
    parser.add_argument("--op", choices=ALGORITHMS, default="all_reduce")
    parser.add_argument(
        "--algorithm", choices=("ring", "tree", "hierarchical"), help="default: all that the operation has"
    )
    parser.add_argument(
        "--size", type=parse_size, default=2**30, help="bytes, or with K, M, G (powers of 1024); default 1G"
    )
    parser.add_argument("--nodes", type=whole, default=fine.nodes)
    parser.add_argument("--gpus", type=whole, default=fine.gpus, help="of a node; default 8")
    parser.add_argument("--cards", type=whole, help="network cards of a node; default as many as GPUs")
    parser.add_argument(
        "--inside", type=positive, default=fine.inside, help="GB/s of a GPU inside the node; default 370.8"
    )
    parser.add_argument("--card", type=positive, default=fine.card, help="GB/s of a card; default 48")
    parser.add_argument("--inside-us", type=positive, default=fine.inside_us, help="latency of a step; default 3.4")
    parser.add_argument("--network-us", type=positive, default=fine.network_us, help="default 14")
    parser.add_argument("--slow-rank", type=fault, action="append", default=[], metavar="RANK:SHARE")
    parser.add_argument("--slow-card", type=fault, action="append", default=[], metavar="NODE.CARD:SHARE")
    parser.add_argument("--late", type=fault, action="append", default=[], metavar="RANK:MICROSECONDS")
    parser.add_argument("--published", action="store_true", help="compare with published measurements, nothing else")
    parser.add_argument("--json", action="store_true")
    return parser


def described(args: argparse.Namespace, parser: argparse.ArgumentParser) -> Cluster:
    """The cluster of the command line, without its faults checked away: wrong ones end the program."""
    plain = Cluster(
        args.nodes, args.gpus, args.cards or args.gpus, args.inside, args.card, args.inside_us, args.network_us
    )
    if plain.ranks < 2:
        parser.error("one rank has nobody to talk to: --nodes or --gpus must be above 1")
    if plain.cards > plain.gpus:
        parser.error("--cards may not exceed --gpus: a card without a GPU of its own is not modelled")
    for option, faults in ("--slow-rank", args.slow_rank), ("--late", args.late):
        if any("." in where or int(where) >= plain.ranks for where, _ in faults):
            parser.error(f"{option} takes a rank from 0 to {plain.ranks - 1}")
    cards = {}
    for where, share in args.slow_card:
        node, dot, card = where.partition(".")
        if not dot or int(node) >= plain.nodes or int(card) >= plain.cards:
            parser.error(f"--slow-card takes NODE.CARD, up to {plain.nodes - 1}.{plain.cards - 1}")
        cards[int(node), int(card)] = share
    if any(share > 1 for _, share in args.slow_rank + args.slow_card):
        parser.error("a share is a number up to 1: 0.25 is a quarter of the rate")
    ranks, late = ({int(where): value for where, value in faults} for faults in (args.slow_rank, args.late))
    return replace(plain, slow_ranks=ranks, slow_cards=cards, late=late)


def main() -> int:
    parser = arguments()
    args = parser.parse_args()
    if args.published:
        rows = list(published())
        if args.json:
            print(json.dumps(rows, indent=1))
        else:
            print(f"{'':30}{'bytes':>11}{'measured':>10}{'model':>8}{'error':>8}  allowed")
            for r in rows:
                print(f"{r['name']:30}{r['bytes']:>11}{r['measured']:>10}{r['model']:>8}{r['error']:>+8.1%}  {r['allowed']:.0%}"
                      f"  {r['unit']}, {r['role']}")  # fmt: skip
        return 0 if all(r["ok"] for r in rows) else 1
    cluster = described(args, parser)
    names = [args.algorithm] if args.algorithm else ALGORITHMS[args.op]
    if args.algorithm and args.algorithm not in ALGORITHMS[args.op]:
        parser.error(f"{args.op} is simulated with {', '.join(ALGORITHMS[args.op])} only")
    most = max(transfers(cluster, args.op, name) for name in names)
    if most > MOST:
        parser.error(f"{most} transfers are too many (limit {MOST}): fewer ranks, or --algorithm tree or hierarchical")
    healthy = replace(cluster, slow_ranks={}, slow_cards={}, late={})
    rows = []
    for name in names:
        time = seconds(cluster, args.op, name, args.size)
        fine = seconds(healthy, args.op, name, args.size) if cluster != healthy else time
        rows.append(
            {"algorithm": name, "us": round(time * 1e6, 1), "busbw": round(bus(cluster, args.op, args.size, time), 1),
             "healthy_us": round(fine * 1e6, 1), "slowdown": round(time / fine, 3)}
        )  # fmt: skip
    if args.json:
        print(
            json.dumps(
                {"op": args.op, "bytes": args.size, "ranks": cluster.ranks, "nodes": cluster.nodes, "results": rows},
                indent=1,
            )
        )
        return 0
    print(f"{args.op} of {args.size} bytes, {cluster.ranks} ranks on {cluster.nodes} nodes")
    print("algorithm         time us  busbw GB/s  x healthy")
    for r in rows:
        print(f"{r['algorithm']:13}{r['us']:12.1f}{r['busbw']:12.1f}{r['slowdown']:11.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
