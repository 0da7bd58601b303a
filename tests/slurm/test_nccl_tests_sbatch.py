"""docs/network/nccl_tests.sbatch: four collectives three times, and void unless every rank is listed once."""

import os
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "network" / "nccl_tests.sbatch"
STAND_IN = """#!/bin/bash
if [ "$MODE" = together ]; then
  [ "$SLURM_PROCID" = 0 ] || exit 0
  for ((rank = 0; rank < SLURM_NTASKS; rank++)); do printf '#  Rank %2d Group  0 Pid 1 on node\\n' "$rank"; done
elif [ "$MODE" = alone ]; then
  echo "#  Rank  0 Group  0 Pid 1 on node"
fi
"""


@pytest.mark.parametrize(
    ("mode", "words", "code"),
    [
        ("together", "", "0:0"),
        ("alone", "1 different ranks listed, 4 started", "1:0"),  # each task believes to be the only one
        ("silent", "0 different ranks listed, 4 started", "1:0"),
        ("nompi", "built without MPI=1", "1:0"),
    ],
)
def test_ranks_that_run_alone_are_void(slurm, mode, words, code):
    text = SCRIPT.read_text()
    assert "--mpi=pmix" in text
    (slurm.folder / SCRIPT.name).write_text(text.replace("--mpi=pmix", "--mpi=none"))  # Debian's needs libpmix
    tools = slurm.folder / "tools"
    tools.mkdir()
    for name in ("all_gather_perf", "reduce_scatter_perf", "all_reduce_perf", "alltoall_perf"):
        (tools / name).write_text(STAND_IN)
    (tools / "ldd").write_text("#!/bin/sh\n[ $MODE = nompi ] || { echo libmpi.so.40; sleep 0.5; echo libc.so.6; }\n")
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 580.65, 1980\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    export = f"--export=ALL,MODE={mode},TESTS={tools},PATH={tools}{os.pathsep}{os.environ['PATH']}"
    job = slurm("sbatch", "--parsable", export, "--nodes=2", "--ntasks-per-node=2", SCRIPT.name).strip()
    deadline = time.monotonic() + 90
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    said = (slurm.folder / f"nccl-tests-{job}.out").read_text()
    assert f"ExitCode={code}" in slurm("scontrol", "show", "job", job), said
    assert said.count("VOID") == (12 if "listed" in words else 0) and words in said, said
    assert len(list(slurm.folder.glob(f"*_perf-{job}-[123].txt"))) == (0 if mode == "nompi" else 12)
    if mode == "together":
        assert "2 580.65, 1980" in said, said  # one line a node, not one a task
