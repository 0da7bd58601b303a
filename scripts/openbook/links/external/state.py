"""What earlier runs learnt about each address, in a JSON file that several runs may share.

A run notes what it sees and now and then merges its notes into the file: under a lock, on top of what the file
holds by then, and by replacing the file in one step. So a run that is killed loses seconds, two runs at once
lose nothing, and a file that was damaged is put aside and not trusted.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from openbook.findings import Misuse
from openbook.links.external.verdict import MOVED, OK, SUSPICIOUS, Verdict

VERSION = 1
FAILING_RUNS = 3
FAILING_FOR = timedelta(days=7)
ONE_RUN = timedelta(hours=12)  # failures closer together are one event, however many runs saw it
GOOD_FOR = timedelta(days=7)
FORGOTTEN_AFTER = timedelta(days=180)  # without being seen in the book
_EVERY = 5.0  # seconds between two writes of a run

Say = Callable[[str], None]


@dataclass(frozen=True)
class Record:
    """What is known of one address. Times in ISO 8601, UTC; empty for never."""

    last_ok: str = ""
    first_bad: str = ""
    last_bad: str = ""
    count: int = 0  # failing runs since the last good one
    verdict: str = ""
    final_url: str = ""
    seen: str = ""

    def after(self, verdict: Verdict, now: datetime) -> "Record":
        """The record with one more answer. Walls and limits say nothing about the page, so they change nothing."""
        stamp = now.isoformat(timespec="seconds")
        known = replace(self, verdict=verdict.kind, final_url=verdict.final, seen=stamp)
        if verdict.counts:
            if self.last_bad and now - _time(self.last_bad) < ONE_RUN:
                return known
            return replace(known, first_bad=self.first_bad or stamp, last_bad=stamp, count=self.count + 1)
        if verdict.kind in (OK, MOVED, SUSPICIOUS):
            return replace(known, last_ok=stamp, first_bad="", last_bad="", count=0)
        return known

    def proved_bad(self) -> bool:
        """Whether enough runs failed over enough days."""
        return self.count >= FAILING_RUNS and _time(self.last_bad) - _time(self.first_bad) >= FAILING_FOR

    def is_fresh(self, url: str, now: datetime) -> bool:
        """Whether a good answer is recent enough. The limit differs by a day either way, so that not all end at once."""
        if self.verdict != OK or not self.last_ok:
            return False
        jitter = int.from_bytes(hashlib.sha256(url.encode()).digest()[:2]) / 0xFFFF * 2 - 1
        return timedelta() <= now - _time(self.last_ok) < GOOD_FOR + timedelta(days=jitter)


class State:
    """The records of all addresses. Without a file, nothing outlives the run."""

    def __init__(self, file: Path | None, say: Say, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self.file, self.now, self._say = file, now, say
        self._notes: dict[str, tuple[Verdict, datetime]] = {}
        self._written = time.monotonic()
        self.records: dict[str, Record] = {}
        if file is not None:
            with self._locked():
                self.records = self._read()

    def __getitem__(self, url: str) -> Record:
        return self.records.get(url, Record())

    def note(self, url: str, verdict: Verdict) -> Record:
        """Remember an answer; it reaches the file within seconds, or with `save`."""
        now = self.now()
        self._notes[url] = (verdict, now)
        self.records[url] = self[url].after(verdict, now)
        if time.monotonic() - self._written > _EVERY:
            self.save()
        return self.records[url]

    def save(self) -> None:
        """Merge what this run noted into the file."""
        if self.file is None or not self._notes:
            return
        with self._locked():
            records = self._read()
            for url, (verdict, when) in self._notes.items():
                records[url] = records.get(url, Record()).after(verdict, when)
            oldest = (self.now() - FORGOTTEN_AFTER).isoformat(timespec="seconds")
            self._write({url: record for url, record in records.items() if record.seen >= oldest})
        self.records |= {url: records[url] for url in self._notes}
        self._notes.clear()
        self._written = time.monotonic()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self.file.with_name(self.file.name + ".lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            handle = lock.open("a+")
        except OSError as problem:
            raise Misuse(f"the state file cannot be kept in {lock.parent}: {problem.strerror}") from problem
        with handle:
            _lock(handle.fileno())  # the system lets go when the process ends, however it ends
            yield

    def _read(self) -> dict[str, Record]:
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise Misuse(f"the state file {self.file} cannot be read: {problem.strerror}") from problem
        try:
            return _records(data)
        except (ValueError, RecursionError) as problem:
            aside = self.file.with_name(self.file.name + ".damaged")
            os.replace(self.file, aside)
            self._say(f"{self.file} is damaged ({problem}): kept as {aside}, starting with an empty memory")
            return dict(self.records)

    def _write(self, records: Mapping[str, Record]) -> None:
        kept = {url: _shortened(records[url]) for url in sorted(records)}
        text = json.dumps({"version": VERSION, "addresses": kept}, indent=1, ensure_ascii=False)
        draft = self.file.with_name(self.file.name + ".new")  # the lock is held, so the name is ours
        try:
            with draft.open("w", encoding="utf-8") as handle:
                handle.write(text + "\n")
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(draft, self.file)
        except OSError as problem:
            raise Misuse(f"the state file {self.file} cannot be written: {problem.strerror}") from problem


def _records(data: bytes) -> dict[str, Record]:
    """Records of a file; entries that make no sense are left out. ValueError when the whole makes none."""
    whole = json.loads(data)
    if not isinstance(whole, dict) or whole.get("version") != VERSION or not isinstance(whole.get("addresses"), dict):
        raise ValueError(f"it is not a state file of version {VERSION}")
    return {url: record for url, entry in whole["addresses"].items() if (record := _record(entry)) is not None}


def _record(entry: object) -> Record | None:
    known = {field.name: field.type for field in fields(Record)}
    if not isinstance(entry, dict) or not set(entry) <= set(known):
        return None
    if not all(type(value) is known[name] for name, value in entry.items()):
        return None
    record = Record(**entry)
    try:
        times = (record.last_ok, record.first_bad, record.last_bad, record.seen)
        sound = all(_time(stamp).tzinfo is not None for stamp in times if stamp)
    except ValueError:
        return None
    return (
        record if sound and record.count >= 0 and (not record.count or (record.first_bad and record.last_bad)) else None
    )


def _shortened(record: Record) -> dict[str, str | int]:
    return {name: value for name, value in asdict(record).items() if value}


def _time(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def _lock(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
