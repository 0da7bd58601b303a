"""The command line of check_snippets."""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from openbook import ROOT
from openbook.findings import FORMATS, Finding, Misuse, report
from openbook.render import Renderer
from openbook.snippets import execute, lab, levels, sandbox, static, tools
from openbook.snippets.cache import Cache
from openbook.snippets.collect import RENDER_ERROR, PageItems, collect
from openbook.snippets.dialects import BY_SUFFIX

DESCRIPTION = """Check the code blocks of the book as a reader sees them.

Without paths: every page of the configuration's docs folder, and the files beside them
({suffixes}).
Nothing of a page is executed without --run; with it, fences with check=run run in a sandbox,
and batch scripts are held against a Slurm of four nodes.
Exit code 0: fine; 1: findings; 2: misuse.""".format(suffixes=" ".join(sorted(BY_SUFFIX)))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="check_snippets.py", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a page, a file beside one, or a folder")
    made.add_argument("--config", type=Path, default=ROOT / "mkdocs.yml", help="MkDocs configuration (the book's)")
    made.add_argument("--list", action="store_true", help="print the fences instead of checking them")
    made.add_argument("--run", action="store_true", help="also run fences with check=run, in a sandbox")
    made.add_argument("--table", action="store_true", help="print how many fences are checked how far, per part")
    made.add_argument("--format", choices=FORMATS, default="text")
    return made


def name_of(path: Path) -> str:
    """The path as results show it: from the working directory when it lies below."""
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def find(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Pages, and files that are checked whole. Raises Misuse for what does not exist."""
    found: dict[Path, None] = {}
    for path in map(Path, map(os.path.abspath, paths)):
        if path.is_dir():
            below = (one for one in sorted(path.rglob("*")) if one.suffix in (".md", *BY_SUFFIX) and one.is_file())
            inside = [one for one in below if not any(part.startswith(".") for part in one.relative_to(path).parts)]
            if not inside:
                raise Misuse(f"{path}: no pages in this folder")
            found |= dict.fromkeys(inside)
        elif path.is_file():
            found[path] = None
        elif path.exists():
            raise Misuse(f"{path}: neither a file nor a folder")
        else:
            raise Misuse(f"{path}: no such file or folder")
    return [path for path in found if path.suffix not in BY_SUFFIX], [
        path for path in found if path.suffix in BY_SUFFIX
    ]


def show(pages: Sequence[PageItems], format: str) -> None:
    for page in pages:
        for item in page.items:
            fence = item.fence
            if format == "json":
                names = ("path", "start", "end", "language", "attributes", "classes", "source")
                print(json.dumps({name: getattr(fence, name) for name in names}, ensure_ascii=False))
            else:
                print(f"{fence.path}:{fence.start}-{fence.end}: {fence.info or '(no language)'} [{item.level}]")


def check(pages: Sequence[PageItems], files: Sequence[Path], run: bool) -> list[Finding]:
    findings = [finding for page in pages for finding in page.findings]
    findings += static.check(item for page in pages for item in page.items)
    named = [(path, name_of(path)) for path in files]
    findings += static.check_files(named)
    if run:
        findings += execute.run_all(pages, Cache())
        findings += lab.check(pages, named, Cache())
    for name in sorted(tools.missed):
        message = f"{name} is missing or did not answer, so checks of it were left out"
        findings.append(Finding(name, 0, 0, "tool-missing", "notice", message, tools.FROM.get(name, "")))
    return list(dict.fromkeys(findings))


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Whatever ends the check ends what it started too; a request to end counts as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    except BaseException:
        sandbox.stop_all()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    renderer = Renderer(options.config)
    paths, files = find(options.paths or [renderer.docs])
    pages = [collect(renderer, path, name_of(path)) for path in paths]
    if options.list:
        show(pages, options.format)
        lost = [found for page in pages for found in page.findings if found.rule == RENDER_ERROR]
        return report(lost, out=sys.stderr)
    with stopping():
        findings = check(pages, files, options.run)
    if not options.paths and renderer.docs == ROOT / "docs":
        findings += levels.compare(levels.skips(pages), levels.allowed())
    code = report(findings, options.format)
    if options.table or options.format == "text":
        out = sys.stdout if options.format == "text" else sys.stderr
        print(levels.table(pages, renderer.docs), file=out)
    return code
