"""hung_collective.py hangs as documented, and the pages of docs/debugging quote its true lines."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "debugging"
PROGRAM = FOLDER / "hung_collective.py"
PAGES = (FOLDER / "hung-job.md", FOLDER / "index.md")
TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
SOURCE = PROGRAM.read_text().splitlines()


def run(*args, env=None, timeout=120):
    command = [sys.executable, str(PROGRAM), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})


# With three ranks, which is the least that has an odd one.
HEALTHY_UNTIL_S, END_AT_STALL = ["--stall", "6"], ["--stall", "3", "--kill-on-stall"]
RUNS = {
    "branch": END_AT_STALL,
    "uneven": END_AT_STALL,
    "loader": END_AT_STALL,
    "exception": END_AT_STALL,
    "mismatch": ["--stall", "3", "--timeout", "6"],
    "shapes": HEALTHY_UNTIL_S,
    "killed": HEALTHY_UNTIL_S,
    "fixed": [*HEALTHY_UNTIL_S, "--fix"],
}


@pytest.fixture(scope="module")
def runs():
    """Exit code and --json record of each of RUNS."""
    pytest.importorskip("torch", reason=TORCH)
    jobs = [
        ["--fault", "branch" if name == "fixed" else name, "--json", "--ranks", "3", *args]
        for name, args in RUNS.items()
    ]
    command = [sys.executable, str(Path(__file__).with_name("hung_collective_runs.py"))]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = dict(zip(RUNS, json.loads(done.stdout)))
    assert all(result["out"] for result in results.values()), results
    return {name: (result["code"], json.loads(result["out"])) for name, result in results.items()}


def load():
    spec = importlib.util.spec_from_file_location("hung_collective", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The rank that is somewhere else, the phase it announced, and the functions its stack must show.
HANGS = {
    "branch": (0, "validate", ["all_reduce", "reduce_loss", "validate", "train"]),
    "uneven": (2, "save_checkpoint", ["barrier", "save_checkpoint", "train"]),
    "loader": (2, "next_batch", ["get", "next_batch", "train"]),
    "exception": (1, "next_batch", ["_shutdown"]),
}


@pytest.mark.parametrize("fault", HANGS)
def test_hang_and_its_odd_rank(runs, fault):
    odd, phase, functions = HANGS[fault]
    code, result = runs[fault]
    assert code == 1
    assert result["outcome"] == "hang"
    assert result["odd_ranks"] == [odd]
    assert result["heartbeats"][odd]["phase"] == phase
    names = [line.split()[-1] for line in result["stacks"][odd]]
    positions = [names.index(function) for function in functions]
    assert positions == sorted(positions), names
    waiting = "save_checkpoint" if fault == "branch" else "reduce_gradients"
    assert all(waiting in " ".join(s) for rank, s in enumerate(result["stacks"]) if rank != odd)
    assert_frames_are_true(result["stacks"])


def test_mismatch_is_seen_in_stacks_only(runs):
    _, result = runs["mismatch"]
    assert result["outcome"] == "hang"
    assert "Timed out waiting 6000ms" in " ".join(result["last_words"])
    assert result["odd_ranks"] == [], "all ranks announced the same phase"
    assert ["gather_tokens" in " ".join(stack) for stack in result["stacks"]] == [False, True, False]


def test_mismatch_is_an_error_with_debug_detail():
    """Here the program starts its ranks itself; PyTorch reads the variable when it is imported."""
    pytest.importorskip("torch", reason=TORCH)
    args = ["--fault", "mismatch", "--json", "--ranks", "3", *HEALTHY_UNTIL_S]
    result = json.loads(run(*args, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}).stdout)
    assert result["outcome"] == "error"
    words = " ".join(result["last_words"])
    assert "Detected mismatch between collectives on ranks" in words
    assert "OpType=ALLREDUCE" in words and "OpType=ALLGATHER" in words


def test_shapes_fail_at_once_with_gloo(runs):
    _, result = runs["shapes"]
    assert result["outcome"] == "error"
    assert -signal.SIGABRT in result["exit_codes"]
    assert "Received data size doesn't match expected size" in " ".join(result["last_words"])


def test_killed_rank_says_nothing(runs):
    _, result = runs["killed"]
    assert result["exit_codes"][1] == -signal.SIGKILL
    assert result["last_words"][1] == ""
    assert re.search("Connection (reset|closed) by peer", result["last_words"][0])


def test_fixed_variant_finishes(runs):
    code, result = runs["fixed"]
    assert (code, result["outcome"], result["exit_codes"]) == (0, "finished", [0, 0, 0])


def test_every_fault_is_off_in_the_fixed_variant():
    """One healthy run stands for all: with --fix the program has no fault left to tell apart."""
    uses = [line for line in SOURCE if "args.fault" in line and "args.fix" in line]
    assert uses == ["    rank = Rank(None if args.fix else args.fault, args.timeout)"]


def assert_frames_are_true(stacks):
    """Each frame names a line of the program inside the function it names."""
    frames = {m.groups() for s in stacks for m in (re.match(r"  hung_collective\.py:(\d+) (\w+)$", f) for f in s) if m}
    assert frames
    for number, function in frames:
        assert enclosing_function(int(number)) == function


def enclosing_function(number):
    """The function of hung_collective.py that holds a line, found by walking out of its indentation."""
    indent = len(SOURCE[number - 1]) - len(SOURCE[number - 1].lstrip())
    for line in reversed(SOURCE[: number - 1]):
        outer = len(line) - len(line.lstrip())
        if line.strip() and outer < indent:
            indent = outer
            match = re.match(r" *def (\w+)", line)
            if match:
                return match[1]
    return "<module>"


def test_lines_quoted_on_the_page_are_lines_of_the_program():
    page = "".join(path.read_text() for path in PAGES)
    quoted = {
        (int(line), name.rsplit(".", 1)[-1]) for line, name in re.findall(r"hung_collective\.py:(\d+) ([\w<>.]+)", page)
    }
    assert len(quoted) >= 8
    wrong = [(line, name) for line, name in sorted(quoted) if enclosing_function(line) != name]
    assert not wrong, f"the page quotes lines that moved: {wrong}; run the program again and paste"
    calls = {"validate": "self.reduce_loss()", "reduce_loss": "all_reduce", "save_checkpoint": "barrier"}
    for line, name in quoted:
        assert calls.get(name, "") in SOURCE[line - 1], (line, name, SOURCE[line - 1])


def test_the_page_names_every_fault():
    page = "".join(path.read_text() for path in PAGES)
    faults = load().FAULTS
    assert set(faults) <= set(RUNS), "each fault is run"
    assert not [fault for fault in faults if f"`{fault}`" not in page]


def test_faults_are_listed_without_torch():
    """-S leaves out site-packages, so torch cannot be found."""
    bare = [sys.executable, "-S", str(PROGRAM)]
    listed = subprocess.run([*bare, "--json"], capture_output=True, text=True)
    assert listed.returncode == 0
    assert {"branch", "mismatch", "uneven", "exception", "shapes"} <= set(json.loads(listed.stdout))
    refused = subprocess.run([*bare, "--fault", "branch"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "pip install torch" in refused.stderr


@pytest.mark.parametrize(
    "args", [["--fault", "nonsense"], ["--ranks", "2"], ["--stall", "9", "--timeout", "8"], ["--timeout", "inf"]]
)
def test_misuse_is_refused(args):
    done = run(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_odd_rank_without_a_majority():
    odd_ones = load().odd_ones
    assert odd_ones(["a", "a", "b", "a"]) == [2]
    assert odd_ones(["a", "a", "b", "b"]) == []
