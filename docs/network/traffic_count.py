#!/usr/bin/env python3
"""Run a tiny Transformer under each parallelism, count the bytes of every collective, compare with the formula.

    traffic_count.py [--case fsdp,fsdp_keep]   all or some cases, four CPU processes (gloo), half a minute
    traffic_count.py --dry-run                 the cases and their formulas' bytes; needs no PyTorch

Counted are the calls that really reach the process group, from Python and from C++ (DDP's reducer), by a dispatch
mode; for a model of your own: `with counter_class()() as seen: step()`, then read `seen.sent`. A call of S bytes on n
ranks counts as what a rank must send: 2(n-1)/n S for an all-reduce, (n-1)/n S for an all-gather (S: output), a
reduce-scatter and an all-to-all (S: input), S for a send and for the root of a broadcast. The first step is not
counted, for DDP the first two: pipelines exchange shapes, DDP rebuilds buckets. Reported is the rank that sends most.

Exit codes: 0 fine, 1 a count differs from its formula, 2 misuse or a failed run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

RANKS = 4
MOST = 20_000_000  # parameters, and values of all activations: four processes must fit into a laptop
NO_TORCH = "PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu"


class Shape(argparse.Namespace):
    """hidden, layers, sequence, micro (micro-batches of a step); the model is fp32 and a micro-batch is one sequence."""

    @property
    def params(self) -> int:
        return self.layers * 12 * self.hidden**2

    @property
    def act(self) -> int:
        """Bytes of one layer's activations of a micro-batch."""
        return self.sequence * self.hidden * 4


def ring(n: int = RANKS) -> float:
    return (n - 1) / n


def formulas(s: Shape) -> dict[str, tuple[str, dict[str, float]]]:
    """Case -> what it is, and the bytes that a rank sends in a step, by kind of collective."""
    p, m, f = 4 * s.params, s.micro, ring()  # p: bytes of the whole model in fp32
    layer = 2 * f * s.act  # an all-reduce of the activations
    gather, scatter, reduce, swap = "all_gather", "reduce_scatter", "all_reduce", "all_to_all"
    return {
        "ddp": ("DDP, no_sync but in the last micro-batch", {reduce: 2 * f * p}),
        "ddp_sync": ("DDP, no_sync forgotten", {reduce: 2 * f * p * m}),
        "ddp_fp16": ("DDP, fp16 compression hook", {reduce: 2 * f * p / 2}),
        "ddp_frozen": ("DDP, half of the layers frozen", {reduce: 2 * f * p / 2}),
        "ddp_unused": ("DDP, find_unused_parameters, 1 flag a tensor", {reduce: 2 * f * (p + 4 * 6 * s.layers)}),
        "zero1": ("DDP and ZeroRedundancyOptimizer", {reduce: 2 * f * p, "broadcast": p / RANKS}),
        "fsdp": ("FSDP2", {gather: 2 * f * p * m, scatter: f * p * m}),
        "fsdp_keep": ("FSDP2, reshard_after_forward=False", {gather: f * p * m, scatter: f * p * m}),
        "fsdp_once": ("FSDP2, gradients synchronised once", {gather: 2 * f * p * m, scatter: f * p}),
        "fsdp_mixed": ("FSDP2, bf16 parameters, fp32 reduction", {gather: 2 * f * p / 2 * m, scatter: f * p * m}),
        "fsdp_root": ("FSDP2, only the root wrapped", {gather: f * p * m, scatter: f * p * m}),
        "hsdp": ("FSDP2 on a 2 x 2 mesh (hybrid), all-reduce once", {gather: p * m, scatter: p / 2 * m, reduce: p / 2}),
        "tp": ("TP, one input for q, k and v", {reduce: 4 * s.layers * layer * m}),
        "tp_naive": ("TP, q, k and v each with its own input", {reduce: 6 * s.layers * layer * m}),
        "tp_sp": (
            "TP with sequence parallelism",
            {gather: 2 * s.layers * layer * m, scatter: 2 * s.layers * layer * m},
        ),
        "vocab": ("vocabulary-parallel loss, 3 floats a token", {reduce: 3 * 2 * f * 4 * s.sequence * m}),
        "pp": ("PP, 1F1B, inner stage", {"send": 2 * s.act * 2 * RANKS}),
        "pp_inter": ("PP, interleaved, 2 chunks a rank", {"send": 2 * 2 * s.act * 2 * RANKS}),
        "ulysses": ("Ulysses, 4 all-to-alls forward, 4 backward", {swap: 8 * s.layers * f * s.act / RANKS * m}),
        "ep": ("EP, top-2, balanced, one sequence a rank", {swap: 4 * s.layers * 2 * f * s.act * m}),
    }


