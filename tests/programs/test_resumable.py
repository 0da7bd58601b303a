"""resumable.py stops when asked, resumes where it saved, and lets only rank 0 save."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "slurm" / "resumable.py"


@pytest.fixture
def run(tmp_path):
    def call(*args, rank=0):
        command = [sys.executable, str(PROGRAM), "--checkpoint", "steps.json", "--stop-file", "stop", "--seconds", "0"]
        env = {**os.environ, "SLURM_PROCID": str(rank)}
        return subprocess.run([*command, *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30)

    call.checkpoint, call.stop = tmp_path / "steps.json", tmp_path / "stop"
    return call


def test_it_runs_to_the_end_and_saves(run):
    done = run("--steps", "5")
    assert done.returncode == 0 and "ends at step 5 of 5" in done.stdout
    assert json.loads(run.checkpoint.read_text()) == {"step": 5}


def test_stop_file_makes_it_save_after_the_step(run):
    run.stop.touch()
    done = run("--steps", "5")
    assert done.returncode == 0 and "saves and stops at step 1 of 5" in done.stdout
    run.stop.unlink()
    assert "starts at step 1\n" in run("--steps", "5").stdout
    assert json.loads(run.checkpoint.read_text()) == {"step": 5}


def test_finished_run_does_nothing_more(run):
    run.checkpoint.write_text('{"step": 5}')
    done = run("--steps", "5", "--seconds", "60")
    assert done.returncode == 0 and "ends at step 5" in done.stdout


def test_other_ranks_do_not_save(run):
    assert run("--steps", "3", rank=1).returncode == 0
    assert not run.checkpoint.exists()


@pytest.mark.parametrize("arguments", [("--steps", "0"), ("--seconds", "nan"), ("--seconds", "-1")])
def test_misuse_is_refused(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2 and "must be" in done.stderr and not run.checkpoint.exists()


def test_checkpoint_that_cannot_be_saved_or_read_is_an_error(run):
    done = run("--steps", "2", "--checkpoint", "no/such/folder.json")
    assert done.returncode == 1 and "cannot save step 2" in done.stderr and "Traceback" not in done.stderr
    run.checkpoint.mkdir()
    done = run()
    assert done.returncode == 1 and "cannot read" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"step": null}', '{"step": -5}'])
def test_broken_checkpoint_is_named(run, text):
    run.checkpoint.write_text(text)
    done = run()
    assert done.returncode == 1 and "steps.json is no checkpoint" in done.stderr
    assert run.checkpoint.read_text() == text
