"""The command line of check_figures."""

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from openbook import ROOT
from openbook.data.checks import check_data
from openbook.data.load import Data, load, load_files, topic_files
from openbook.findings import FORMATS, Finding, Misuse, report

DESCRIPTION = """Check the figures of the book: the records of docs/data, and how pages use and repeat them.

Without paths: every topic file of docs/data and every page of docs. A topic file (.yml) is checked for form,
sources and dates, identities, plausible ranges and age; a page (.md) for its figures fences, for references such
as [[accelerators.nvidia-h100-sxm.bf16_dense]], for numbers that differ from the record that they repeat, and for
tables typed by hand.
Exit code 0: fine; 1: findings; 2: misuse."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="check_figures.py",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a topic file, a page, or a folder")
    made.add_argument("--format", choices=FORMATS, default="text", help="for people, GitHub annotations, JSON lines")
    made.add_argument(
        "--today", type=date, metavar="DATE", default=datetime.date.today(), help="judge ages on that day"
    )
    return made


def date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date (YYYY-MM-DD)") from None


def find(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Topic files and pages. Raises Misuse for what is neither."""
    topics: dict[Path, None] = {}
    pages: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise Misuse(f"{path}: no such file or folder")
        if path.is_dir():  # YAML of other kinds lies in other folders
            found = [*sorted(path.rglob("*.md")), *topic_files(path), *topic_files(path / "data")]
        else:
            found = [path] if path.suffix in (".yml", ".md") else []
        if not found:
            raise Misuse(f"{path}: neither a topic file (.yml) nor a page (.md), nor a folder of them")
        for one in found:
            (topics if one.suffix == ".yml" else pages)[Path(os.path.abspath(one))] = None
    return list(topics), list(pages)


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    topics, pages = find(options.paths or [ROOT / "docs"])
    book = load()
    checked: Data = load_files(topics)
    findings: list[Finding] = check_data(checked, options.today)
    if pages:
        from openbook.data.pages import check_pages

        findings += check_pages(pages, book)
    code = report(dict.fromkeys(findings), options.format)
    if options.format == "text":
        sys.stdout.flush()
        figures = sum(1 for topic in checked.topics.values() for _ in topic.all_figures())
        counted = f"{len(checked.topics)} topics with {figures} figures, {len(pages)} pages"
        print(f"{counted}: {len(findings) or 'no'} findings", file=sys.stderr)
    return code
