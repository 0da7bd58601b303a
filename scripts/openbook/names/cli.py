"""The command line of check_names."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from openbook import ROOT
from openbook.findings import FORMATS, Finding, Misuse, report
from openbook.names import documents, env, lists, slurm_commands, torch_calls, torch_names
from openbook.names.documents import SUFFIXES
from openbook.render import Renderer

DESCRIPTION = """Check that the names on pages and in programs are real.

Environment variables, options of Slurm's commands, names of PyTorch and keyword arguments of its calls are
looked up in docs/data/names. Inline code and fences are read as the site renders them; without paths, all pages
and the programs beside them. A real name that no list has goes into the list of its upstream, with a source in
the head; a variable of the book's own programs into variables/own.txt, with its reason. Exit code 0: fine; 1: findings; 2: misuse."""
NOT_PAGES = ("data", "assets")  # folders of the docs folder


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="check_names.py", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a page, a program, or a folder of them")
    made.add_argument("--config", type=Path, default=ROOT / "mkdocs.yml", help="MkDocs configuration (the book's)")
    made.add_argument("--format", choices=FORMATS, default="text")
    return made


def name_of(path: Path) -> str:
    """The path as results show it: from the working directory when it lies below."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def find(paths: Sequence[Path], docs: Path) -> list[Path]:
    """Raises Misuse for what does not exist or cannot be checked."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            for one in sorted(path.rglob("*")):
                hidden = any(part.startswith((".", "__")) for part in one.relative_to(path).parts)
                inside = one.resolve().relative_to(docs).parts[0] if one.resolve().is_relative_to(docs) else ""
                if one.is_file() and one.suffix in (".md", *SUFFIXES) and not hidden and inside not in NOT_PAGES:
                    found[one] = None
        elif not path.exists():
            raise Misuse(f"{path}: no such file or folder")
        elif path.suffix not in (".md", *SUFFIXES):
            raise Misuse(f"{path}: neither a page nor one of {', '.join(SUFFIXES)}")
        else:
            found[path] = None
    return list(found)


def check(renderer: Renderer, paths: Sequence[Path]) -> list[Finding]:
    pages = [(path, name_of(path)) for path in paths if path.suffix == ".md"]
    files = [(path, name_of(path)) for path in paths if path.suffix != ".md"]
    findings: list[Finding] = []
    for document in documents.read(renderer, pages, files):
        findings += env.check(document, lists.variables())
        findings += slurm_commands.check(document)
        findings += torch_calls.check(document, torch_names.names())
    return list(dict.fromkeys(findings))


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    renderer = Renderer(options.config)
    findings = check(renderer, find(options.paths or [renderer.docs], renderer.docs))
    if not options.paths:
        findings += lists.mistakes()
    return report(findings, options.format)
