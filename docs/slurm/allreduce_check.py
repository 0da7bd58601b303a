#!/usr/bin/env python3
"""Does the launch work? Every rank says where it runs, then all of them add up one number.

    torchrun --nproc-per-node=2 allreduce_check.py      on one machine, with or without GPUs
    srun … torchrun … allreduce_check.py                see torchrun.sbatch
    srun … python3 allreduce_check.py --dry-run         only look at the environment, without PyTorch

Ranks come from torchrun's variables or, started by srun alone, from Slurm's. NCCL is used where CUDA
devices are visible, gloo elsewhere. Exit codes: 0 the sum is right, 1 it is not or the environment
cannot work, 2 misuse or PyTorch is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from datetime import timedelta

INSTALL = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
SLURM_NAMES = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}


def environment() -> dict[str, object]:
    """Rank, local rank, world size, rendezvous and visible devices, as this process sees them."""
    seen: dict[str, object] = {"host": socket.gethostname()}
    for name, fallback in SLURM_NAMES.items():
        value = os.environ.get(name, os.environ.get(fallback, ""))
        seen[name.lower()] = int(value) if value.isdecimal() else None
    seen["master"] = os.environ.get("MASTER_ADDR", "") + ":" + os.environ.get("MASTER_PORT", "")
    seen["visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    return seen


def problems(seen: dict[str, object]) -> list[str]:
    """What in the environment will fail later, with the fix."""
    found = [
        f"{name.upper()} is not set: start with torchrun or srun"
        for name in ("rank", "local_rank", "world_size")
        if seen[name] is None
    ]
    if not found and int(str(seen["rank"])) >= int(str(seen["world_size"])):
        found.append(f"rank {seen['rank']} does not exist among {seen['world_size']}: count ranks from 0")
    address, _, port = str(seen["master"]).rpartition(":")
    if not address or not port:
        found.append("MASTER_ADDR or MASTER_PORT is not set: torchrun sets them, with srun alone export them")
    elif not port.isdecimal() or int(port) > 65535:
        found.append(f"MASTER_PORT is {port}, not a port number: 20000 + SLURM_JOB_ID % 10000 is one")
    devices = seen["visible_devices"]
    count = len(str(devices).split(",")) if devices else 0
    if count and seen["local_rank"] is not None and int(str(seen["local_rank"])) >= count:
        found.append(
            f"local rank {seen['local_rank']}, but only {count} device(s) visible: cuda:{seen['local_rank']} will be "
            "'invalid device ordinal'; ask for --gpus-per-node instead of --gpus-per-task"
        )
    return found


def all_reduce(seen: dict[str, object], timeout_s: int) -> dict[str, object]:
    """Sum of rank + 1 over all ranks, found by all-reduce and by arithmetic. Raises ImportError without PyTorch."""
    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(str(seen["local_rank"]))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    rank, world = int(str(seen["rank"])), int(str(seen["world_size"]))
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=timedelta(seconds=timeout_s))
    number = torch.tensor([rank + 1.0], device=device)
    dist.all_reduce(number)
    dist.destroy_process_group()
    return {"backend": backend, "device": str(device), "sum": number.item(), "expected": world * (world + 1) / 2}


def main() -> int:
    """Look, all-reduce, report; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="report the environment only; needs no PyTorch")
    parser.add_argument("--timeout", type=int, default=120, help="seconds to wait for the other ranks (default 120)")
    parser.add_argument("--json", action="store_true", help="one JSON document per rank on standard output")
    options = parser.parse_args()
    if options.timeout < 1:
        parser.error("--timeout must be at least one second")
    report = environment()
    found = problems(report)
    if not found and not options.dry_run:
        try:
            report.update(all_reduce(report, options.timeout))
        except ImportError:
            print(f"PyTorch is missing: {INSTALL}", file=sys.stderr)
            return 2
        except RuntimeError as error:  # what torch.distributed raises when it reaches nobody
            text = (str(error).strip() or "no reason given").splitlines()[0]
            found.append(f"no sum with {report['master']} as meeting point: {type(error).__name__}: {text}")
        if "sum" in report and report["sum"] != report["expected"]:
            found.append(f"the sum is {report['sum']}, not {report['expected']}")
    if options.json:
        print(json.dumps({**report, "problems": found}))
    else:
        line = "rank {rank} of {world_size} on {host}: local rank {local_rank}, visible devices {visible_devices}"
        tail = ", {backend} on {device}, sum {sum:.0f}, expected {expected:.0f}" if "sum" in report else ""
        print("\n".join([(line + tail).format(**report), *(f"  PROBLEM: {text}" for text in found)]), flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
