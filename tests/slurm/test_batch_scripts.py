"""Every batch script of the book is accepted, and those of the Slurm chapter do what their page says."""

import re
import subprocess
import time
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = sorted(DOCS.rglob("*.sbatch"))


def log(slurm, pattern, until=""):
    """Text of the one file that matches, once it is there and holds `until`."""
    deadline = time.monotonic() + 30
    while True:
        text = "".join(file.read_text() for file in slurm.folder.glob(pattern))
        if text and until in text:
            return text
        assert time.monotonic() < deadline, f"{pattern}: {text!r}"
        time.sleep(0.2)


def wait_for(slurm, job, state, seconds=60):
    """Wait until squeue shows the job in a state; '' when it has left the queue."""
    deadline = time.monotonic() + seconds
    while slurm("squeue", "-h", "-j", job, "-o", "%t", check=False).strip() != state:
        assert time.monotonic() < deadline, slurm("scontrol", "show", "job", job)
        time.sleep(0.2)


def submit_and_wait(slurm, *arguments):
    """Submit a job and wait until it has ended well; `sbatch --wait` looks only after 2, 6, 14 … seconds."""
    job = slurm("sbatch", "--parsable", *arguments).strip()
    wait_for(slurm, job, "")
    assert re.search(r"JobState=COMPLETED .*ExitCode=0:0", slurm("scontrol", "show", "job", job), re.DOTALL)
    return job


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(DOCS)))
def test_script_is_accepted(script, lab):
    done = subprocess.run(
        ["sbatch", "--test-only", script.name], env=lab, cwd=script.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(DOCS)))
def test_no_directive_stands_after_the_first_command(script):
    lines = script.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    late = [line for line in lines[first:] if line.startswith("#SBATCH")]
    assert not late, "Slurm ignores these without a word"


def test_hello_runs_once_and_srun_on_every_node(slurm):
    submit_and_wait(slurm, "hello.sbatch")
    text = log(slurm, "hello-*.log")
    assert text.count("the script runs once") == 1
    assert len(set(re.findall(r"one task per node: (\S+) sees GPUs 0,1,2,3,4,5,6,7", text))) in (1, 2)
    assert text.count("one task per node") == 2


def test_array_then_the_job_that_depends_on_it(slurm):
    array = slurm("sbatch", "--parsable", "array.sbatch").strip()
    submit_and_wait(slurm, f"--dependency=afterok:{array}", "collect.sbatch", array)
    assert "6 results: 1e-5 3e-5 1e-4 3e-4 1e-3 3e-3" in log(slurm, "collect-*.log")
    assert "task 4 trains with 1e-3" in log(slurm, f"sweep-{array}_4.log")
    assert len(list(slurm.folder.glob(f"sweep-{array}_*.log"))) == 6


def test_dependency_on_a_failed_array_never_starts(slurm):
    array = slurm(
        "sbatch", "--parsable", "--array=0-1", "-o", "/dev/null", "--wrap", "exit $SLURM_ARRAY_TASK_ID"
    ).strip()
    after = slurm("sbatch", "--parsable", f"--dependency=afterok:{array}", "collect.sbatch", array).strip()
    wait_for(slurm, array, "")
    deadline = time.monotonic() + 30
    while "DependencyNeverSatisfied" not in slurm("squeue", "-h", "-j", after, "-o", "%r"):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_torchrun_reaches_every_rank_on_two_nodes(slurm):
    pytest.importorskip(
        "torch", reason="needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    submit_and_wait(slurm, "--gpus-per-node=1", "--cpus-per-task=4", "torchrun.sbatch")
    text = log(slurm, "torchrun-*.log")
    assert sorted(re.findall(r"rank (\d) of 2 on", text)) == ["0", "1"]
    assert text.count("sum 3, expected 3") == 2


def test_requeue_on_signal_resumes_and_appends_its_log(slurm):
    job = slurm("sbatch", "--parsable", "requeue_on_signal.sbatch", "--steps", 40, "--seconds", 0.1).strip()
    log(slurm, f"requeue-{job}.log", until="rank 0 starts")
    slurm("scancel", "--batch", "--signal=USR1", job)
    log(slurm, f"requeue-{job}.log", until=f"attempt 1 of job {job}")
    wait_for(slurm, job, "")
    text = log(slurm, f"requeue-{job}.log")
    stopped = int(re.search(r"rank 0 saves and stops at step (\d+) of 40", text)[1])
    assert 0 < stopped < 40
    assert f"attempt 1 of job {job}\n" in text and f"rank 0 starts at step {stopped}\n" in text
    assert "rank 0 ends at step 40 of 40" in text and text.endswith("ended with exit code 0\n")
    assert not list(slurm.folder.glob("stop-*"))


def test_program_that_crashes_is_not_requeued(slurm):
    job = slurm("sbatch", "--parsable", "--hold", "requeue_on_signal.sbatch", "--no-such-option").strip()
    slurm("scontrol", "release", job)
    wait_for(slurm, job, "")
    text = log(slurm, f"requeue-{job}.log")
    assert re.search(r"ended with exit code [1-9]\d*\n$", text)  # 2, or 143 when the other task was ended first
    assert "attempt 1" not in text


def test_gpus_per_task_hides_the_other_gpus_and_the_check_says_so(slurm):
    """The trap behind 'invalid device ordinal'."""
    address = {"MASTER_ADDR": "node1", "MASTER_PORT": "20000"}
    exported = "ALL," + ",".join(f"{name}={value}" for name, value in address.items())
    step = ["srun", f"--export={exported}", "-N1", "--ntasks=2"]
    program = ["python3", "allreduce_check.py", "--dry-run"]
    hidden = slurm(*step, "--gpus-per-task=1", *program, check=False)
    assert hidden.count("invalid device ordinal") == 1 and "local rank 1, but only 1 device(s) visible" in hidden
    assert "PROBLEM" not in slurm(*step, "--gpus-per-node=2", *program)


def test_directive_after_a_command_is_ignored(slurm):
    (slurm.folder / "late.sbatch").write_text("#!/bin/bash\necho preparing\n#SBATCH --nodes=2\nsrun hostname\n")
    job = slurm("sbatch", "--parsable", "--hold", "late.sbatch").strip()
    assert "NumNodes=1" in slurm("scontrol", "show", "job", job)


def test_signal_without_b_kills_a_program_that_has_no_handler(slurm):
    """The default of --signal reaches every process of a step, launchers such as torchrun included."""
    script = "srun bash -c 'echo up; sleep 30 & wait'; echo srun gave $?"
    job = slurm("sbatch", "--parsable", "-o", "direct.log", "--wrap", script).strip()
    log(slurm, "direct.log", until="up")
    slurm("scancel", "--signal=USR1", job)
    wait_for(slurm, job, "")
    assert f"srun gave {128 + 10}" in log(slurm, "direct.log")
