"""A four-node Slurm for the session, and helpers to submit to it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SLURM_PAGES = Path(__file__).parents[2] / "docs" / "slurm"
PROGRAM = SLURM_PAGES / "slurm_lab.py"


@pytest.fixture(scope="session")
def slurm_lab():
    """The module of the reader's program; skips where Slurm is not installed."""
    spec = importlib.util.spec_from_file_location("slurm_lab", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        for name in ("munged", "slurmctld", "slurmd", "sbatch"):
            module.daemon(name)
    except module.MissingPackages as error:
        pytest.skip(f"needs Slurm and MUNGE: {error}")
    return module


@pytest.fixture(scope="session")
def lab(slurm_lab):
    """Environment of a running lab; this interpreter's programs (torchrun) come first on PATH."""
    with slurm_lab.lab(nodes=4, gpus=8) as environment:
        yield {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}


@pytest.fixture
def slurm(lab, tmp_path):
    """Runs a Slurm command in a folder that holds copies of the chapter's files; returns its standard output."""
    for file in [*SLURM_PAGES.glob("*.sbatch"), *SLURM_PAGES.glob("*.py")]:
        shutil.copy(file, tmp_path)

    def run(*command, check=True):
        done = subprocess.run([*map(str, command)], env=lab, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.folder = tmp_path
    yield run
    run("scancel", "--user", os.environ.get("USER") or str(os.geteuid()), check=False)
