"""checkpoint_plan.py: the arithmetic agrees with published results and with a simulation."""

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/checkpoint_plan.py"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True)


def plan(*arguments: str) -> dict:
    result = run(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("mtbf_hours, minutes", [("24", 117), ("6", 57), ("0.25", 9.1)])
def test_daly_interval_of_the_papers_figures(mtbf_hours, minutes):
    """Figures 3 to 5 of Daly 2006: writing takes 5 min, restart 10 min."""
    result = plan("--params", "300G", "--bytes-per-param", "1", "--bandwidth", "1G", "--mtbf-hours", mtbf_hours)
    assert result["write_s"] == 300
    assert result["daly_s"] / 60 == pytest.approx(minutes, rel=0.006)


def test_no_other_interval_of_the_sweep_loses_less():
    result = plan("--params", "70B", "--nodes", "64", "--bandwidth", "20G", "--failure-rate", "6.5")
    best = min(result["sweep"], key=lambda row: row["lost_fraction"])
    assert best["interval_s"] == result["interval_s"] == result["daly_s"]


def test_lost_time_agrees_with_a_simulation():
    spec = importlib.util.spec_from_file_location("checkpoint_plan", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    interval, cost, mtbf, restart = 4000.0, 300.0, 20_000.0, 600.0
    rng, clock, segments = random.Random(1), 0.0, 40_000
    for _ in range(segments):
        needed = interval + cost
        while (failure := rng.expovariate(1 / mtbf)) < needed:
            clock += failure
            needed = restart + interval + cost
        clock += needed
    simulated = 1 - segments * interval / clock
    assert module.lost_fraction(interval, cost, mtbf, restart) == pytest.approx(simulated, abs=0.003)


def test_failure_rate_gives_the_mtbf_of_the_job():
    """6.5 failures per 1000 node-days: 1.8 h on 16,384 GPUs (arXiv:2410.21680)."""
    result = plan("--params", "405B", "--nodes", "2048", "--bandwidth", "2000G", "--failure-rate", "6.5")
    assert result["mtbf_s"] / 3600 == pytest.approx(1.8, abs=0.01)


def test_bytes_of_a_published_checkpoint():
    """BLOOM: 176 billion parameters, 2.3 TB (TiB) with optimizer states."""
    result = plan("--params", "176.247B", "--bandwidth", "1G", "--mtbf-hours", "24")
    assert result["checkpoint_bytes"] / 2**40 == pytest.approx(2.3, abs=0.06)


def test_asynchronous_saves_do_not_overlap():
    arguments = ["--params", "70B", "--bandwidth", "1G", "--mtbf-hours", "24", "--stall", "1"]
    result = plan(*arguments)
    assert result["mode"] == "asynchronous"
    assert result["interval_s"] == result["write_s"] > result["daly_s"]
    assert all(row["interval_s"] >= result["write_s"] for row in result["sweep"])


def test_output_for_people_marks_one_interval():
    result = run("--params", "7B", "--nodes", "8", "--bandwidth", "2G", "--failure-rate", "6.5")
    assert result.returncode == 0
    assert "98 GB" in result.stdout
    assert result.stdout.count("<- use") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--params", "many", "--bandwidth", "1G", "--mtbf-hours", "1"],
        ["--params", "7B", "--bandwidth", "0", "--mtbf-hours", "1"],
        ["--params", "7B", "--bandwidth", "1G"],
        ["--params", "7B", "--bandwidth", "1G", "--mtbf-hours", "1", "--failure-rate", "1"],
        ["--params", "7B", "--bandwidth", "1G", "--mtbf-hours", "1", "--nodes", "0"],
        ["--params", "nan", "--bandwidth", "1G", "--mtbf-hours", "1"],
        ["--params", "7B", "--bandwidth", "1G", "--failure-rate", "1e-320"],  # would print nan and inf
        ["--params", "1e-300", "--bandwidth", "1e300", "--mtbf-hours", "1e300"],  # divided by zero
        ["--params", "7B", "--bandwidth", "1G", "--failure-rate", "1", "--nodes", "9" * 400],
    ],
)
def test_misuse_exits_2_without_a_traceback(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "error:" in result.stderr
    assert "Traceback" not in result.stderr


def test_hopeless_case_loses_everything():
    result = plan("--params", "1000B", "--bandwidth", "1M", "--mtbf-hours", "1")
    assert result["sweep"][-1]["lost_fraction"] == 1
