#!/usr/bin/env python3
"""Check every link and anchor of the built site, and name the source line of each that is broken.

    python scripts/check_links.py                     build the book, check it
    python scripts/check_links.py --site site         check a site that is built
    python scripts/check_links.py --record-anchors    keep the anchors of all headings from now on
    python scripts/check_links.py --external          ask other sites too; remembers what they answered
    python scripts/check_links.py --external --new-since origin/main
                                                      fail only for what a pull request brings

Exit codes: 0 nothing found, 1 findings, 2 the check could not run, 130 interrupted. Of what other sites
answer, only errors count: an address must fail in several runs over a week before it is one.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openbook import ROOT
from openbook.findings import FORMATS, FOUND, OK, Misuse, report, run

INTERRUPTED = 130  # as a shell says it


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
    with contextlib.ExitStack() as until_the_end:
        root = options.site
        if root is None:
            import tempfile  # late, as it is slow to load

            root = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="site-"))) / "site"
            build(book.file, root)
        site = Site.read(root)
        if book is not None and not built_from(book, site) and options.config is None:
            book = None  # the book of this folder did not make this site
        shown = "" if options.site else "site"
        result, found = findings(site, book, shown)
        outcome = None
        if options.external:
            outcome = _external(options, result, site, book, shown)
    if options.record_anchors:
        if book is None:
            raise Misuse("--record-anchors needs the book that the site was built from: name it with --config")
        file = book.docs / published.FILE
        print(f"{published.record(file, result)} anchors added to {file}", file=sys.stderr)
    answers = outcome.findings if outcome else []
    report([*found, *answers], options.format)
    failed = any(each.severity != "notice" for each in found) or any(each.severity == "error" for each in answers)
    if options.format == "text":
        sys.stdout.flush()
        links = sum(report.count for report in result.reports.values())
        print(
            f"{len(result.reports)} pages, {links} links: {len(found) + len(answers) or 'no'} findings", file=sys.stderr
        )
    if outcome:
        print(outcome.summary(), file=sys.stderr)
    if outcome and outcome.interrupted:
        return INTERRUPTED
    return FOUND if failed else OK


def _external(options: argparse.Namespace, result: Any, site: Any, book: Any, shown: str) -> Any:
    from openbook.links.external.run import visited
    from openbook.links.source import Tracer

    return visited(options, result, book, Tracer(site, book, shown))


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
    parser.add_argument("--external", action="store_true", help="also ask other sites (network, minutes)")
    web = parser.add_argument_group("with --external")
    web.add_argument("--new-since", metavar="REV", help="errors only on lines that are new since this revision")
    web.add_argument(
        "--state", type=Path, metavar="FILE", help="what runs remember (default: .cache/external-links.json)"
    )
    web.add_argument(
        "--ignore",
        type=Path,
        metavar="FILE",
        help="addresses not to ask for, with reason and end (default: docs/data/external-links.yml)",
    )
    web.add_argument(
        "--time", type=_seconds, default=1500, metavar="S", help="for the whole run (default: %(default)s s)"
    )
    web.add_argument(
        "--timeout", type=_seconds, default=15, metavar="S", help="for one answer (default: %(default)s s)"
    )
    web.add_argument(
        "--spacing", type=_seconds, default=1, metavar="S", help="between requests to one host (default: %(default)s s)"
    )
    web.add_argument(
        "--allow-network",
        action="append",
        default=[],
        metavar="CIDR",
        help="also ask hosts in this network, which is not public; may be repeated",
    )
    options = parser.parse_args(argv)
    if not options.external and (options.new_since or options.state or options.ignore or options.allow_network):
        parser.error("--new-since, --state, --ignore and --allow-network belong to --external")
    return options


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(run(main))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
