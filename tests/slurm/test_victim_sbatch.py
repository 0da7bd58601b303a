"""docs/network/victim.sbatch: rounds alternate, victim and neighbour share no node, the neighbour is ended."""

import json
import re
import shutil
import time
from pathlib import Path

NETWORK = Path(__file__).parents[2] / "docs" / "network"
STAND_IN = """
import json, os, sys, time

first = os.environ["SLURM_PROCID"] == "0"
if "all_to_all" in sys.argv:
    open("neighbour-" + os.environ["SLURMD_NODENAME"], "w").close()
    time.sleep(float(os.environ.get("LASTS", "600")))
    sys.exit()
if os.environ["MASTER_PORT"].startswith("21"):
    time.sleep(float(os.environ.get("VICTIM", "0")))
if first:
    time_us = 300 if os.path.exists("neighbour-node2") and os.environ["MASTER_PORT"].startswith("21") else 100
    row = {"op": "all_reduce", "bytes": 1024, "time_us": time_us}
    print(json.dumps({"nodes": os.environ["SLURM_STEP_NODELIST"], "tasks": os.environ["SLURM_NTASKS"], "rows": [row]}))
"""


def test_two_rounds_are_compared_and_nothing_is_left(slurm):
    for name in ("victim.sbatch", "victim_report.py"):
        shutil.copy(NETWORK / name, slurm.folder)
    (slurm.folder / "collective_bench.py").write_text(STAND_IN)
    job = slurm(
        "sbatch", "--parsable", "--export=ALL,ROUNDS=2,RANKS=2,START=2", "--gpus-per-node=2", "victim.sbatch"
    ).strip()
    deadline = time.monotonic() + 90
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    said = (slurm.folder / f"victim-{job}.out").read_text()
    assert "victim node1,node3; neighbour node2,node4" in said
    assert re.search(r"all_reduce +1 KiB +100 +100 +300 +300 +3\.00 +3\.00 +SLOWER TAIL", said), said
    for kind in ("alone", "loaded"):
        runs = [json.loads(line) for line in (slurm.folder / f"{kind}-{job}.jsonl").read_text().splitlines()]
        assert [(run["nodes"], run["tasks"]) for run in runs] == [("node[1,3]", "4")] * 2
    assert "ExitCode=1:0" in slurm("scontrol", "show", "job", job)  # the report's verdict is the job's
    assert {path.name for path in slurm.folder.glob("neighbour-*")} == {"neighbour-node2", "neighbour-node4"}


def test_a_neighbour_that_ends_too_early_is_told(slurm):
    for name in ("victim.sbatch", "victim_report.py"):
        shutil.copy(NETWORK / name, slurm.folder)
    (slurm.folder / "collective_bench.py").write_text(STAND_IN)
    export = "--export=ALL,ROUNDS=2,RANKS=2,START=1,LASTS=4,VICTIM=8"
    job = slurm("sbatch", "--parsable", export, "--gpus-per-node=2", "victim.sbatch").strip()
    deadline = time.monotonic() + 90
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    said = (slurm.folder / f"victim-{job}.out").read_text()
    assert "round 0 is void: the neighbour ended before the victim: --op all_to_all" in said, said
    assert "ExitCode=1:0" in slurm("scontrol", "show", "job", job)


def test_a_victim_of_one_node_is_refused(slurm):
    shutil.copy(NETWORK / "victim.sbatch", slurm.folder)
    job = slurm("sbatch", "--parsable", "--nodes=3", "--gpus-per-node=8", "victim.sbatch").strip()
    deadline = time.monotonic() + 60
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    assert "4 nodes or more" in (slurm.folder / f"victim-{job}.out").read_text()
    assert "ExitCode=2:0" in slurm("scontrol", "show", "job", job)
