"""The recorder holds with the newest pymdown-extensions that this Python can install, not with the pinned one only."""

import os
import subprocess
import sys

import pytest

from openbook import ROOT


def test_recording_with_the_newest_superfences(tmp_path):
    newest = tmp_path / "newest"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install += ["--only-binary=:all:", "--target", str(newest), "pymdown-extensions"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        pytest.skip(f"needs pip and a package index that answers: {done.stderr.strip().splitlines()[-1:]}")
    tests = [ROOT / "tests" / "openbook" / name for name in ("test_render.py", "test_snippets_broken.py")]
    version = "import pymdownx; print(pymdownx.__file__)"
    # In another process, whose path begins with the newest version.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(newest), str(ROOT / "scripts")])}
    where = subprocess.run([sys.executable, "-c", version], capture_output=True, text=True, env=env, check=True)
    assert str(newest) in where.stdout
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, tests)]
    done = subprocess.run(run, capture_output=True, text=True, env=env, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout
