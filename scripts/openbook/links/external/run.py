"""From the options of the command line to a run over other sites."""

import argparse
import ipaddress
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from openbook import ROOT
from openbook.findings import Misuse
from openbook.links.book import Book
from openbook.links.check import Result
from openbook.links.external.addresses import collect
from openbook.links.external.fetch import Fetcher, Limits
from openbook.links.external.guard import Guard, Network
from openbook.links.external.ignore import Ignore
from openbook.links.external.pace import Pace
from openbook.links.external.since import NewLines
from openbook.links.external.state import State
from openbook.links.external.visit import Outcome, Visit
from openbook.links.source import Tracer

STATE = ROOT / ".cache" / "external-links.json"
IGNORE = ROOT / "docs" / "data" / "external-links.yml"


def visited(options: argparse.Namespace, result: Result, book: Book | None, tracer: Tracer) -> Outcome:
    """Ask the sites that the pages of `result` link to."""
    since = NewLines(options.new_since, book.docs if book else Path()) if options.new_since else None
    given = options.ignore is not None
    ignore = Ignore(_shown(options.ignore if given else IGNORE), datetime.now(UTC).date(), required=given)
    state = State(options.state or STATE, lambda text: print(f"warning: {text}", file=sys.stderr))
    fetcher = Fetcher(
        Guard(tuple(map(_network, options.allow_network))),
        Pace(options.spacing, options.time),
        Limits(header=options.timeout, body=options.timeout, connect=min(Limits.connect, options.timeout)),
    )
    return Visit(fetcher, state, ignore, tracer.trace, since).run(collect(result, book))


def _shown(file: Path) -> Path:
    """The path as findings name it: relative to the working directory where it is below that."""
    path = os.path.abspath(file)
    return Path(os.path.relpath(path)) if path.startswith(os.getcwd() + os.sep) else file


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as problem:
        raise Misuse(f"--allow-network wants a network such as 127.0.0.0/8: {problem}") from problem
