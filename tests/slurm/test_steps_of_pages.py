"""Steps that pages start inside a job of eight tasks a node get the tasks they ask for, not those of the job."""

import re
import shutil
import time
from pathlib import Path

import pytest

NETWORK = Path(__file__).parents[2] / "docs" / "network"
HEAD = """#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=12 --gpus-per-node=8 --exclusive --output=job.out
export SRUN_CPUS_PER_TASK=12 MASTER_PORT=29500
"""
STAND_IN = """
import os
import sys

env = os.environ
with open(f"seen-{env['SLURM_STEP_ID']}-{env['SLURM_PROCID']}", "w") as file:
    print(env["SLURM_STEP_NUM_NODES"], env["SLURM_NTASKS"], env["SLURM_STEP_TASKS_PER_NODE"], file=file)
sys.exit(env["SLURMD_NODENAME"] == env["BAD"])
"""


def fence(page: str, words: str) -> str:
    """The one bash fence of a page that holds these words, without its indentation."""
    text = (NETWORK / page).read_text()
    found = [body for body in re.findall(r"```bash\n(.*?)```", text, re.S) if words in body]
    assert len(found) == 1, (page, words, len(found))
    return re.sub(r"^    ", "", found[0], flags=re.M)


@pytest.mark.parametrize(
    ("page", "words", "bad", "steps"),
    [
        ("collectives.md", "pair-$shift", "none", {"2 16 8(x2)"}),
        ("debug.md", "halves --yes", "node3", {"4 32 8(x4)", "2 16 8(x2)"}),
        ("debug.md", "rails.json", "none", {"4 32 8(x4)", "4 4 1(x4)"}),
    ],
)
def test_a_step_has_tasks_of_its_own(slurm, page, words, bad, steps):
    for name in ("collective_bench.py", "pair_matrix.py"):
        (slurm.folder / name).write_text(STAND_IN)
    shutil.copy(NETWORK / "bad_node_search.py", slurm.folder)
    (slurm.folder / "job.sh").write_text(HEAD + f"export BAD={bad}\n" + fence(page, words))
    job = slurm("sbatch", "--parsable", "job.sh").strip()
    deadline = time.monotonic() + 90
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    said = (slurm.folder / "job.out").read_text()
    assert {path.read_text().strip() for path in slurm.folder.glob("seen-*-0")} == steps, said
    assert "can't honor" not in said and "More processors" not in said, said
