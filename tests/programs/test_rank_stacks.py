"""rank_stacks.py finds ranks, spares those that SIGUSR1 would kill, and groups dumps of both tools."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "debugging" / "rank_stacks.py"
linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
SLEEP = "import time; print('up', flush=True); time.sleep(60)"
HANDLED = "import faulthandler, signal; faulthandler.register(signal.SIGUSR1); " + SLEEP
FORKED = "import os; os.fork(); " + SLEEP


def run(*args, env=None):
    command = [sys.executable, str(PROGRAM), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})


@pytest.fixture
def start():
    """Starts Python code as a rank; ends what it started."""
    started = []

    def launch(code, rank, **env):
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        environ.update(env or {"RANK": str(rank)})
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        process.stdout.readline()
        started.append(process)
        return process

    yield launch
    for process in started:
        os.killpg(process.pid, 9)
        process.wait()


def listed():
    return {p["pid"]: p for p in json.loads(run("list", "--seconds", "0.2", "--json").stdout)}


@linux
def test_list_names_rank_state_and_handler(start):
    handled, bare = start(HANDLED, 901), start(SLEEP, 902)
    found = listed()
    assert found[handled.pid]["rank"] == 901 and found[handled.pid]["handles_usr1"]
    assert found[bare.pid]["rank"] == 902 and not found[bare.pid]["handles_usr1"]
    assert found[bare.pid]["state"] == "S"


@linux
def test_forked_helper_is_no_rank(start):
    parent = start(FORKED, 903)
    time.sleep(0.3)
    assert [pid for pid, p in listed().items() if p["rank"] == 903] == [parent.pid]


@linux
def test_launcher_known_by_slurm_only_is_left_out(start):
    rank, agent = start(SLEEP, 904), start(SLEEP, 0, SLURM_PROCID="905")
    assert rank.pid in listed() and agent.pid not in listed()


AGENT = f"""
import os, subprocess, sys
rank = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], env=dict(os.environ, LOCAL_RANK="0"), stdout=subprocess.PIPE)
rank.stdout.readline()
print(rank.pid, flush=True)
rank.wait()
"""


@linux
def test_agent_of_a_pod_does_not_hide_its_rank(start):
    """In a pod of a PyTorchJob the torchrun agent has a RANK, too: the number of the pod."""
    agent = start(AGENT, 908)
    found = [pid for pid, p in listed().items() if p["rank"] == 908]
    assert len(found) == 1 and found != [agent.pid]


@linux
def test_a_rank_that_is_no_number_is_passed_over(start):
    odd, rank = start(SLEEP, "first"), start(SLEEP, 909)
    assert rank.pid in listed() and odd.pid not in listed()


FAKE_PYSPY = """#!/bin/sh
echo 'Thread 7 (idle): "MainThread"'
echo '    step (train.py:88)'
"""


@linux
def test_dump_writes_a_file_per_rank(start, tmp_path):
    start(SLEEP, 910)
    (tmp_path / "py-spy").write_text(FAKE_PYSPY)
    (tmp_path / "py-spy").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run("dump", "--out", tmp_path / "out", env={"PATH": path})
    (dump,) = (tmp_path / "out").glob("*-rank910.txt")
    assert str(dump) in done.stdout and "step (train.py:88)" in dump.read_text()
    refused = run("dump", "--out", tmp_path / "py-spy", env={"PATH": path})
    assert refused.returncode == 2 and "Traceback" not in refused.stderr


@linux
def test_signal_spares_a_rank_without_handler(start):
    handled, bare = start(HANDLED, 906), start(SLEEP, 907)
    dry = run("signal")
    assert f"rank 906 pid {handled.pid}: would send" in dry.stdout
    sent = run("signal", "--yes")
    assert f"rank 907 pid {bare.pid}: left alone" in sent.stdout
    assert "most recent call first" in handled.stderr.readline()
    assert handled.poll() is None and bare.poll() is None


PYSPY = """Process 7: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (idle): "MainThread"
    pthread_cond_wait (libc.so.6)
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    Trainer.step (train.py:88)
    <module> (train.py:120)
Thread 9 (active): "loader"
    poll (selectors.py:415)
"""
FAULTHANDLER = """Thread 0x00007f00 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in poll

Current thread 0x00007f01 (most recent call first):
  File "/env/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/src/train.py", line 88 in step
  File "/src/train.py", line 120 in <module>
"""


def test_group_treats_both_formats_alike(tmp_path):
    (tmp_path / "n1-rank0.txt").write_text(PYSPY)
    (tmp_path / "n1-rank1.txt").write_text(FAULTHANDLER * 2)  # two dumps in one log
    (tmp_path / "n2-rank2.txt").write_text(PYSPY.replace("Trainer.step (train.py:88)", "Trainer.save (train.py:95)"))
    groups = json.loads(run("group", "--json", *sorted(tmp_path.iterdir())).stdout)
    assert [sorted(group["ranks"]) for group in groups] == [[2], [0, 1]]
    assert groups[1]["stack"] == ["distributed_c10d.py:3252 all_reduce", "train.py:88 step", "train.py:120 <module>"]


def test_group_reads_the_rank_after_the_host_name_and_sorts_by_number(tmp_path):
    for rank in (10, 9, 2):
        (tmp_path / f"frank07-rank{rank}.txt").write_text(PYSPY)
    shown = run("group", *tmp_path.iterdir()).stdout
    assert shown.startswith("--- 3 of 3 ranks: 2 9 10 ---")


@pytest.mark.parametrize(
    "args", [[], ["nonsense"], ["group", "/no/such/file"], ["list", "--seconds", "nan"], ["list", "--seconds", "-1"]]
)
def test_misuse_is_refused(args):
    done = run(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
