"""The house: what lies where, and what has no place in it."""

import subprocess
import sys

import pytest

from openbook import ROOT

TOP = {"docs", "mkdocs.yml", "scripts", "tests", "pyproject.toml", "README.md", "LICENSE"}
SKIPPED = {".venv", ".git", "__pycache__", "site", "site-offline", ".cache", "node_modules"}
PYTHON = sorted(
    p for folder in ("docs", "scripts", "tests") for p in (ROOT / folder).rglob("*.py") if not SKIPPED & set(p.parts)
)
PROGRAMS = sorted(p for p in (ROOT / "docs").rglob("*.py") if "__pycache__" not in p.parts)


def test_top_level_holds_the_house_only():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = {line.split("/")[0] for line in tracked.stdout.splitlines()} or {p.name for p in ROOT.iterdir()}
    assert {name for name in names if not name.startswith(".")} - {"site", "site-offline"} == TOP


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_python_file_is_longer_than_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_python_is_linted_and_formatted():
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "docs", "scripts", "tests", "scripts/serve", "scripts/test"],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_program_has_a_test(path):
    assert any(path.name in test.read_text() for test in (ROOT / "tests").rglob("test_*.py")), "no test names it"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_program_helps_with_the_standard_library_alone(path, tmp_path):
    """-I -S: no site-packages, no environment, nothing of the current directory."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(path), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
    assert not list(tmp_path.iterdir()), "--help left something behind"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_program_refuses_an_unknown_option(path):
    done = subprocess.run([sys.executable, str(path), "--no-such-option"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
