"""scripts/serve and scripts/test before anything is installed: what they do when things go wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openbook import ROOT

PROBE = "from openbook import environment; print(environment.ensure('site'))"


def copy_to(checkout):
    """A copy of the two commands whose pins need no network: they are empty."""
    (checkout / "scripts" / "pins").mkdir(parents=True)
    (checkout / "scripts" / "openbook").mkdir()
    for name in ("__init__.py", "environment.py"):
        shutil.copy(ROOT / "scripts" / "openbook" / name, checkout / "scripts" / "openbook" / name)
    for kind in ("site", "test"):
        (checkout / "scripts" / "pins" / f"{kind}.txt").write_text("# nothing\n")
    return checkout


@pytest.fixture
def checkout(tmp_path):
    return copy_to(tmp_path / "checkout")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Making an environment takes seconds: tests that begin with a made one share this."""
    return copy_to(tmp_path_factory.mktemp("shared") / "Bücher im Regal")


@pytest.fixture
def made(shared):
    done = ensure(shared)
    assert done.returncode == 0, done.stderr
    return shared


def ensure(checkout, program=PROBE, before="", **environment):
    return subprocess.run(
        ["bash", "-c", f'{before}\nexec "$0" -c "$1"', sys.executable, program],
        cwd=checkout, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(checkout / "scripts"), **environment},
    )  # fmt: skip


def test_made_once_then_used(shared):
    """Packages and settings from outside stay outside."""
    (shared / "foreign").mkdir()
    (shared / "foreign" / "pip.py").write_text("raise ImportError('foreign')\n")
    first = ensure(shared, PYTHONPATH=f"{shared / 'foreign'}:{shared / 'scripts'}", PIP_USER="1")
    assert first.returncode == 0, first.stderr
    assert "making the environment" in first.stdout
    python = Path(first.stdout.splitlines()[-1])
    for locale in ("C", "C.UTF-8"):
        env = {**os.environ, "LC_ALL": locale}
        assert subprocess.run([python, "-c", "import openbook"], cwd="/", env=env).returncode == 0
    second = ensure(shared)
    assert second.stdout.strip() == str(python)


@pytest.mark.parametrize("half", ["empty", "begun", "no-python", "no-pip"])
def test_half_made_is_made_anew(made, half):
    venv = made / ".venv"
    if half == "empty":
        shutil.rmtree(venv)
        venv.mkdir()
    elif half == "begun":
        (venv / ".begun").touch()
    elif half == "no-pip":  # as after an upgrade of the system's Python
        shutil.rmtree(next(venv.glob("lib/python3*/site-packages")))
    else:
        (venv / "bin" / "python").unlink()
    again = ensure(made)
    assert again.returncode == 0, again.stderr
    assert "making the environment" in again.stdout
    assert not (venv / ".begun").exists()


def test_installer_that_outlives_a_killed_command_is_waited_for(made):
    killed = ensure(
        made,
        "import os, subprocess, sys\n"
        "from openbook import environment\n"
        "with environment.only_one() as child:\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(2)'], stdout=subprocess.DEVNULL,\n"
        "                     stderr=subprocess.DEVNULL, **child)\n"
        "    os.kill(os.getpid(), 9)",
    )
    assert killed.returncode == -9
    (made / "scripts" / "pins" / "site.txt").write_text("# other\n")
    after = ensure(made)
    assert after.returncode == 0
    assert "waiting for another command" in after.stdout
    assert "installing the packages" in after.stdout, "changed pins are installed"
    assert "making the environment in" not in after.stdout


def test_what_cannot_be_written_is_told(checkout):
    (checkout / ".venv.lock").mkdir()  # as root, too, this cannot be opened
    refused = ensure(checkout)
    assert refused.returncode == 2
    assert ".venv.lock" in refused.stderr and "checkout that you may write" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_ready_environment_needs_no_writing(made):
    lock = made / ".venv.lock"
    lock.unlink()
    lock.mkdir()
    try:
        assert ensure(made).returncode == 0
    finally:
        lock.rmdir()


def test_full_disk_is_told(checkout):
    full = ensure(checkout, before="ulimit -f 64")
    assert full.returncode == 2
    assert "is the disk full?" in full.stderr.splitlines()[-1]


def test_failed_install_is_told_and_not_taken_for_done(checkout):
    (checkout / "scripts" / "pins" / "site.txt").write_text("no-such-package==1 --hash=sha256:" + "0" * 64 + "\n")
    failed = ensure(checkout, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert failed.returncode == 2
    assert "could not be installed" in failed.stderr
    assert not list((checkout / ".venv").glob(".*.done"))


def test_what_is_started_takes_the_place_of_the_command(checkout):
    """So a signal, by whatever way it comes, ends the server and not only what started it."""
    program = "import os, sys; from openbook import environment; print(os.getpid(), flush=True)\n"
    program += "environment.become([sys.executable, '-c', 'import os; print(os.getpid(), os.getcwd())'], {})"
    done = ensure(checkout, program)
    assert done.returncode == 0, done.stderr
    before, after, where = done.stdout.split()
    assert before == after and where == str(checkout)


def test_without_venv_the_package_is_named(checkout):
    (checkout / "blocked").mkdir()
    (checkout / "blocked" / "ensurepip.py").write_text("raise ImportError('left out')\n")
    refused = ensure(checkout, PYTHONPATH=f"{checkout / 'blocked'}:{checkout / 'scripts'}")
    assert refused.returncode == 2
    assert "sudo apt-get install python3." in refused.stderr and "-venv" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_pins_are_complete_hashed_and_agree_with_the_project():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for kind, wanted in (
        ("site", project["dependencies"]),
        ("test", project["dependencies"] + project["optional-dependencies"]["test"]),
    ):
        pins = (ROOT / "scripts" / "pins" / f"{kind}.txt").read_text()
        for requirement in wanted:
            assert f"\n{requirement.lower()} \\\n" in pins, f"{kind}.txt lacks {requirement}: make the pins anew"
        lines = [line for line in pins.splitlines() if "==" in line]
        assert lines and all(line.endswith("\\") for line in lines), "a pin without a hash"
        assert "://" not in pins
