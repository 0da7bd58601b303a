"""What the book's own fences cost: builds with them against builds of the same pages without.

usage: .venv/bin/python tests/openbook/bench_build.py [--runs N]

Both sides have the same configuration, plugins and pages; on one side the own fences and references to figures are
cut out, with their configuration. Builds alternate; the least processor time of each side counts, which other work
on the machine disturbs least. A rebuild is the second build of a process that has built before, after one page has
changed: what `scripts/serve` does. Prints a Markdown table; exit code 1: the build takes more than 1.3 times as long.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1.3
OWN = re.compile(r"^(?P<fence>`{3,})(figures|chart|calculator)\b.*?^(?P=fence)[ ]*$\n?", re.M | re.S)
REFERENCE = re.compile(r"\[\[[a-z][a-z0-9_]*\.[^\[\]\n]+\]\]")
BUILD = """
import json, sys, time
from pathlib import Path
import yaml  # what every build loads
started, cpu = time.perf_counter(), time.process_time()
from mkdocs.commands.build import build
from mkdocs.config import load_config
def once():
    config = load_config(config_file="mkdocs.yml", site_dir=sys.argv[1])
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
once()
first = time.process_time() - cpu, time.perf_counter() - started
page = Path(sys.argv[2])
page.write_text(page.read_text() + "\\nOne more sentence.\\n")
started, cpu = time.perf_counter(), time.process_time()
once()
print(json.dumps({"build": first, "rebuild": (time.process_time() - cpu, time.perf_counter() - started)}))
"""


def without(home: Path) -> int:
    """Cut the own fences out of the pages of a copy; return how many there were."""
    count = 0
    for page in (home / "docs").rglob("*.md"):
        text, found = OWN.subn("", page.read_text(encoding="utf-8"))
        text, references = REFERENCE.subn("a number", text)
        count += found + references
        page.write_text(text, encoding="utf-8")
    config = (home / "mkdocs.yml").read_text(encoding="utf-8")
    lines = [
        line
        for line in config.splitlines(True)
        if "openbook.fences." not in line and "openbook.markdown.figures" not in line
    ]
    kept = "".join(line for line in lines if "custom_fences:" not in line)
    (home / "mkdocs.yml").write_text(kept, encoding="utf-8")
    return count


def copy(home: Path) -> Path:
    home.mkdir()
    shutil.copy(ROOT / "mkdocs.yml", home)
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, home / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return home


def measure(home: Path) -> dict[str, tuple[float, float]]:
    """(processor, wall) seconds of the first build of a process and of its second after an edit."""
    page = home / "docs" / "training" / "memory-and-time.md"
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(home / "site"), str(page)], cwd=home, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": "scripts", "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the build failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="builds of each side (default: %(default)s)")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        sides = {"without": copy(Path(folder) / "without"), "with": copy(Path(folder) / "with")}
        count = without(sides["without"])
        pages = len(list((sides["with"] / "docs").rglob("*.md")))
        for home in sides.values():
            measure(home)  # compiles Python, warms the disk
        found = {side: [] for side in sides}
        cold = []
        for _ in range(runs):
            for side, home in sides.items():
                found[side].append(measure(home))
            shutil.rmtree(sides["with"] / ".cache")
            cold.append(measure(sides["with"])["build"][0])
    least = {side: {what: min(run[what][0] for run in found[side]) for what in ("build", "rebuild")} for side in sides}
    print(f"{pages} pages, {count} own fences and references; {runs} runs, Python {platform.python_version()}, {os.cpu_count()} cores\n")  # fmt: skip
    print("| processor seconds, least of the runs | without | with | ratio |\n|---|---:|---:|---:|")
    a, b = least["without"], least["with"]
    rows = [("build", a["build"], b["build"]), ("build, every chart drawn anew", a["build"], min(cold))]
    rows += [("rebuild after one edit", a["rebuild"], b["rebuild"])]
    for title, one, other in rows:
        print(f"| {title} | {one:.2f} | {other:.2f} | {other / one:.2f} |")
    return int(b["build"] / a["build"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