def counter_class():
    """Counter, made late because it needs PyTorch."""
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group
    from torch.distributed.tensor import DTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    def nbytes(x) -> int:
        return sum(map(nbytes, x)) if isinstance(x, (list, tuple)) else x.nbytes

    def leaves(group, splits, data) -> float:
        """Bytes of an all-to-all's input that are for other ranks."""
        return nbytes(data) * (1 - splits[group.rank()] / max(1, sum(splits)) if splits else ring(group.size()))

    # operator -> kind, place of the group, bytes that this rank sends from (args, group)
    reduce = ("all_reduce", lambda a, g: 2 * ring(g.size()) * nbytes(a[0]))
    table = {
        "c10d::allreduce_": (1, *reduce),
        "c10d::_allgather_base_": (2, "all_gather", lambda a, g: ring(g.size()) * nbytes(a[0])),
        "c10d::_reduce_scatter_base_": (2, "reduce_scatter", lambda a, g: ring(g.size()) * nbytes(a[1])),
        "c10d::alltoall_base_": (2, "all_to_all", lambda a, g: leaves(g, a[4], a[1])),
        "c10d::broadcast_": (1, "broadcast", lambda a, g: nbytes(a[0]) if a[2] == g.rank() else 0),
        "c10d::send": (1, "send", lambda a, g: nbytes(a[0])),
        "_c10d_functional::all_reduce": (2, *reduce),
        "_c10d_functional::all_gather_into_tensor": (2, "all_gather", lambda a, g: (g.size() - 1) * nbytes(a[0])),
        "_c10d_functional::reduce_scatter_tensor": (3, "reduce_scatter", lambda a, g: ring(g.size()) * nbytes(a[0])),
        "_c10d_functional::all_to_all_single": (3, "all_to_all", lambda a, g: leaves(g, a[2], a[0])),
    }
    silent = {"recv_", "barrier", "wait_tensor", "_wrap_tensor_autograd"}

    class Counter(TorchDispatchMode):
        """sent: kind -> bytes of this rank; calls: kind -> how often. Operators it does not know: kind 'other:NAME'."""

        def __init__(self) -> None:
            super().__init__()
            self.sent: dict[str, float] = {}
            self.calls: dict[str, int] = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(issubclass(t, DTensor) for t in types):
                return NotImplemented  # DTensor first turns into its collectives, then these come by
            result = func(*args, **(kwargs or {}))
            name = func.name().split(".")[0]
            if name.startswith(("c10d::", "_c10d_functional::")) and name.split("::")[1] not in silent:
                place, kind, count = table.get(name, (None, "other:" + name, None))
                group = args[place] if place else None
                group = _resolve_process_group(group) if isinstance(group, str) else group
                group = dist.ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group
                self.sent[kind] = self.sent.get(kind, 0) + (count(args, group) if count else 0)
                self.calls[kind] = self.calls.get(kind, 0) + 1
            return result

    return Counter


