"""slurm_lab.py starts a real cluster, shows it, and leaves nothing behind however it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "slurm" / "slurm_lab.py"


def call(*args, env=None):
    return subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, args)], env=env, capture_output=True, text=True, timeout=120
    )


def processes(folder):
    """Living processes whose environment or command line names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            alive = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            continue
        if alive and str(folder).encode() in text and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found


# Its digits are this process's, so that another run of these tests on this machine is not taken for ours.
SLEEP = f"300.{os.getpid()}"


def sleeping():
    """Whether one of our sleeps runs on this machine."""
    found = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout.splitlines()
    return any(Path(line.split()[0]).name == "sleep" and line.split()[1:] == [SLEEP] for line in found if line)


def wait_until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)


@pytest.fixture
def folder(slurm_lab):
    """A short path for a lab (sockets in it have 107 characters at most), stopped at the end."""
    path = Path(f"/tmp/lab-test-{os.getpid()}-{time.monotonic_ns() % 10**6}")
    yield path
    if path.exists():
        call("stop", "--dir", path)
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def started(folder):
    """A lab of two nodes, started from the command line, and the environment that reaches it."""
    done = call("start", "--dir", folder, "--nodes", 2, "--gpus", 1, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"}


def test_four_nodes_are_idle_and_have_eight_gpus(slurm):
    assert slurm("sinfo", "-h", "-p", "gpu", "-o", "%D %t %G").split() == ["4", "idle", "gpu:8"]


def test_job_runs_on_every_node_with_its_gpus(slurm):
    shown = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
    out = slurm("srun", "-N4", "--ntasks-per-node=1", "--gpus-per-node=8", "bash", "-c", shown)
    names = slurm("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N").split()
    assert sorted(out.splitlines()) == sorted(f"{name} 0,1,2,3,4,5,6,7" for name in names)


def test_node_names_resolve_on_the_nodes(slurm):
    name = slurm("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N").split()[0]
    lookup = f"import socket; print(socket.getaddrinfo({name!r}, 1)[0][4][0].startswith('127.'))"
    assert slurm("srun", "-N2", "--ntasks-per-node=1", "python3", "-c", lookup).split() == ["True", "True"]


def test_start_without_yes_only_shows_the_files(folder):
    done = call("start", "--dir", folder)
    assert done.returncode == 0
    assert f"StateSaveLocation={folder}/state" in done.stdout and "NodeName=" in done.stdout
    assert not folder.exists()


def test_misuse_is_refused_with_a_message(folder):
    for arguments in (
        ("run",),
        ("stop", "--", "hostname"),
        ("start", "--nodes", 0, "--yes", "--dir", folder),
        ("env", "--dir", folder),
        ("run", "--", "/no/such/command"),
        ("start", "--yes", "--dir", folder.with_name("x" * 90)),
    ):
        done = call(*arguments)
        assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr, arguments
    assert not folder.exists()


def test_status_env_and_stop(started):
    folder, env = started
    state = json.loads(call("status", "--dir", folder, "--json").stdout)
    assert (state["state"], state["nodes"], state["gpus"]) == ("running", 2, 1)
    assert call("env", "--dir", folder).stdout == f"export SLURM_CONF={folder}/slurm.conf\n"
    subprocess.run(
        ["sbatch", "-N2", "-o", "/dev/null", "--wrap", f"(setsid sleep {SLEEP} &) ; srun sleep {SLEEP}"], env=env
    )
    wait_until(sleeping)
    assert len(processes(folder)) > len(state["processes"])
    assert call("stop", "--dir", folder).returncode == 0
    assert processes(folder) == [] and not sleeping()
    assert not folder.exists()
    assert call("status", "--dir", folder).returncode == 1
    assert call("stop", "--dir", folder).returncode == 1


def test_second_start_in_the_same_folder_is_refused(started):
    folder, _ = started
    done = call("start", "--dir", folder, "--yes")
    assert done.returncode == 2 and "in use" in done.stderr
    assert call("status", "--dir", folder).returncode == 0


def test_two_labs_run_side_by_side(started, slurm):
    _, env = started
    mine = subprocess.run(["sinfo", "-h", "-p", "gpu", "-o", "%D"], env=env, capture_output=True, text=True)
    assert mine.stdout.strip() == "2"
    assert slurm("sinfo", "-h", "-p", "gpu", "-o", "%D").strip() == "4"


def test_killed_lab_is_stale_and_stop_cleans_it_up(started):
    folder, env = started
    pid = (folder / "slurmctld.pid").read_text().strip()
    subprocess.run(["sbatch", "-N2", "-o", "/dev/null", "--wrap", f"srun sleep {SLEEP}"], env=env)
    wait_until(sleeping)
    os.kill(json.loads((folder / "lab.json").read_text())["keeper"], signal.SIGKILL)
    wait_until(lambda: pid not in processes(folder))  # the daemons end by themselves
    wait_until(lambda: json.loads(call("status", "--dir", folder, "--json").stdout)["state"] == "stale")
    assert call("stop", "--dir", folder).returncode == 0
    assert processes(folder) == [] and not sleeping() and not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_run_that_is_killed_takes_its_lab_along(folder, number):
    command = [sys.executable, str(PROGRAM), "run", "--dir", str(folder), "--nodes", "1", "--", "sleep", SLEEP]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(sleeping)
    process.send_signal(number)
    process.wait(timeout=30)
    wait_until(lambda: not folder.exists())
    if number == signal.SIGKILL:
        os.killpg(process.pid, signal.SIGKILL)  # nobody was left to end the command
    wait_until(lambda: processes(folder) == [] and not sleeping())


@pytest.mark.parametrize("delay_s", [0.1, 0.3, 0.6])
def test_keeper_killed_while_it_starts_leaves_nothing(folder, slurm_lab, delay_s):
    command = [sys.executable, str(PROGRAM), "start", "--yes", "--nodes", "2", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: slurm_lab.state_of(folder)["state"] == "running")
        time.sleep(delay_s)
        os.kill(slurm_lab.state_of(folder)["keeper"], signal.SIGKILL)
        _, errors = process.communicate()
    if process.returncode == 0:  # it was ready before we killed it
        assert call("stop", "--dir", folder).returncode == 0
    else:
        assert process.returncode == 2 and "Traceback" not in errors
    assert not folder.exists()
    wait_until(lambda: processes(folder) == [])


def test_of_two_starts_at_once_one_goes_on(folder):
    command = [sys.executable, str(PROGRAM), "start", "--yes", "--nodes", "1", "--dir", str(folder)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    errors = "".join(process.communicate()[1] for process in both)
    assert sorted(process.returncode for process in both) == [0, 2] and "Traceback" not in errors
    assert call("status", "--dir", folder).returncode == 0


def test_full_disk_is_named_and_leaves_nothing(folder):
    limited = f"ulimit -f 0; exec {sys.executable} {PROGRAM} start --yes --dir {folder}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert not folder.exists() and processes(folder) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keeper": "x"}'])
def test_folder_with_another_lab_json_is_left_alone(folder, text):
    folder.mkdir()
    (folder / "lab.json").write_text(text)
    for verb, code in (("status", 1), ("stop", 1), ("env", 2)):
        done = call(verb, "--dir", folder)
        assert done.returncode == code and "Traceback" not in done.stderr
    assert call("start", "--yes", "--dir", folder).returncode == 2
    assert (folder / "lab.json").read_text() == text


def test_stop_spares_the_programs_that_talk_to_the_lab(started):
    """Even where this shell itself runs in a job of another Slurm."""
    folder, env = started
    with subprocess.Popen(["sleep", SLEEP], env={**env, "SLURMD_NODENAME": "node1", "SLURM_JOB_ID": "7"}) as client:
        assert call("stop", "--dir", folder).returncode == 0
        assert client.poll() is None
        client.kill()


def test_run_gives_the_exit_code_of_its_command(slurm_lab):
    assert call("run", "--nodes", 1, "--", "bash", "-c", "sinfo && exit 7").returncode == 7


@pytest.mark.root  # for an ordinary user every other test is this one
def test_ordinary_user_can_have_a_lab(slurm_lab, tmp_path):
    home = Path(f"/tmp/lab-nobody-{os.getpid()}")
    home.mkdir(mode=0o777)
    try:
        shutil.copy(PROGRAM, home)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        inner = ["srun", "-N2", "--ntasks-per-node=1", "--gpus-per-node=2", "bash", "-c"]
        inner.append("id -u; echo $CUDA_VISIBLE_DEVICES")
        done = subprocess.run(
            [*prefix, "/usr/bin/python3", str(home / PROGRAM.name), "run", "--nodes", "2", "--", *inner],
            cwd=home, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert sorted(done.stdout.split()) == ["0,1", "0,1", "65534", "65534"], done.stdout + done.stderr
    finally:
        shutil.rmtree(home)


@pytest.mark.root  # who alone can become a user that does not exist
def test_user_without_a_name_is_told_so(slurm_lab, tmp_path):
    prefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "/usr/bin/python3"]
    done = subprocess.run([*prefix, "-"], input=PROGRAM.read_text().replace("sys.argv[1:]", "['start']"), cwd="/tmp",
                          capture_output=True, text=True, timeout=30)  # fmt: skip
    assert done.returncode == 2 and "54321 has no name" in done.stderr


def test_missing_slurm_names_the_packages(tmp_path):
    """Needs no Slurm: the folders that hold the daemons are hidden from the search."""
    code = (
        "import shutil, sys, runpy; shutil.which = lambda *a, **k: None; "
        "sys.argv = ['slurm_lab.py', 'start', '--yes']; "
        f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "sudo apt-get install slurm-wlm munge" in done.stderr
