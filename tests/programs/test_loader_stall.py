"""loader_stall.py: the simulation obeys the arithmetic of queues, and a real DataLoader agrees with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/loader_stall.py"
COST = ["--batch", 32, "--read-ms", 2, "--decode-ms", 6, "--handover-ms", 0, "--cores", 32]  # 256 ms a batch


def run(*arguments, code=None) -> subprocess.CompletedProcess:
    result = subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if code is not None:
        assert result.returncode == code, result.stdout + result.stderr
    return result


def simulate(*arguments) -> dict:
    return json.loads(run("--simulate", "--json", *COST, *arguments).stdout)


def row(report: dict, workers: int) -> dict:
    return next(row for row in report["rows"] if row["workers"] == workers)


def test_loads_nothing_without_yes():
    result = run("--workers", 0, code=0)
    assert "--yes" in result.stdout
    assert "waits" not in result.stdout


def test_without_workers_loading_and_step_add_up():
    report = simulate("--workers", 0, "--step-ms", 100)
    assert row(report, 0)["wait_mean"] == pytest.approx(0.256)
    assert row(report, 0)["samples_per_second"] == pytest.approx(32 / 0.356)


@pytest.mark.parametrize(("workers", "step"), [(1, 0.256), (2, 0.128), (3, 0.100), (8, 0.100)])
def test_workers_divide_the_cost_until_the_step_is_longer(workers, step):
    report = simulate("--workers", workers, "--step-ms", 100, "--batches", 600)
    assert 32 / row(report, workers)["samples_per_second"] == pytest.approx(step, rel=0.02)


def test_exit_code_and_advice_follow_the_need():
    assert simulate("--workers", 1, "--step-ms", 100)["verdict"]["waits"]
    report = simulate("--workers", 1, "--step-ms", 100)
    assert report["verdict"]["stage"] == "decode"
    assert report["verdict"]["workers_needed"] == 4  # 256 / 100 x 1.25 = 3.2
    run("--simulate", *COST, "--workers", 4, "--step-ms", 100, code=0)
    run("--simulate", *COST, "--workers", 1, "--step-ms", 100, code=1)


def test_storage_that_serves_too_little_is_named():
    report = simulate("--workers", "2,16", "--step-ms", 100, "--storage-rate", 160)
    assert report["verdict"]["stage"] == "storage"
    assert row(report, 16)["samples_per_second"] == pytest.approx(160, rel=0.05)


def test_too_few_cores_are_named():
    report = simulate("--workers", "2,16", "--step-ms", 100, "--cores", 1)
    assert report["verdict"]["stage"] == "cores"
    assert report["verdict"]["cores_needed"] == pytest.approx(1.92)


def test_slow_hand_over_is_named():
    assert simulate("--workers", 8, "--step-ms", 100, "--handover-ms", 80)["verdict"]["stage"] == "hand-over"


def test_slow_samples_are_named_and_prefetch_helps():
    slow = ["--workers", 6, "--step-ms", 100, "--slow-share", 0.001, "--slow-ms", 1500, "--batches", 500]
    few, many = simulate(*slow), simulate(*slow, "--prefetch", 16)
    assert few["verdict"]["stage"] == "slow samples"
    assert row(many, 6)["wait_mean"] < row(few, 6)["wait_mean"] / 2


@pytest.mark.parametrize(
    "wrong",
    [
        ["--step-ms", 0],
        ["--workers", "two"],
        ["--workers", 100000],
        ["--batch", 0],
        ["--read-ms", "nan"],
        ["--folder", "/nowhere"],
        ["--simulate", "--dataset", "a.py:b"],
        ["--dataset", "nowhere.py:build", "--yes"],
    ],
)
def test_misuse_is_explained(wrong):
    if "--yes" in wrong:
        pytest.importorskip("torch", reason="needs PyTorch: pip install torch==2.13.0")
    result = run(*wrong, code=2)
    assert "Traceback" not in result.stderr
    assert result.stderr


def test_without_pytorch_the_message_names_the_fix(tmp_path):
    result = subprocess.run([sys.executable, "-I", "-S", PROGRAM, "--yes"], capture_output=True, text=True)
    assert result.returncode == 2
    assert "pip install torch" in result.stderr
    assert "--simulate" in result.stderr


def test_a_real_loader_agrees_with_the_simulation():
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch==2.13.0")
    # Reading sleeps, so that two busy cores do not decide.
    cost = ["--batch", 8, "--read-ms", 10, "--decode-ms", 0, "--step-ms", 40, "--batches", 24, "--workers", "0,1,4"]
    measured = json.loads(run(*cost, "--sample-kb", 1, "--yes", "--json").stdout)
    assert row(measured, 0)["read"] == pytest.approx(0.010, rel=0.4)
    assert row(measured, 0)["wait_mean"] >= 0.080
    assert 0.03 < row(measured, 1)["wait_mean"] < 0.12  # 80 ms a batch behind a step of 40 ms
    assert row(measured, 4)["wait_mean"] < 0.025


def test_own_data_set_is_measured(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch==2.13.0")
    module = tmp_path / "own.py"
    module.write_text(
        "import time\n"
        "class Slow:\n"
        "    def __len__(self): return 64\n"
        "    def __getitem__(self, index):\n"
        "        time.sleep(0.02)\n"
        "        return index\n"
        "def build(): return Slow()\n"
    )
    common = ["--dataset", f"{module}:build", "--batch", 4, "--batches", 6, "--step-ms", 10, "--yes", "--json"]
    report = json.loads(run(*common, "--workers", "1").stdout)
    assert report["rows"][0]["read"] == pytest.approx(0.02, rel=0.5)  # blocked, not computing
    assert report["verdict"]["stage"] == "read"
