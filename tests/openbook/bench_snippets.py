"""How long the snippet checker takes, with other tools on the same pages: prints a Markdown table.

    python tests/openbook/bench_snippets.py [--peers FOLDER]

Not a test: times depend on the machine. FOLDER receives a virtual environment with the other tools.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from openbook.render import Renderer  # noqa: E402
from openbook.snippets import cache, execute, lab, static  # noqa: E402
from openbook.snippets.collect import PageItems, collect  # noqa: E402

DOCS = ROOT / "docs"
PINNED = ["rumdl==0.3.0", "pytest-examples==0.0.18", "sybil==10.1.0", "doccmd==2026.9.16.1"]
SYBIL = """
import sys
from pathlib import Path
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser
class Python(CodeBlockParser):
    language = "python"
    def evaluate(self, example):
        compile(example.parsed, "x", "exec")
book = Sybil(parsers=[Python()])
seen = sum(len(list(book.parse(Path(name)).examples())) for name in sys.argv[1:])
print(seen)
"""
EXAMPLES = """
import sys
from pytest_examples import find_examples
print(len(list(find_examples(*sys.argv[1:]))))
"""


def least(function: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds: the shortest of several runs, which other programs disturbed least."""
    taken = []
    for _ in range(times):
        begun = clock()
        function()
        taken.append(clock() - begun)
    return min(taken)


def render_only(texts: list[str]) -> None:
    """The same pages by the same configuration, with nothing recorded."""
    from markdown import Markdown

    from openbook.render import load_config

    config = load_config(ROOT / "mkdocs.yml")
    markdown = Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs)
    for text in texts:
        markdown.reset().convert(text)


def recorded(paths: list[Path]) -> list[PageItems]:
    renderer = Renderer(ROOT / "mkdocs.yml")
    return [collect(renderer, path, str(path)) for path in paths]


def own(paths: list[Path]) -> list[tuple[str, float, str]]:
    from mkdocs.utils import meta

    texts = [meta.get_data(path.read_text(encoding="utf-8"))[0] for path in paths]
    os.chdir(ROOT)
    pages = recorded(paths)
    items = [item for page in pages for item in page.items]
    fences = f"{len(items)} fences on {len(paths)} pages"
    render_only(texts)  # imports
    by_turns = [
        (least(lambda: render_only(texts), 1, time.process_time), least(lambda: recorded(paths), 1, time.process_time))
        for _ in range(5)
    ]
    rendering, recording = map(min, zip(*by_turns))
    with tempfile.TemporaryDirectory() as folder:
        cache.FOLDER = Path(folder)
        cache.Cache.__init__.__defaults__ = (Path(folder),)
        cold = least(lambda: list(static.check(items)), 1)
        warm = least(lambda: list(static.check(items)))
        kept = cache.Cache(Path(folder))
        first = least(lambda: (list(execute.run_all(pages, kept)), list(lab.check(pages, [], kept))), 1)
        again = least(lambda: (list(execute.run_all(pages, kept)), list(lab.check(pages, [], kept))))
    program = [sys.executable, "scripts/check_snippets.py", "--run"]
    subprocess.run(program, capture_output=True)
    whole = least(lambda: subprocess.run(program, capture_output=True))
    return [
        ("MkDocs' Markdown renders the pages (CPU time)", rendering, fences),
        ("the same, fences recorded (CPU time)", recording, f"{recording / rendering:.2f} × rendering"),
        ("static check of all fences, first time", cold, "PyTorch is imported once, to look names up"),
        ("static check of all fences", warm, "without the recording"),
        ("`--run`, first time", first, "without the recording"),
        ("`--run`, nothing changed", again, "without the recording"),
        ("`check_snippets.py --run`, nothing changed", whole, "the whole command"),
    ]


def peers(paths: list[Path], folder: Path) -> list[tuple[str, float, str]]:
    """Other tools, each doing what is nearest to recording or to a static check."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-input", *PINNED, "ruff"], check=True)
    names = [str(path) for path in paths]
    tool = str(folder / "bin")
    lint = [f"{tool}/doccmd", "--language=python", f"--command={tool}/ruff check --select=E9", "--continue-on-error"]
    commands = [
        ("sybil 10.1: finds and compiles Python fences", [str(python), "-c", SYBIL, *names]),
        ("pytest-examples 0.0.18: finds Python fences", [str(python), "-c", EXAMPLES, *names]),
        ("rumdl 0.3: lints the Markdown, runs no other tool", [f"{tool}/rumdl", "check", "--no-cache", *names]),
        ("doccmd: ruff on each Python fence", [*lint, *names]),
    ]
    rows = []
    for name, command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        said = done.stdout.strip() if done.stdout.strip().isdecimal() else ""
        seconds = least(lambda command=command: subprocess.run(command, capture_output=True))
        rows.append((name, seconds, f"{said} seen" if said else f"exit code {done.returncode}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="also time other tools, installed into this folder")
    options = parser.parse_args()
    paths = sorted(DOCS.rglob("*.md"))
    rows = own(paths)
    if options.peers:
        rows += peers(paths, options.peers.resolve())
    load = (
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {'with' if shutil.which('sbatch') else 'without'} Slurm"
    )
    print(f"Python {sys.version.split()[0]}, {load}. The shortest of several runs.\n")
    print("| What | Seconds | Remark |\n|---|---:|---|")
    for name, seconds, remark in rows:
        print(f"| {name} | {seconds:.2f} | {remark} |")


if __name__ == "__main__":
    main()
