"""docs/storage/fio.sbatch: four nodes run a job file at the same time, the results are added up, nothing is left."""

import re
import shutil
import time
from pathlib import Path

import pytest

STORAGE = Path(__file__).parents[2] / "docs" / "storage"


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: sudo apt-get install fio")
def test_four_nodes_are_added_up_and_leave_nothing(slurm):
    for name in ("fio.sbatch", "fio_sweep.py"):
        shutil.copy(STORAGE / name, slurm.folder)
    text = (STORAGE / "checkpoint-write.fio").read_text()
    for option, value in (("size", "2m"), ("numjobs", "2")):
        text = re.sub(rf"^{option}=\S+", f"{option}={value}", text, flags=re.M)
    (slurm.folder / "small.fio").write_text(text)
    (slurm.folder / "disk").mkdir()
    job = slurm("sbatch", "--parsable", "fio.sbatch", "small.fio", "disk").strip()
    deadline = time.monotonic() + 60
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)
    said = (slurm.folder / f"fio-{job}.out").read_text()
    assert re.search(r"^page-cache write +1 +8 ", said, re.M), said  # 4 nodes with 2 jobs each
    assert said.count("over 4 files; slowest node") == 2, said
    assert len(list((slurm.folder / f"fio-{job}").glob("node*.json"))) == 4
    assert not list((slurm.folder / "disk").iterdir())
