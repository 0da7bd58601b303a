"""collective_bench.py: the plan without PyTorch, two real gloo ranks, and the ways to start it wrongly."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/network/collective_bench.py"
TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID")

JOINED = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}


def run(*arguments, **environment):
    """The finished program, started in an environment without a launcher's variables."""
    clean = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def load():
    spec = importlib.util.spec_from_file_location("collective_bench", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("op", "factor", "steps"),
    [
        ("all_reduce", 1.75, 14),
        ("all_gather", 0.875, 7),
        ("reduce_scatter", 0.875, 7),
        ("all_to_all", 0.875, 7),
        ("broadcast", 1.0, 7),
    ],
)
def test_plan_has_the_factors_of_nccl_tests(op, factor, steps):
    done = run("--dry-run", "--json", "--ranks", "8", "--op", op, "-b", "8M", "-e", "8M", "--link", "8", "--alpha", "2")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["bytes"] == 8 * 1024**2
    assert row["bus_factor"] == factor
    assert row["sent_per_rank_bytes"] == factor * row["bytes"]
    assert row["ring_steps"] == steps
    assert row["predicted_us"] == round(steps * 2 + factor * row["bytes"] / 8e3, 1)


def test_plan_needs_no_pytorch():
    code = f"import sys, runpy; sys.modules['torch'] = None; sys.argv[0] = {str(PROGRAM)!r}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing is run" in done.stdout


def test_sizes_are_whole_elements_for_every_rank():
    bench = load()
    args = bench.parse(["-b", "1K", "-e", "1M", "-f", "4", "--dtype", "bfloat16"])
    assert bench.sizes(args, 7) == sorted({size // 14 * 14 for size in (1024, 4096, 16384, 65536, 262144, 1048576)})


def test_last_size_is_the_one_asked_for():
    bench = load()
    assert bench.sizes(bench.parse(["-b", "1K", "-e", "8K", "-f", "4"]), 8) == [1024, 4096, 8192]


def test_pattern_tells_an_exchange_from_a_copy():
    pattern = load().pattern
    assert all(pattern(r, s) != pattern(s, r) for r in range(8) for s in range(8) if (r - s) % 5)


def test_two_ranks_measure_every_collective_and_check_it():
    pytest.importorskip("torch", reason=TORCH)
    done = run("--op", "all", "--ranks", "2", "-b", "64K", "-e", "1M", "-n", "5", "--backend", "gloo", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["world_size"] == 2
    assert {row["op"] for row in report["rows"]} == {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
    }
    factors = {"all_reduce": 1.0, "broadcast": 1.0}
    for row in report["rows"]:
        assert row["wrong"] == 0
        assert row["min_us"] <= row["time_us"] <= row["max_us"]
        assert row["algbw_gbs"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3, rel=0.02, abs=1e-4)
        assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * factors.get(row["op"], 0.5), rel=0.02, abs=1e-4)
    assert report["summary"]["all_gather"]["latency_us"] == next(
        row["time_us"] for row in report["rows"] if row["op"] == "all_gather"
    )


def test_below_expectation_is_a_finding():
    pytest.importorskip("torch", reason=TORCH)
    done = run("-b", "64K", "-e", "64K", "-n", "2", "--backend", "gloo", "--expect", "100000")
    assert done.returncode == 1, done.stderr
    assert "below --expect" in done.stdout


def test_wrong_elements_are_counted_by_segment():
    torch = pytest.importorskip("torch", reason=TORCH)
    bench = load()
    result = torch.tensor([1.0, 1.0, 2.0, 2.0])
    assert bench.count_wrong(result, [1, 2], 0.0) == 0
    assert bench.count_wrong(result, [2, 1], 0.0) == 4


def test_ctrl_c_ends_all_ranks_without_traceback():
    pytest.importorskip("torch", reason=TORCH)
    clean = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    command = [sys.executable, PROGRAM, "--backend", "gloo", "-b", "4M", "-e", "4M", "-n", "999999"]
    with subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as bench:
        assert "2 ranks" in bench.stdout.readline()
        bench.send_signal(signal.SIGINT)
        rest = bench.communicate(timeout=30)[0]  # returns only when the ranks have closed the pipe, too
    assert bench.returncode == 130
    assert "Traceback" not in rest


def test_port_in_use_is_named():
    pytest.importorskip("torch", reason=TORCH)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run("--backend", "gloo", **{**JOINED, "MASTER_PORT": port})
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "port is free" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--op", "all_recude"], {}, "unknown --op all_recude"),
        (["-b", "1X"], {}, "'1X' is not a size"),
        (["-b", "2M", "-e", "1M"], {}, "--min-bytes at most --max-bytes"),
        (["--ranks", "1"], {}, "at least 2 ranks"),
        (["--ranks", "65"], {}, "at most 64"),
        (["--expect", "nan"], {}, "'nan' is not a number above 0"),
        (["--dry-run", "--link", "inf"], {}, "'inf' is not a number above 0"),
        (["--dry-run", "--link", "3", "--alpha=-5"], {}, "'-5' is not a number above 0"),
        (["--dry-run", "--alpha", "5"], {}, "--alpha needs --link"),
        (["--timeout", "99999999999999"], {}, "not a whole number from 1 to 999999"),
        ([], {**JOINED, "RANK": "a"}, "not a rank below a number of ranks: RANK=a"),
        ([], {**JOINED, "RANK": "2"}, "not a rank below a number of ranks: RANK=2, WORLD_SIZE=2"),
        (["--dry-run"], {"SLURM_STEP_NUM_TASKS": "x"}, "SLURM_PROCID, SLURM_LOCALID"),
        ([], {"RANK": "0", "WORLD_SIZE": "2"}, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set"),
        ([], {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "MASTER_ADDR, MASTER_PORT"),
    ],
)
def test_misuse_is_told_in_one_message(arguments, environment, message):
    done = run(*arguments, **environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
