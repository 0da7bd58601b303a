#!/usr/bin/env python3
"""Check every link and anchor of the built site, and name the source line of each that is broken.

    python scripts/check_links.py                     build the book, check it
    python scripts/check_links.py --site site         check a site that is built
    python scripts/check_links.py --record-anchors    keep the anchors of all headings from now on
    python scripts/check_links.py --external all      ask other sites too; remembers what they answered
    python scripts/check_links.py --external new      only addresses that no earlier run asked for

Exit codes: 0 nothing found, 1 findings, 2 the check could not run.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openbook import ROOT
from openbook.findings import FORMATS, OK, Finding, Misuse, report, run


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    from openbook.links import published
    from openbook.links.book import Book
    from openbook.links.run import build, built_from, findings
    from openbook.links.site import Site

    config = options.config or next((c for c in (Path("mkdocs.yml"), ROOT / "mkdocs.yml") if c.is_file()), None)
    book = Book.read(config) if config else None
    if options.site is None and book is None:
        raise Misuse("there is no mkdocs.yml here: name it with --config, or a built site with --site")
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        root = options.site
        if root is None:
            root = Path(folder) / "site"
            build(book.file, root)
        site = Site.read(root)
        if book is not None and not built_from(book, site) and options.config is None:
            book = None  # the book of this folder did not make this site
        shown = "" if options.site else "site"
        result, found = findings(site, book, shown)
        if options.external:
            found += _external(options, result, site, book, shown)
    if options.record_anchors:
        if book is None:
            raise Misuse("--record-anchors needs the book that the site was built from: name it with --config")
        file = book.docs / published.FILE
        print(f"{published.record(file, result)} anchors added to {file}", file=sys.stderr)
    code = report(found, options.format)
    if options.format == "text":
        sys.stdout.flush()
        links = sum(report.count for report in result.reports.values())
        print(f"{len(result.reports)} pages, {links} links: {len(found) or 'no'} findings", file=sys.stderr)
    return code if found else OK


def _external(options: argparse.Namespace, result: Any, site: Any, book: Any, shown: str) -> list[Finding]:
    from openbook.links.external_fetch import Fetcher
    from openbook.links.external_policy import exemptions, remember, remembered
    from openbook.links.external_visit import Visit, expired
    from openbook.links.run import external_findings

    exempt = exemptions(options.exempt)
    visit = Visit(Fetcher(), remembered(options.state), exempt, new_only=options.external == "new")
    found = [*external_findings(visit, result, site, book, shown), *expired(exempt, options.exempt, visit.today)]
    if options.external == "all":
        remember(options.state, visit.memories)
    if visit.left:
        print(f"{len(visit.left)} addresses were not asked for: time was up", file=sys.stderr)
    return found


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--site", type=Path, metavar="DIR", help="a built site; without it, the book is built first")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the book's mkdocs.yml; maps findings to Markdown")
    parser.add_argument("--format", choices=FORMATS, default="text", help="for people, GitHub annotations, JSON lines")
    parser.add_argument(
        "--record-anchors", action="store_true", help="add the headings of the site to data/anchors.txt"
    )
    parser.add_argument("--external", choices=("all", "new"), help="also ask other sites (network)")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        default=ROOT / ".cache" / "external-links.json",
        help="what earlier runs of --external all heard (default: %(default)s)",
    )
    parser.add_argument(
        "--exempt",
        type=Path,
        metavar="FILE",
        default=ROOT / "docs" / "data" / "external-links.toml",
        help="addresses not to ask for, with reason and end (default: %(default)s)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(main))
