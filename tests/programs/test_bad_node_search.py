"""bad_node_search.py finds bad nodes and pairs by halves; simulated, with real commands, and on a real Slurm."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "docs" / "network" / "bad_node_search.py"
MEMBER = "import sys; sys.exit(any(node in sys.argv[1].split(',') for node in sys.argv[2:]))"  # 1 if one is among them
FAKE = f'{sys.executable} -c "{MEMBER}" {{nodes}}'


def run(*args, **options):
    return subprocess.run([sys.executable, str(PROGRAM), *args], capture_output=True, text=True, timeout=120, **options)


def found(*args, **options):
    done = run(*args, "--json", **options)
    return done, json.loads(done.stdout)


def test_one_bad_of_64_takes_13_tests():
    done, report = found("--nodes", "node[01-64]", "--simulate", "node23")
    assert done.returncode == 1 and report["bad"] == ["node23"]
    assert report["only_together"] == report["undecided"] == []
    assert len(report["tests"]) == 13 and report["simulated"] is True


@pytest.mark.parametrize("count", [2, 3, 5, 8, 9, 17])
def test_every_position_is_found(count):
    for bad in range(count):
        _, report = found("--nodes", f"n[0-{count - 1}]", "--simulate", f"n{bad}", "--min-size", "1")
        assert report["bad"] == [f"n{bad}"] and report["only_together"] == []


def test_several_bad_nodes_are_all_found():
    done, report = found("--nodes", "n[1-20]", *(word for n in (1, 2, 13, 20) for word in ("--simulate", f"n{n}")))
    assert done.returncode == 1 and sorted(report["bad"]) == ["n1", "n13", "n2", "n20"]


def test_a_pair_that_fails_only_together_is_no_bad_node():
    done, report = found("--nodes", "n[1-8]", "--simulate", "n2+n7")
    assert done.returncode == 1 and report["bad"] == []
    assert report["only_together"] == [[["n1", "n2", "n3", "n4"], ["n5", "n6", "n7", "n8"]]]


def test_a_neighbouring_pair_is_not_blamed_on_its_nodes():
    _, report = found("--nodes", "n[1-8]", "--simulate", "n1+n2")
    assert report["bad"] == [] and report["only_together"] == [[["n1"], ["n2"]]]


def test_good_nodes_take_one_test():
    done, report = found("--nodes", "n[1-8]", "--command", FAKE + " n9", "--yes")
    assert done.returncode == 0 and len(report["tests"]) == 1 and report["simulated"] is False


def test_real_commands_find_it_also_side_by_side():
    done, report = found("--nodes", "n[1-16]", "--command", FAKE + " n5", "--yes", "--jobs", "4")
    assert done.returncode == 1 and report["bad"] == ["n5"]


def test_when_everything_fails_the_test_is_doubted():
    done = run("--nodes", "n[1-8]", "--command", "false {nodes}", "--yes")
    assert done.returncode == 1 and "UNDECIDED" in done.stdout and "doubt the test first" in done.stdout
    assert "BAD" not in done.stdout


def test_nothing_runs_without_yes(tmp_path):
    mark = tmp_path / "ran"
    command = f"touch {mark} {{nodes}} '{{print $1}}'"
    for extra in ([], ["--dry-run"], ["--dry-run", "--yes"]):
        done = run("--nodes", "n[1-4]", "--command", command, *extra, cwd=tmp_path)
        assert done.returncode == 0 and "nothing was run" in done.stdout and "n1,n2,n3,n4 '{print $1}'" in done.stdout
        assert not mark.exists()


def test_a_hanging_test_is_ended_with_its_children(tmp_path):
    command = f"bash -c 'sleep 300 & echo $! >> {tmp_path}/pids; wait' {{nodes}}"
    began = time.monotonic()
    done, report = found("--nodes", "a,b", "--command", command, "--yes", "--timeout", "1")
    assert report["tests"][0]["verdict"] == "timeout" and report["undecided"] == ["a", "b"]
    assert done.returncode == 1 and time.monotonic() - began < 30
    for pid in (tmp_path / "pids").read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_the_running_test(tmp_path, number):
    command = f"bash -c 'echo $$ > {tmp_path}/pid; sleep 100; sleep 100' {{nodes}}"
    words = [sys.executable, str(PROGRAM), "--nodes", "a,b", "--command", command, "--yes", "--timeout", "60"]
    program = subprocess.Popen(
        [*words, "--repeat", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a test run in the background inherits "ignore"
    )
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    program.send_signal(number)
    output, errors = program.communicate(timeout=20)
    assert program.returncode == 130 and "Traceback" not in errors and "BAD" not in output
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_flaky_node_needs_repeats(tmp_path):
    flaky = f"import os, sys, pathlib; p = pathlib.Path('{tmp_path}/n'); n = len(p.read_text()) if p.exists() else 0; \
p.write_text('x' * (n + 1)); sys.exit('n3' in sys.argv[1].split(',') and n % 2)"
    arguments = ("--nodes", "n[1-2],n3,n4", "--command", f'{sys.executable} -c "{flaky}" {{nodes}}', "--yes")
    _, report = found(*arguments, "--repeat", "2")
    assert report["bad"] == ["n3"]


def test_logs_keep_command_and_output(tmp_path):
    run("--nodes", "a,b", "--command", "echo hello {first} of {count}: {nodes}", "--yes", "--logs", str(tmp_path / "l"))
    text = (tmp_path / "l" / "test-0000.txt").read_text()
    assert "hello a of 2: a,b" in text and text.startswith("# echo")


def test_node_lists(tmp_path):
    (tmp_path / "list").write_text("rack[1-2]n[08-10]\nlogin, gpu7\n")
    names = ["rack1n08", "rack1n09", "rack1n10", "rack2n08", "rack2n09", "rack2n10", "login", "gpu7"]
    for source, stdin in ((f"@{tmp_path}/list", ""), ("-", (tmp_path / "list").read_text())):
        done = run("--nodes", source, "--command", "x {nodes}", "--json", input=stdin)
        assert json.loads(done.stdout)["nodes"] == names


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--nodes", "n[3-1]", "--command", "x {nodes}"], "3-1"),
        (["--nodes", "n[1-4", "--command", "x {nodes}"], "bracket"),
        (["--nodes", "n[1-9999999999]", "--command", "x {nodes}"], "more than"),
        (["--nodes", "n[1-4]", "--command", "true {nodes}", "--yes", "--logs", "/proc/no/folder"], "--logs /proc"),
        (["--nodes", "n1", "--command", "x {nodes}"], "fewer than --min-size"),
        (["--nodes", "n[1-4]", "--command", "x"], "must contain {nodes}"),
        (["--nodes", "n[1-4]", "--command", "x 'y {nodes}"], "No closing quotation"),
        (["--nodes", "n[1-4]", "--simulate", "n9"], "n9"),
        (["--nodes", "@/does/not/exist", "--simulate", "n9"], "No such file"),
        (["--nodes", "n[1-4]", "--command", "/does/not/exist {nodes}", "--yes"], "cannot run"),
    ],
)
def test_misuse_is_named(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_on_a_real_slurm():
    spec = importlib.util.spec_from_file_location("slurm_lab", ROOT / "docs" / "slurm" / "slurm_lab.py")
    slurm_lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(slurm_lab)
    test = """srun -N {count} -w {nodes} --ntasks-per-node=1 bash -c '[ "$SLURMD_NODENAME" != node3 ]'"""
    try:
        with slurm_lab.lab(nodes=4, gpus=8) as env:
            done, report = found("--nodes", "node[1-4]", "--command", test, "--yes", "--timeout", "60", env=env)
    except slurm_lab.MissingPackages as error:
        pytest.skip(f"needs Slurm and MUNGE: {error}")
    assert done.returncode == 1 and report["bad"] == ["node3"], report
    assert [row["verdict"] for row in report["tests"]] == ["fail", "pass", "fail", "fail", "pass"]
    assert os.path.basename(report["tests"][0]["last_line"]) != ""


def test_a_step_does_not_take_the_number_of_tasks_of_the_job():
    env = {**os.environ, "SLURM_NTASKS": "32", "SLURM_NPROCS": "32", "SLURM_JOB_ID": "7"}
    test = """sh -c 'test -z "$SLURM_NTASKS$SLURM_NPROCS" && test "$SLURM_JOB_ID" = 7' {nodes}"""
    done, report = found("--nodes", "n[1-4]", "--command", test, "--yes", env=env)
    assert done.returncode == 0, report
