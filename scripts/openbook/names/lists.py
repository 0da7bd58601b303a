"""The lists of real names in docs/data/names: one name a line, after a head that says where it was read.

    # Environment variables of NCCL
    # source: https://github.com/NVIDIA/nccl
    # version: 2.30.7-1
    # read: 2026-11-30
    # families: NCCL_
    # others: NCCL_ERROR_

    NCCL_DEBUG
    NCCL_DEBUG_FILE  meaning, where it was cheap to give one
    OLD_NAME => NEW_NAME  remark

`families` are the beginnings of which the lists claim to know every name; what begins with one of `others`
is no variable (error codes, constants). An arrow stands before what took a name's place; `=> -` means nothing did.
"""

import datetime
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openbook import ROOT
from openbook.findings import Finding, Misuse

FOLDER = ROOT / "docs" / "data" / "names"
HEAD = ("source", "version", "read")
ENTRY = re.compile(r"(?P<name>\S+)(?: => (?P<new>\S+))?(?:  (?P<remark>\S.*))?")
KEY = re.compile(r"# (source|version|read|families|others): +(\S.*)")


@dataclass(frozen=True)
class Name:
    name: str
    line: int
    replacement: str = ""  # what took its place; "-" for nothing
    remark: str = ""


@dataclass
class NameList:
    path: Path
    title: str = ""
    head: dict[str, str] = field(default_factory=dict)
    names: dict[str, Name] = field(default_factory=dict)

    def words(self, key: str) -> tuple[str, ...]:
        return tuple(self.head.get(key, "").split())


def read(path: Path) -> tuple[NameList, list[tuple[int, str]]]:
    """A list, and its mistakes as line and message. Raises Misuse when the file cannot be read."""
    found, mistakes = NameList(path), []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"{path}: {problem}") from problem
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            key = KEY.fullmatch(line)
            if key:
                found.head[key[1]] = f"{found.head[key[1]]} {key[2]}" if key[1] in found.head else key[2]
            elif not found.title:
                found.title = line.removeprefix("#").strip()
        elif line.strip():
            entry = ENTRY.fullmatch(line)
            if entry is None:
                mistakes.append((number, "not NAME, NAME  remark, or OLD => NEW"))
            elif entry["name"] in found.names:
                mistakes.append((number, f"{entry['name']} is there twice"))
            else:
                found.names[entry["name"]] = Name(entry["name"], number, entry["new"] or "", entry["remark"] or "")
    mistakes += [(1, f"the head has no {key}") for key in HEAD if key not in found.head]
    try:
        if datetime.date.fromisoformat(found.head.get("read", "2000-01-01")) > datetime.date.today():
            mistakes.append((1, "read in the future"))
    except ValueError:
        mistakes.append((1, f"read: {found.head['read']} is no date"))
    return found, mistakes


@dataclass
class Variables:
    """All lists of environment variables together."""

    names: dict[str, Name]
    families: tuple[str, ...]
    others: tuple[str, ...]


def mistakes(folder: Path = FOLDER) -> Iterator[Finding]:
    for path in sorted(folder.rglob("*.txt")):
        for line, message in read(path)[1]:
            shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            yield Finding(str(shown), line, 0, "name-list", "error", message)


@functools.cache
def variables(folder: Path = FOLDER / "variables") -> Variables:
    """Raises Misuse when there are no lists."""
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise Misuse(f"no lists of names in {folder}")
    lists = [read(path)[0] for path in paths]
    names: dict[str, Name] = {}
    for one in lists:
        for name, entry in one.names.items():
            if name not in names or not names[name].replacement:  # who says that a name is old knows more
                names[name] = entry
    return Variables(
        names,
        tuple(sorted({word for one in lists for word in one.words("families")})),
        tuple(sorted({word for one in lists for word in one.words("others")})),
    )
