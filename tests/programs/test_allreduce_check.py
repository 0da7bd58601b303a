"""allreduce_check.py reads torchrun's and Slurm's variables, finds bad launches, and adds up the ranks."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "slurm" / "allreduce_check.py"
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")


def run(*args, **variables):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES and not name.startswith("SLURM")}
    return subprocess.run(
        [sys.executable, str(PROGRAM), *args], env={**clean, **variables}, capture_output=True, text=True, timeout=120
    )


TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "20001"}


def test_torchrun_variables_win_over_slurm():
    done = run("--dry-run", "--json", SLURM_PROCID="7", SLURM_LOCALID="7", SLURM_NTASKS="8", **TORCHRUN)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["problems"] == []
    assert (report["rank"], report["local_rank"], report["world_size"]) == (1, 1, 2)
    assert report["master"] == "node1:20001"


def test_slurm_variables_serve_without_torchrun():
    address = {"MASTER_ADDR": "node1", "MASTER_PORT": "20001"}
    done = run(
        "--dry-run", SLURM_PROCID="9", SLURM_LOCALID="1", SLURM_NTASKS="16", CUDA_VISIBLE_DEVICES="0,1", **address
    )
    assert done.returncode == 0
    assert "rank 9 of 16" in done.stdout and "local rank 1, visible devices 0,1" in done.stdout


def test_plain_python_is_told_what_is_missing():
    done = run()
    assert done.returncode == 1
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"):
        assert f"{name}" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("visible, problem", [("3", True), ("0,1", False), ("", False)])
def test_hidden_device_is_found(visible, problem):
    done = run("--dry-run", CUDA_VISIBLE_DEVICES=visible, **TORCHRUN)
    assert ("invalid device ordinal" in done.stdout) is problem
    assert done.returncode == (1 if problem else 0)


def test_half_an_address_is_a_problem():
    done = run("--dry-run", **{**TORCHRUN, "MASTER_PORT": ""})
    assert done.returncode == 1 and "MASTER_PORT" in done.stdout


@pytest.mark.parametrize(
    "change, words",
    [
        ({"RANK": "2"}, "rank 2 does not exist among 2"),
        ({"RANK": "-1"}, "RANK is not set"),
        ({"RANK": "²"}, "RANK is not set"),
        ({"MASTER_PORT": "abc"}, "MASTER_PORT is abc"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT is 70000"),
    ],
)
def test_impossible_environment_is_named(change, words):
    done = run("--dry-run", **{**TORCHRUN, **change})
    assert done.returncode == 1 and words in done.stdout and "Traceback" not in done.stderr


def test_timeout_must_be_positive():
    assert run("--timeout", "0").returncode == 2


def test_missing_pytorch_names_the_fix():
    code = f"import sys; sys.modules['torch'] = None; sys.argv = ['x']; import runpy; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **TORCHRUN}, capture_output=True, text=True)
    assert done.returncode == 2 and "pip install torch" in done.stderr


def test_one_rank_adds_up():
    pytest.importorskip(
        "torch", reason="needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = run("--json", **alone)
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (report["sum"], report["expected"]) == (1.0, 1.0)


def test_rank_that_waits_alone_says_for_whom():
    pytest.importorskip(
        "torch", reason="needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    half = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = run("--timeout", "1", **half)
    assert done.returncode == 1 and f"no sum with 127.0.0.1:{port} as meeting point" in done.stdout
    assert "Traceback" not in done.stderr
