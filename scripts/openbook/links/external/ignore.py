"""Addresses that are not asked for: which, why, and until when. An entry that ended or does nothing is a finding."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from openbook.findings import Finding, Misuse

_KEYS = {"pattern", "reason", "expires"}


@dataclass
class Entry:
    """`pattern` is a host or, with `://`, an address; `*` and `?` stand for any characters."""

    pattern: str
    reason: str
    expires: date  # the last day
    line: int
    used: bool = False

    def covers(self, url: str) -> bool:
        if "://" in self.pattern:
            return fnmatchcase(url, self.pattern)
        return fnmatchcase(urlsplit(url).hostname or "", self.pattern.lower())


class Ignore:
    """The entries of a file; none without a file."""

    def __init__(self, file: Path | None, today: date, required: bool = False):
        self.file, self.today = file, today
        self.entries = list(_entries(file, required)) if file is not None else []

    def covers(self, url: str) -> bool:
        """Whether some entry covers the address. Those that ended are noticed, but no longer cover."""
        covering = [entry for entry in self.entries if entry.covers(url)]
        for entry in covering:
            entry.used = True
        return any(entry.expires >= self.today for entry in covering)

    def findings(self) -> Iterator[Finding]:
        """Call it after all addresses were asked about."""
        for entry in self.entries:
            if not entry.used:
                message, hint = f"no address of the book fits {entry.pattern!r}", "remove the entry"
                yield self._finding(entry, "ignore-unused", message, hint)
            elif entry.expires < self.today:
                message = f"the entry for {entry.pattern!r} ended on {entry.expires}: its addresses are asked for again"
                hint = f"its reason was: {entry.reason}. Remove the entry, or look again and set a new date"
                yield self._finding(entry, "ignore-expired", message, hint)

    def _finding(self, entry: Entry, rule: str, message: str, hint: str) -> Finding:
        return Finding(str(self.file), entry.line, 1, rule, "error", message, hint, entry.pattern)


def _entries(file: Path, required: bool) -> Iterator[Entry]:
    try:
        tree = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    except FileNotFoundError as problem:
        if required:
            raise Misuse(f"there is no file {file}") from problem
        return
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"{file} cannot be read: {problem}") from problem
    except yaml.YAMLError as problem:
        raise Misuse(f"{file} is not valid YAML: {problem}") from problem
    if tree is None:
        return
    if not isinstance(tree, yaml.SequenceNode):
        raise Misuse(f"{file}: a list of entries is wanted, each with pattern, reason and expires")
    for node in tree.value:
        line = node.start_mark.line + 1
        yield _entry(node, f"{file}:{line}", line)


def _entry(node: yaml.Node, place: str, line: int) -> Entry:
    loader = yaml.SafeLoader("")
    try:
        values = loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as problem:
        raise Misuse(f"{place}: {problem}") from problem
    finally:
        loader.dispose()
    if not isinstance(values, dict) or set(values) != _KEYS:
        raise Misuse(f"{place}: an entry has a pattern, a reason and expires, and nothing else")
    pattern, reason, expires = values["pattern"], values["reason"], values["expires"]
    if not isinstance(pattern, str) or not any(char.isalnum() for char in pattern.partition("://")[2] or pattern):
        raise Misuse(f"{place}: the pattern {pattern!r} would cover everything: name a host or an address")
    if "/" in pattern and "://" not in pattern:
        raise Misuse(f"{place}: the pattern {pattern!r} is neither a host nor an address: write https://{pattern}")
    if not isinstance(reason, str) or not reason.strip():
        raise Misuse(f"{place}: the reason is text that says why {pattern} cannot be asked for, not {reason!r}")
    if type(expires) is not date:
        raise Misuse(f"{place}: expires is a day, as in 2027-06-30, not {expires!r}")
    return Entry(pattern, reason.strip().rstrip("."), expires, line)
