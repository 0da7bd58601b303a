"""scripts/serve and scripts/test before anything is installed: what they do when things go wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openbook import ROOT

PROBE = "from openbook import environment; print(environment.ensure('site'))"


@pytest.fixture
def checkout(tmp_path):
    """A copy of the two commands whose pins need no network: they are empty."""
    (tmp_path / "scripts" / "pins").mkdir(parents=True)
    (tmp_path / "scripts" / "openbook").mkdir()
    for name in ("__init__.py", "environment.py"):
        shutil.copy(ROOT / "scripts" / "openbook" / name, tmp_path / "scripts" / "openbook" / name)
    for kind in ("site", "test"):
        (tmp_path / "scripts" / "pins" / f"{kind}.txt").write_text("# nothing\n")
    return tmp_path


def ensure(checkout, *options, **environment):
    return subprocess.run(
        [sys.executable, *options, "-c", PROBE], cwd=checkout, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(checkout / "scripts"), **environment},
    )  # fmt: skip


def test_made_once_then_used(checkout):
    first = ensure(checkout)
    assert first.returncode == 0, first.stderr
    assert "making the environment" in first.stdout
    python = Path(first.stdout.split()[-1])
    assert subprocess.run([python, "-c", "import openbook"], cwd="/").returncode == 0
    second = ensure(checkout)
    assert second.stdout.strip() == str(python)


@pytest.mark.parametrize("half", ["empty", "begun", "no-python"])
def test_half_made_is_made_anew(checkout, half):
    venv = checkout / ".venv"
    if half == "empty":
        venv.mkdir()
    else:
        assert ensure(checkout).returncode == 0
        if half == "begun":
            (venv / ".begun").touch()
            (venv / ".site.done").unlink()
        else:
            (venv / "bin" / "python").unlink()
    again = ensure(checkout)
    assert again.returncode == 0, again.stderr
    assert "making the environment" in again.stdout
    assert not (venv / ".begun").exists()


def test_changed_pins_are_installed(checkout):
    assert ensure(checkout).returncode == 0
    (checkout / "scripts" / "pins" / "site.txt").write_text("# other\n")
    assert "installing the packages" in ensure(checkout).stdout


def test_failed_install_is_told_and_not_taken_for_done(checkout):
    (checkout / "scripts" / "pins" / "site.txt").write_text("no-such-package==1 --hash=sha256:" + "0" * 64 + "\n")
    failed = ensure(checkout, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert failed.returncode == 2
    assert "could not be installed" in failed.stderr
    assert not list((checkout / ".venv").glob(".*.done"))


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