def block_class():
    import torch.nn.functional as F
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, hidden: int, head: int) -> None:
            super().__init__()
            self.head = head
            self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

        def forward(self, x):  # (1, sequence, hidden); under TP hidden // RANKS between q and o
            q, k, v = (w(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for w in (self.q, self.k, self.v))
            return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    class Block(nn.Module):
        # 12 hidden² parameters; no norms and biases, so that the counts are exact
        def __init__(self, hidden: int) -> None:
            super().__init__()
            self.attention = Attention(hidden, hidden // RANKS)
            self.up, self.down = nn.Linear(hidden, 4 * hidden, bias=False), nn.Linear(4 * hidden, hidden, bias=False)

        def forward(self, x):
            x = x + self.attention(x)
            return x + self.down(F.gelu(self.up(x)))

    return Block


def steps(case: str, s: Shape, rank: int):
    """A function that does one step of the case; gradients, no evaluation of the result."""
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh

    block = block_class()
    torch.manual_seed(0)
    model = nn.Sequential(*(block(s.hidden) for _ in range(s.layers)))
    length = s.sequence // RANKS if case in ("tp_sp", "ulysses") else s.sequence
    x = torch.randn(1, length, s.hidden, requires_grad=True)

    plain = contextlib.nullcontext()

    def accumulate(before=lambda last: plain, forward=model, after=lambda: None):
        for i in range(s.micro):
            with before(i == s.micro - 1) or plain:
                forward(x).sum().backward()
        after()

    if case.startswith("ddp") or case == "zero1":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        from torch.distributed.optim import ZeroRedundancyOptimizer

        if case == "ddp_frozen":
            model[: s.layers // 2].requires_grad_(False)
        ddp = nn.parallel.DistributedDataParallel(model, find_unused_parameters=case == "ddp_unused")
        if case == "ddp_fp16":
            ddp.register_comm_hook(None, fp16_compress_hook)
        sharded = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.1)
        after = sharded.step if case == "zero1" else lambda: None
        return lambda: accumulate(lambda last: plain if last or case == "ddp_sync" else ddp.no_sync(), ddp, after)
    if case.startswith(("fsdp", "hsdp")):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        shape = {"mesh_shape": (2, 2), "mesh_dim_names": ("replicate", "shard")}
        mesh = init_device_mesh("cpu", **(shape if case == "hsdp" else {"mesh_shape": (RANKS,)}))
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if case == "fsdp_mixed" else MixedPrecisionPolicy()
        for one in () if case == "fsdp_root" else model:
            fully_shard(one, mesh=mesh, mp_policy=policy, reshard_after_forward=case != "fsdp_keep")
        fully_shard(model, mesh=mesh, mp_policy=policy)

        def before(last):
            model.set_requires_gradient_sync(last or case != "fsdp_once")
            model.set_requires_all_reduce(last)

        return lambda: accumulate(before)
    if case.startswith("tp"):
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor import parallel as tp

        edge = Shard(1) if case == "tp_sp" else Replicate()
        plan = {"attention." + w: tp.ColwiseParallel() for w in "qkv"}
        if case != "tp_naive":
            plan["attention"] = tp.PrepareModuleInput(input_layouts=edge, desired_input_layouts=Replicate())
        plan.update({w: tp.RowwiseParallel(output_layouts=edge) for w in ("attention.o", "down")})
        plan["up"] = tp.ColwiseParallel(input_layouts=edge)
        for one in model:
            tp.parallelize_module(one, init_device_mesh("cpu", (RANKS,)), plan)
        return accumulate
    if case == "vocab":
        from torch.distributed.tensor import Shard, distribute_tensor
        from torch.distributed.tensor.parallel import loss_parallel

        logits = torch.randn(s.sequence, 32 * RANKS)
        split = distribute_tensor(logits, init_device_mesh("cpu", (RANKS,)), [Shard(1)]).requires_grad_()
        labels = torch.zeros(s.sequence, dtype=torch.long)

        def losses():
            with loss_parallel():
                for _ in range(s.micro):
                    nn.functional.cross_entropy(split, labels).backward()

        return losses
    if case.startswith("pp"):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

        count, batches = RANKS * (2 if case == "pp_inter" else 1), 2 * RANKS
        per, cpu = s.layers // count, torch.device("cpu")
        own = range(rank, count, RANKS)
        stages = [PipelineStage(model[i * per : (i + 1) * per], i, count, cpu) for i in own]
        kind, what = (ScheduleInterleaved1F1B, stages) if case == "pp_inter" else (Schedule1F1B, stages[0])
        schedule = kind(what, batches, loss_fn=lambda out, target: (out - target).square().mean())
        data = torch.randn(batches, s.sequence, s.hidden)
        return lambda: schedule.step(*([data] if rank == 0 else []), **({"target": data} if rank == RANKS - 1 else {}))
    return lambda: accumulate(forward=exchanged(case, s))


def exchanged(case: str, s: Shape):
    """Layers of a hand-written Ulysses attention or mixture of experts: only what crosses ranks is real."""
    import torch
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    def swap(x):  # piece i of RANKS goes to rank i
        return all_to_all_single_autograd(x, None, None, dist.group.WORLD)

    def forward(x):
        for _ in range(s.layers):
            if case == "ulysses":  # split by sequence -> split by heads, and back for the output
                q, k, v = (swap(x.flatten().clone()) for _ in range(3))
                x = swap(q + k + v).view_as(x)
            else:  # top-2: token i goes to experts 2i and 2i + 1, modulo all
                tokens = x[0].repeat_interleave(2, dim=0)
                order = torch.arange(len(tokens)).remainder(RANKS).argsort(stable=True)
                back = swap(torch.relu(swap(tokens[order])))
                x = back[order.argsort()].view(-1, 2, s.hidden).sum(1)[None]
        return x

    return forward


def worker(rank: int, s: Shape, cases: list[str], folder: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    loop = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]  # Linux, macOS
    if loop:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loop[0])
    dist.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    counter, results = counter_class(), {}
    for case in cases:
        step = steps(case, s, rank)
        for _ in range(2 if case.startswith(("ddp", "zero1")) else 1):
            step()
        with counter() as seen:
            step()
        everyone: list = [None] * RANKS
        dist.all_gather_object(everyone, (seen.sent, seen.calls))
        sent, calls = max(everyone, key=lambda one: sum(one[0].values()))
        results[case] = {"sent": {kind: round(size) for kind, size in sent.items()}, "calls": calls}
    if rank == 0:
        (folder / "results").write_text(json.dumps(results))
    dist.barrier()
    os._exit(0)  # gloo's threads may abort an ordinary exit after many groups


def measure(s: Shape, cases: list[str]) -> dict:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the ranks inherit it: Ctrl-C is dealt with here
        try:
            ranks = torch.multiprocessing.spawn(worker, (s, cases, Path(folder)), nprocs=RANKS, join=False)
        finally:
            signal.signal(signal.SIGINT, before)
        try:
            while not ranks.join():
                pass
        except KeyboardInterrupt:
            for process in ranks.processes:
                process.kill()
                process.join()
            raise
        return json.loads((Path(folder) / "results").read_text())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="all", help="names with commas between them (default: all)")
    for name, default in (("hidden", 64), ("layers", 8), ("sequence", 32), ("micro", 3)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--dry-run", action="store_true", help="formulas only")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    s = Shape(hidden=args.hidden, layers=args.layers, sequence=args.sequence, micro=args.micro)
    if min(vars(s).values()) < 1 or s.hidden % 32 or s.layers % (2 * RANKS) or s.sequence % RANKS:
        parser.error("--hidden must be a multiple of 32, --layers of 8, --sequence of 4, --micro at least 1")
    if max(vars(s).values()) > 10**9:
        parser.error("--hidden, --layers, --sequence and --micro must be at most 1,000,000,000")
    known = formulas(s)
    cases = list(known) if args.case == "all" else list(dict.fromkeys(one.strip() for one in args.case.split(",")))
    if wrong := [case for case in cases if case not in known]:
        parser.error(f"no case {wrong[0]!r}: {', '.join(known)}")
    if not args.dry_run and max(s.params, s.layers * s.sequence * s.hidden * s.micro) > MOST:
        parser.error(f"too large to run here, at most {MOST:,} parameters and activations: smaller, or --dry-run")
    if not args.dry_run and importlib.util.find_spec("torch") is None:
        print(NO_TORCH, file=sys.stderr)
        return 2
    try:
        counted = {} if args.dry_run else measure(s, cases)
    except Exception as problem:
        print(f"a rank failed: {str(problem).strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    found = []
    for case in cases:
        formula = {kind: round(size) for kind, size in known[case][1].items()}
        one = {"case": case, "what": known[case][0], "formula": formula, **counted.get(case, {})}
        found.append({**one, "agrees": one["sent"] == formula if "sent" in one else None})
    if args.json:
        print(json.dumps({"ranks": RANKS, **vars(s), "parameters": s.params, "cases": found}, indent=1))
    else:
        print(f"{RANKS} ranks, {s.params:,} parameters, {s.micro} micro-batches of {s.sequence} tokens, fp32")
        print(f"{'case':11}{'kind':15}{'formula B':>11}{'counted B':>11}{'calls':>6}")
        for one in found:
            for kind in {**one["formula"], **one.get("sent", {})}:
                sent, calls = one.get("sent", {}).get(kind, "-"), one.get("calls", {}).get(kind, "-")
                mark = "  DIFFERS" if one["agrees"] is False else "" if counted else "  " + one["what"]
                print(f"{one['case']:11}{kind:15}{one['formula'].get(kind, 0):11}{sent:>11}{calls:>6}{mark}")
    return 1 if any(one["agrees"] is False for one in found) else 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError as problem:  # the reader of a pipe left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1 if isinstance(problem, BrokenPipeError) else 2
        if code == 2:
            print(f"traffic_count.py: {problem}", file=sys.stderr)
    sys.exit(code)
