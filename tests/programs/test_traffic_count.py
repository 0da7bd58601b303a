"""traffic_count.py: every counted parallelism sends what its formula says, and a wrong formula is noticed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "network" / "traffic_count.py"
NEEDS_TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"


def run(*args, timeout=240):
    return subprocess.run([sys.executable, str(PROGRAM), *args], capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("traffic_count", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def counted():
    """All cases, once: another shape than the default's, so that the formulas' terms are told apart."""
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    result = run("--json", "--hidden", "32", "--sequence", "16", "--micro", "2")
    assert result.returncode == 0, result.stderr[-2000:]
    return {one["case"]: one for one in json.loads(result.stdout)["cases"]}


def test_all_cases_agree_with_their_formulas(counted):
    assert len(counted) == 20
    for one in counted.values():
        assert one["agrees"] and one["sent"] == one["formula"] and sum(one["sent"].values()) > 0, one


def test_calls_are_those_of_the_page(counted):
    layers, micro = 8, 2
    assert counted["tp"]["calls"] == {"all_reduce": 4 * layers * micro}
    assert counted["tp_naive"]["calls"] == {"all_reduce": 6 * layers * micro}
    assert counted["fsdp"]["calls"] == {"all_gather": 2 * layers * micro, "reduce_scatter": layers * micro}
    assert counted["fsdp_keep"]["calls"]["all_gather"] == layers * micro
    assert counted["fsdp_root"]["calls"] == {"all_gather": micro, "reduce_scatter": micro}
    assert counted["hsdp"]["calls"]["all_reduce"] == layers
    assert counted["vocab"]["calls"] == {"all_reduce": 3 * micro}
    assert counted["ep"]["calls"] == {"all_to_all": 4 * layers * micro}
    assert counted["ulysses"]["calls"] == {"all_to_all": 8 * layers * micro}


def test_relations_that_the_page_states(counted):
    def sent(case, kind):
        return counted[case]["sent"][kind]

    assert sent("ddp_sync", "all_reduce") == 2 * sent("ddp", "all_reduce")
    assert sent("ddp_fp16", "all_reduce") == sent("ddp_frozen", "all_reduce") == sent("ddp", "all_reduce") / 2
    assert sum(counted["tp_sp"]["sent"].values()) == sent("tp", "all_reduce")
    assert sent("pp_inter", "send") == 2 * sent("pp", "send")
    assert sum(counted["fsdp"]["sent"].values()) / 2 == 1.5 * sent("ddp", "all_reduce")


def test_a_count_that_differs_is_exit_code_1(program, monkeypatch, capsys):
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    monkeypatch.setattr(
        program, "measure", lambda s, cases: {"ddp": {"sent": {"all_reduce": 1}, "calls": {"all_reduce": 1}}}
    )
    assert program.main(["--case", "ddp"]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_a_kind_that_the_formula_does_not_have_is_shown(program, monkeypatch, capsys):
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    extra = {"all_reduce": 2359296, "other:c10d::gather_": 0}
    monkeypatch.setattr(program, "measure", lambda s, cases: {"ddp": {"sent": extra, "calls": {}}})
    assert program.main(["--case", "ddp"]) == 1
    assert "other:c10d::gather_" in capsys.readouterr().out


def test_a_failed_rank_is_exit_code_2(program, monkeypatch, capsys):
    pytest.importorskip("torch", reason=NEEDS_TORCH)

    def fails(s, cases):
        raise RuntimeError("-- Process 1 terminated\nConnectionError: refused")

    monkeypatch.setattr(program, "measure", fails)
    assert program.main(["--case", "ddp"]) == 2
    assert "a rank failed: ConnectionError: refused" in capsys.readouterr().err


def test_without_pytorch_the_message_names_the_line(program, monkeypatch, capsys):
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    assert program.main([]) == 2
    assert "pip install torch" in capsys.readouterr().err


def test_dry_run_has_every_case_and_needs_no_pytorch(program):
    result = run("--dry-run", "--json")
    cases = json.loads(result.stdout)["cases"]
    assert [one["case"] for one in cases] == list(
        program.formulas(program.Shape(hidden=64, layers=8, sequence=32, micro=3))
    )
    assert all(one["agrees"] is None for one in cases)
    by_name = {one["case"]: one["formula"] for one in cases}
    assert by_name["ddp"] == {"all_reduce": 2 * 3 * 393216}  # 2 x 3/4 x 4 bytes
    assert by_name["tp"] == {"all_reduce": 4 * 8 * 3 * 2 * 8192 * 3 // 4}


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--case", "dpp"], "no case 'dpp'"),
        (["--layers", "6"], "--layers of 8"),
        (["--dry-run", "--hidden", "32" + "0" * 400], "at most 1,000,000,000"),
        (["--micro", "0"], "--micro at least 1"),
        (["--hidden", "65536"], "too large to run here"),
        (["--sequence", "4000000"], "too large to run here"),
    ],
)
def test_misuse(args, word):
    result = run(*args)
    assert result.returncode == 2 and word in result.stderr and "Traceback" not in result.stderr


def test_names_with_blanks_or_twice_are_one_case_each():
    cases = json.loads(run("--dry-run", "--json", "--case", "ddp, fsdp,ddp").stdout)["cases"]
    assert [one["case"] for one in cases] == ["ddp", "fsdp"]


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written_is_no_traceback():
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, str(PROGRAM), "--dry-run"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 2 and "No space left" in result.stderr and "Traceback" not in result.stderr


def test_a_reader_that_leaves_is_no_traceback():
    command = f'"{sys.executable}" "{PROGRAM}" --dry-run --json | true'
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert result.stderr == ""


@pytest.mark.parametrize("seconds", [4, 12])  # while the ranks import PyTorch, and while they count
def test_ctrl_c_is_no_traceback(seconds):
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "--micro", "200"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the ranks, too
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors, errors
