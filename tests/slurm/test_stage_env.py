"""stage-env.sbatch of the page on environments: on every node it runs, hands SIGTERM on, and leaves nothing behind."""

import os
import re
import shutil
import signal
import tarfile
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "storage" / "environments.md"
# Stands in for the environment's Python. "save" is a training that writes a checkpoint when told to stop.
PYTHON = """#!/bin/bash
case "$MODE" in
  fail) [ "$SLURM_PROCID" = 1 ] && exit 3; exec sleep 300 ;;
  save) trap 'kill $!; sleep 2; ls "$0" > /dev/null && echo "saved on $SLURMD_NODENAME"; exit 0' TERM
        echo "running under $PPID"; sleep 300 & wait ;;
  *) echo "ran $2 on $SLURMD_NODENAME" ;;
esac
"""
MOUNT = 'fusermount -uz \\"$ENV_DIR\\"; rmdir \\"$ENV_DIR\\"'


def script(folder, way):
    """The page's script with a directory for each node, because the lab's nodes share one /tmp."""
    text = PAGE.read_text()
    body = re.search(r'```slurm \{title="stage-env.sbatch"\}\n(.*?)```', text, re.S)[1]
    if way == "mount":
        assert MOUNT in text
        body = body.replace('find \\"$ENV_DIR\\" -delete', MOUNT).replace(
            'tar -xf "$IMAGE" -C', 'squashfuse_ll "$IMAGE"'
        )
    body = body.replace("ENV_DIR=/tmp/env-$SLURM_JOB_ID", f"ENV_DIR={folder}/env").replace(
        "bash -c '", "bash -c 'ENV_DIR+=-$SLURMD_NODENAME"
    )
    (folder / "job.sbatch").write_text(
        body.replace("cpus-per-task=96", "cpus-per-task=1").replace("--nodes=4", "--nodes=2")
    )


def run(slurm, mode, stop=None):
    """What the job printed, after it ended; `stop` acts on its number once every node says that it runs."""
    job = slurm("sbatch", "--parsable", f"--export=ALL,MODE={mode}", "--output=job.out", "job.sbatch").strip()
    out, deadline = slurm.folder / "job.out", time.monotonic() + 60
    while slurm("squeue", "-h", "-j", job, check=False).strip():
        assert time.monotonic() < deadline, out.read_text()
        if stop and out.exists() and out.read_text().count("running") == 2:
            stop(job)
            stop = None
        time.sleep(0.2)
    return out.read_text()


@pytest.fixture(params=["tar"])
def ready(request, slurm):
    """The job script and an image beside it, packed or to be mounted."""
    program = slurm.folder / "tree" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(PYTHON)
    program.chmod(0o755)
    if request.param == "tar":
        with tarfile.open(slurm.folder / "env.tar", "w") as archive:
            archive.add(slurm.folder / "tree", ".")
    elif not (shutil.which("mksquashfs") and shutil.which("squashfuse_ll")):
        pytest.skip("needs squashfs-tools and squashfuse: apt-get install squashfs-tools squashfuse fuse3")
    else:
        slurm("mksquashfs", "tree", "env.tar", "-noappend", "-quiet", "-no-progress")
    script(slurm.folder, request.param)
    return slurm


WAYS = ["tar", "mount"] if os.access("/dev/fuse", os.R_OK | os.W_OK) else ["tar"]  # some containers have no such device
both = pytest.mark.parametrize("ready", WAYS, indirect=True)


def left(slurm):
    """Directories and mounts that outlived the job."""
    return [
        *slurm.folder.glob("env-*"),
        *re.findall(re.escape(f"{slurm.folder}/env-") + r"\S+", Path("/proc/mounts").read_text()),
    ]


@both
def test_runs_on_every_node(ready):
    said = run(ready, "ok")
    assert said.count("staged in") == 2
    assert said.count("ran torch.distributed.run on node") == 2
    assert not left(ready)


def test_one_node_fails(ready):
    assert "Exited with exit code 3" in run(ready, "fail")
    assert not left(ready)


def test_no_image(ready):
    (ready.folder / "env.tar").unlink()
    assert "No such file or directory" in run(ready, "ok")
    assert not left(ready)


@both
def test_scancel_lets_the_training_save_first(ready):
    said = run(ready, "save", stop=lambda job: ready("scancel", job))
    assert said.count("saved on node") == 2
    assert not left(ready)


def test_sigterm_to_the_shell_alone_reaches_the_training(ready):
    """As proctrack/cgroup does it: only the task's own process gets the signal."""

    def stop(job):
        shells = re.findall(r"running under (\d+)", (ready.folder / "job.out").read_text())
        for shell in [*shells, *shells]:  # twice, as at the time limit
            os.kill(int(shell), signal.SIGTERM)
            time.sleep(0.3)

    assert run(ready, "save", stop).count("saved on node") == 2
    assert not left(ready)
