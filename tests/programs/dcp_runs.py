"""Save a sharded model with four processes and load it with two, with one import of PyTorch.

    python dcp_runs.py DIR

writes DIR/four (FSDP2 over four ranks, after two steps of AdamW), DIR/two (loaded from it by two ranks and
saved again), DIR/columns (the weights, loaded with the other dimension split), DIR/four.pt (converted) and
DIR/read.json: how many bytes each of the two ranks read, counted in DCP's own plan.
"""

import json
import multiprocessing
import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor


def model_and_optimizer(seed, ranks):
    torch.manual_seed(seed)
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(1000, 64), *blocks, nn.BatchNorm1d(64))
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model[1:3]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def state_of(model, optimizer, **more):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optim": moments, **more}


def save(rank, ranks, directory):
    model, optimizer = model_and_optimizer(0, ranks)
    for step in range(2):
        torch.manual_seed(step)
        model(torch.randint(0, 1000, (32,))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dcp.save(state_of(model, optimizer, step=2, who=f"rank {rank}"), checkpoint_id=directory / "four")


class CountingReader(dcp.FileSystemReader):
    def read_data(self, plan, planner):
        self.read = sum(self.storage_data[item.storage_index].length for item in plan.items)
        return super().read_data(plan, planner)


def load(rank, ranks, directory):
    model, optimizer = model_and_optimizer(1, ranks)
    state = state_of(model, optimizer, step=0, who="")
    reader = CountingReader(directory / "four")
    dcp.load(state, storage_reader=reader)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    (directory / f"read-{rank}.json").write_text(json.dumps({"read": reader.read, "who": state["who"]}))
    dcp.save(state_of(model, optimizer, step=state["step"], who=state["who"]), checkpoint_id=directory / "two")
    mesh = init_device_mesh("cpu", (ranks,))
    columns = {"model": {"1.0.weight": distribute_tensor(torch.zeros(256, 64), mesh, [Shard(1)])}}
    dcp.load(columns, checkpoint_id=directory / "four")
    dcp.save(columns, checkpoint_id=directory / "columns")


def process(work, rank, ranks, port, directory):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    work(rank, ranks, directory)
    dist.destroy_process_group()


def main():
    directory = Path(sys.argv[1])
    for work, ranks in ((save, 4), (load, 2)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        fork = multiprocessing.get_context("fork")
        workers = [fork.Process(target=process, args=(work, rank, ranks, port, directory)) for rank in range(ranks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            sys.exit(f"{work.__name__} failed")
    dcp_to_torch_save(directory / "four", directory / "four.pt")


if __name__ == "__main__":
    main()
