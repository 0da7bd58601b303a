"""The book's figures: every docs/data/<topic>.yml, read once and again only when it changed."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openbook import ROOT
from openbook.data.fields import nearest
from openbook.data.lines import read
from openbook.data.model import Column, Figure, Record, Topic
from openbook.data.problem import Problem
from openbook.data.schema import read_topic
from openbook.findings import Finding

FOLDER = ROOT / "docs" / "data"
LIST = re.compile(r"(?:\s*(?:#.*)?\n)*(?:- |\[)")


class UnknownName(LookupError):
    """A topic, record, column or value that the data has not; the message names the nearest."""


@dataclass(frozen=True)
class Data:
    """All topics, and what is wrong in their files."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def topic(self, name: str) -> Topic:
        """Raises UnknownName."""
        return _get(self.topics, name, "topic", "docs/data")

    def record(self, topic: str, record: str) -> Record:
        """Raises UnknownName."""
        return _get(self.topic(topic).records, record, "record", topic)

    def column(self, topic: str, column: str) -> Column:
        """Raises UnknownName."""
        return _get(self.topic(topic).columns, column, "column", topic)

    def figure(self, path: str) -> tuple[Record, Figure]:
        """What `topic.record.column` names: the figure that the book uses. Raises UnknownName."""
        topic, _, rest = path.partition(".")
        record_id, _, column = rest.partition(".")
        record = self.record(topic, record_id)
        self.column(topic, column)
        figure = record.figure(column)
        if figure is None:
            raise UnknownName(f"{record.id} has no figure for {column}: {nearest(column, record.figures)}")
        return record, figure


def _get(where: Mapping, name: str, what: str, place: str):
    if name in where:
        return where[name]
    hint = nearest(name, where)
    raise UnknownName(f"there is no {what} {name!r} in {place}" + (f": {hint}" if hint else ""))


def shown(path: Path) -> str:
    """The path as results show it: from the working directory when it lies below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def load_file(path: Path) -> tuple[Topic | None, list[Problem]]:
    """One topic; None where nothing of it can be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        return None, [Problem(0, "yaml", f"not UTF-8 (byte {problem.start + 1})", "save it as UTF-8")]
    except OSError as problem:
        return None, [Problem(0, "yaml", str(problem.strerror))]
    root, problems = read(text)
    if root is None:
        return None, problems or [Problem(0, "yaml", "the file is empty")]
    return read_topic(root, path.stem, shown(path), problems), problems


_files: dict[Path, tuple[tuple[int, int], Topic | None, list[Problem]]] = {}


def load(folder: Path | None = None) -> Data:
    """Every topic of a folder, the book's by default."""
    return load_files(topic_files(folder or FOLDER))


def topic_files(folder: Path) -> list[Path]:
    """The topic files of a folder. One that is a list is data of another kind."""
    return [path for path in sorted(folder.resolve().glob("*.yml")) if not LIST.match(_beginning(path))]


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(4000)


def load_files(paths: Iterable[Path]) -> Data:
    """Topic files, of which those that did not change since they were read are not read again."""
    topics, findings = {}, []
    for path in paths:
        stat = os.stat(path)
        stamp = (stat.st_mtime_ns, stat.st_size)
        if path not in _files or _files[path][0] != stamp:
            _files[path] = (stamp, *load_file(path))
        _, topic, problems = _files[path]
        findings += [problem.finding(shown(path)) for problem in problems]
        if topic is not None:
            topics[topic.name] = topic
    return Data(topics, tuple(findings))
