"""import_storm.py: counts what an import really opens, and multiplies honestly."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/import_storm.py"
QUICK = ["--repeats", 1]


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, **options)


def report(*arguments, **options) -> dict:
    result = run(*arguments, *QUICK, "--json", **options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def load():
    spec = importlib.util.spec_from_file_location("import_storm", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path) -> dict:
    """A package of ten modules and a data file, and the environment that finds it."""
    root = tmp_path / "stormy"
    root.mkdir()
    lines = [f"from . import part{n}" for n in range(9)]
    (root / "__init__.py").write_text("\n".join(lines) + "\nopen(__file__[:-11] + 'data.txt').close()\n")
    for n in range(9):
        (root / f"part{n}.py").write_text("VALUE = 1\n")
    (root / "data.txt").write_text("x" * 5000)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", "import stormy"], env=environment, check=True)  # writes the .pyc files
    return environment


def test_python_counts_what_the_package_opens(package):
    counts = report("stormy", "--no-strace", env=package)["python_counts"]
    assert counts["modules"] == 10
    assert counts["opens"] == 11  # ten .pyc files and the data
    assert counts["files"] == 11
    assert counts["file_bytes"] > 5000
    assert counts["stats"] >= 20  # a directory or a file for each module, and its source


def test_the_storm_is_calls_times_ranks_over_rate(package):
    found = report("stormy", "--no-strace", "--ranks", 20, "--per-node", 8, "--rate", 100, env=package)
    counts, storm = found["python_counts"], found["storm"]
    each = counts["opens"] + counts["stats"] + counts["listings"]
    assert storm["operations"] == each * 20
    assert storm["nodes"] == 3
    assert storm["seconds_each"] == pytest.approx(each * 20 / 100)
    assert storm["seconds_shared"] == pytest.approx(each * 3 / 100)


def test_strace_sees_at_least_what_python_counts(package):
    if not shutil.which("strace"):
        pytest.skip("needs strace: sudo apt-get install strace")
    found = report("stormy", env=package)
    if found["calls"] is None:
        pytest.skip("tracing is not permitted here")
    counts = found["python_counts"]
    assert found["calls"]["calls"] >= counts["opens"] + counts["stats"]
    assert found["calls"]["calls"] > found["calls"]["failed"] > 0


def test_calls_are_read_from_lines_of_strace():
    text = """12 execve("/usr/bin/python3", ["python3"], 0x1) = 0
12 openat(AT_FDCWD, "/a", O_RDONLY) = -1 ENOENT (No such file or directory)
12 newfstatat(3, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0
12 newfstatat(AT_FDCWD, "/b", {st_mode=S_IFREG}, 0) = 0
12 getcwd("/", 4096) = 2
13 openat(AT_FDCWD, "/c", O_RDONLY <unfinished ...>
13 <... openat resumed>) = 4
13 +++ exited with 0 +++
"""
    counts = load().parse_calls(text)
    assert counts == {"calls": 4, "failed": 1, "execve": 1, "openat": 2, "newfstatat": 1}


def test_slowest_imports_sort_by_own_time():
    text = "import time:       300 |        900 | outer\nimport time:       600 |        600 |   inner\n"
    assert load().slowest_imports(text) == [{"module": "inner", "self_ms": 0.6}, {"module": "outer", "self_ms": 0.3}]


def test_several_at_once_are_timed(package):
    found = report("stormy", "--no-strace", "--processes", 2, env=package)
    assert found["together"]["slowest"] >= found["together"]["fastest"] > 0


def test_people_get_a_summary(package):
    text = run("stormy", "--no-strace", *QUICK, env=package).stdout
    assert "10 modules, 11 opens" in text
    assert "if nothing is cached" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module_here"], "No module named"),
        (["json; print(1)"], "not the name of a module"),
        (["json", "--python", "/nowhere/python"], "no such program"),
        (["json", "--processes", "5000"], "--yes"),
        (["json", "--rate", "0"], "whole number"),
    ],
)
def test_misuse_is_explained(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
