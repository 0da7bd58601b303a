#!/usr/bin/env python3
"""Find what takes the bytes and the inodes below a directory: by directory, kind, owner and age.

    space_report.py DIR                              the report; nothing is changed
    space_report.py DIR --rate 2000                  at most 2,000 files a second: kind to metadata servers
    space_report.py DIR --older 90 --list old.txt    also write the names of files not changed for 90 days
    space_report.py DIR --open                       also deleted files that running processes still hold
    space_report.py DIR --most-files 900000          exit code 1 if there are more

Bytes are those allocated (what quotas count); a file with several names counts once; other file
systems mounted below are left out and named. Needs only the standard library. Never deletes anything.
Exit codes: 0 reported; 1 over a limit given by --most-files or --most-bytes; 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import stat
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 512  # unit of st_blocks, whatever the file system's own block is
AGES = ((7, "to 7 days"), (30, "to 30 days"), (90, "to 90 days"), (365, "to a year"))
OLDEST = "older"
SMALL = 4096  # bytes; a file below it is counted as small
UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4, "P": 1000**5}

# kind → what its path ends with or has inside; the first that fits counts
KINDS = (
    ("conda packages and environments", re.compile(r"/(conda-meta|pkgs|envs)/|/site-packages/")),
    ("caches (pip, uv, Hugging Face, Triton, …)", re.compile(r"/\.cache/|/\.triton/|/__pycache__/|\.pyc$")),
    ("core dumps", re.compile(r"/(core|vgcore)(\.\d+)?$|\.core$")),
    ("profiles", re.compile(r"\.(nsys-rep|ncu-rep|qdrep)$|\.pt\.trace\.json(\.gz)?$|/memory_snapshot[^/]*\.pickle$")),
    ("checkpoints", re.compile(r"\.(safetensors|distcp|ckpt|pth|pt)$|/(checkpoints?|ckpts?|global_step\d+)/")),
    ("logs", re.compile(r"\.(log|out|err)$|/(wandb|tensorboard|runs)/|tfevents")),
    ("pictures and samples", re.compile(r"\.(jpe?g|png|webp|npy|wav|flac|mp4)$")),
    ("archives and shards", re.compile(r"\.(tar|tgz|zip|zst|gz|parquet|arrow|bin|idx|mds|tfrecords?|sqsh|sif)$")),
)
OTHER = "other"


class Misuse(Exception):
    """The request makes no sense here; the message names the fix (exit code 2)."""


def byte_count(text: str) -> int:
    """Parse `500G` (10**9) into bytes."""
    match = re.fullmatch(r"(\d+)([KMGTP]?)B?", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 500G")
    return int(match[1]) * UNITS[match[2]]


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


def kind_of(path: str) -> str:
    return next((name for name, pattern in KINDS if pattern.search(path)), OTHER)


def age_of(days: float) -> str:
    return next((title for most, title in AGES if days <= most), OLDEST)


def owner_of(uid: int, known: dict[int, str]) -> str:
    """A user's name, or the number where the machine does not know it."""
    if uid not in known:
        try:
            import pwd

            known[uid] = pwd.getpwuid(uid).pw_name
        except (ImportError, KeyError):
            known[uid] = str(uid)
    return known[uid]


class Report:
    """Sums of one walk: each of `by` maps a name to [files, bytes]."""

    def __init__(self, root: str, depth: int, older: int | None) -> None:
        self.root, self.depth, self.older = root, depth, older
        self.by: dict[str, dict[str, list[int]]] = {
            what: defaultdict(lambda: [0, 0]) for what in ("directory", "kind", "owner", "age")
        }
        self.files = self.bytes = self.apparent = self.small = self.again = 0
        self.largest: list[tuple[int, str]] = []
        self.unreadable: list[str] = []
        self.mounted: list[str] = []  # other file systems below; not counted
        self.old: list[str] = []
        self.old_bytes = 0
        self.not_listed = 0  # old files whose names a list of lines cannot hold
        self._seen: set[tuple[int, int]] = set()
        self._owners: dict[int, str] = {}
        self._now = time.time()

    def add(self, path: str, found: os.stat_result) -> None:
        """Count one entry; directories are inodes, too."""
        size = found.st_blocks * BLOCK
        days = (self._now - found.st_mtime) / 86400
        old = self.older is not None and days > self.older and stat.S_ISREG(found.st_mode)
        if old and "\n" not in path:  # every name of it: the space is free when the last is gone
            self.old.append(path)
        elif old:
            self.not_listed += 1
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            identity = (found.st_dev, found.st_ino)
            if identity in self._seen:
                self.again += 1
                return
            self._seen.add(identity)
        self.files += 1
        self.bytes += size
        self.apparent += found.st_size
        parts = os.path.relpath(path, self.root).split(os.sep)
        inner = parts if stat.S_ISDIR(found.st_mode) else parts[:-1]
        names = {
            "directory": os.sep.join(inner[: self.depth]) or ".",
            "owner": owner_of(found.st_uid, self._owners),
        }
        if not stat.S_ISDIR(found.st_mode):
            names["kind"] = kind_of(os.sep + os.sep.join(parts))  # the place of DIR says nothing about its files
            names["age"] = age_of(days)
            self.small += found.st_size < SMALL
            self._keep_large(size, path)
            self.old_bytes += size if old and "\n" not in path else 0
        for what, name in names.items():
            self.by[what][name][0] += 1
            self.by[what][name][1] += size

    def _keep_large(self, size: int, path: str) -> None:
        self.largest.append((size, path))
        if len(self.largest) > 1000:
            self.largest = sorted(self.largest, reverse=True)[:100]


def entries(root: str, report: Report) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a directory on its own file system, parents first."""
    start = os.stat(root)
    waiting, known = [root], {start.st_ino}  # a bind mount shows a directory twice
    while waiting:
        directory = waiting.pop()
        refused = None
        try:
            with os.scandir(directory) as inside:
                for entry in inside:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # removed meanwhile
                        continue
                    except OSError as error:  # a directory may be listed but not entered
                        refused = error
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        if found.st_dev != start.st_dev:
                            report.mounted.append(entry.path)
                            continue
                        if found.st_ino in known:
                            report.again += 1
                            continue
                        known.add(found.st_ino)
                        waiting.append(entry.path)
                    yield entry.path, found
        except FileNotFoundError:
            continue
        except OSError as error:
            refused = error
        if refused:
            report.unreadable.append(f"{directory}: {refused.strerror}")


def walk(root: str, report: Report, rate: int | None) -> None:
    due = time.monotonic()
    for number, (path, found) in enumerate(entries(root, report), 1):
        report.add(path, found)
        if rate and number % 50 == 0:
            due += 50 / rate
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic())  # what a slow server delayed is not made up for by a burst
        if number % 200_000 == 0:
            print(f"{number} entries so far", file=sys.stderr)


def held_open(root: str, proc: str = "/proc") -> tuple[list[dict[str, Any]], int]:
    """Deleted files of this file system that processes still hold, and how many processes could not be asked."""
    device = os.stat(root).st_dev
    held: dict[tuple[int, int], dict[str, Any]] = {}
    closed = 0
    for process in os.scandir(proc) if os.path.isdir(proc) else ():
        if not process.name.isdecimal():
            continue
        try:
            handles = os.listdir(f"{process.path}/fd")
        except PermissionError:  # somebody else's
            closed += 1
            continue
        except OSError:  # ended
            continue
        for handle in handles:
            try:
                link = f"{process.path}/fd/{handle}"
                target, found = os.readlink(link), os.stat(link)
            except OSError:
                continue
            if found.st_dev == device and found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                path, pid = re.sub(r" \(deleted\)$", "", target), int(process.name)
                one = {"path": path, "bytes": found.st_blocks * BLOCK, "pids": []}
                pids = held.setdefault((found.st_dev, found.st_ino), one)["pids"]
                if pid not in pids:
                    pids.append(pid)
    return sorted(held.values(), key=lambda one: -one["bytes"]), closed


def write_list(path: Path, names: list[str]) -> str:
    """Write the names, one a line, all or none: half a name is the name of something else. Returns what went wrong."""
    try:
        with open(path, "x", encoding="utf-8", errors="surrogateescape") as stream:
            try:
                stream.writelines(f"{name}\n" for name in names)
                stream.flush()
                os.fsync(stream.fileno())  # some file systems tell of a full quota only now
            except BaseException:  # Ctrl-C, too
                path.unlink()
                raise
    except OSError as error:
        return str(error)
    return ""


def capacity(root: str) -> dict[str, int]:
    """What the file system as a whole has; a quota may be far below."""
    found = os.statvfs(root)
    return {
        "bytes": found.f_blocks * found.f_frsize,
        "bytes_free": found.f_bavail * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_favail,
    }


def printable(name: str) -> str:
    """A name that cannot move the cursor, colour the terminal or forge a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def human(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


def summary(report: Report, top: int) -> dict[str, Any]:
    def rows(what: str, key: int) -> list[dict[str, Any]]:
        ranked = sorted(report.by[what].items(), key=lambda row: (-row[1][key], row[0]))
        return [{"name": name, "files": count[0], "bytes": count[1]} for name, count in ranked[:top]]

    order = [title for _, title in AGES] + [OLDEST]
    ages = report.by["age"]
    return {
        "root": report.root,
        "files": report.files,
        "bytes": report.bytes,
        "apparent_bytes": report.apparent,
        "small_files": report.small,
        "further_names": report.again,
        "directories_by_bytes": rows("directory", 1),
        "directories_by_files": rows("directory", 0),
        "kinds": rows("kind", 1),
        "owners": rows("owner", 1),
        "ages": [{"name": name, "files": ages[name][0], "bytes": ages[name][1]} for name in order if name in ages],
        "largest": [{"path": path, "bytes": size} for size, path in sorted(report.largest, reverse=True)[:top]],
        "unreadable": report.unreadable,
        "other_file_systems": report.mounted,
    }


def show(found: dict[str, Any], top: int) -> None:
    total = found["capacity"]
    inodes = f"{total['inodes_free']} of {total['inodes']} inodes" if total["inodes"] else "inodes without limit"
    root = printable(found["root"])
    print(f"{root}: {found['files']} inodes, {human(found['bytes'])}; {found['small_files']} files below 4 KiB")
    print(
        f"  the file system: {human(total['bytes_free'])} of {human(total['bytes'])} free, "
        f"{inodes} (your quota may be less)"
    )
    for title, key in (
        ("most bytes", "directories_by_bytes"),
        ("most inodes", "directories_by_files"),
        ("kinds", "kinds"),
        ("owners", "owners"),
        ("not changed for", "ages"),
    ):
        print(f"{title}")
        for row in found[key]:
            print(f"  {human(row['bytes']):>9} {row['files']:>9}  {printable(row['name'])}")
    print("largest files")
    for row in found["largest"]:
        print(f"  {human(row['bytes']):>9}            {printable(row['path'])}")
    for row in found.get("held_open", [])[:top]:
        pids = ", ".join(map(str, row["pids"]))
        print(f"deleted, still open: {human(row['bytes'])} {printable(row['path'])} by process {pids}")
    if found.get("processes_not_asked"):
        print(f"{found['processes_not_asked']} processes of others were not asked: their owners or root can")
    for what, key in (("not counted", "unreadable"), ("another file system, not counted", "other_file_systems")):
        for line in found[key][:top]:
            print(f"{what}: {printable(line)}")
        if len(found[key]) > top:
            print(f"{what}: {len(found[key]) - top} more, see --json")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    result.add_argument("root", metavar="DIR")
    result.add_argument("--depth", type=positive, default=2, help="levels of directories to tell apart (default 2)")
    result.add_argument("--top", type=positive, default=8, help="lines of each list (default 8)")
    result.add_argument("--rate", type=positive, help="at most so many entries a second")
    result.add_argument("--older", type=positive, metavar="DAYS", help="collect files not changed for so long")
    result.add_argument("--list", type=Path, metavar="FILE", help="write their names there, one a line")
    result.add_argument("--open", action="store_true", help="deleted files still open, too (own processes; root: all)")
    result.add_argument("--most-files", type=positive, metavar="N", help="a limit: exit code 1 above it")
    result.add_argument("--most-bytes", type=byte_count, metavar="SIZE", help="such as 500G: exit code 1 above it")
    result.add_argument("--json", action="store_true")
    return result


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # names are bytes; not all are text
    try:
        if not os.path.isdir(options.root):
            raise Misuse(f"{options.root} is not a directory")
        if (options.list is None) != (options.older is None):
            raise Misuse("--older and --list belong together: which age, and where to write the names")
        if options.list and options.list.exists():
            raise Misuse(f"{options.list} exists already: name another file")
        if options.list and not os.access(options.list.absolute().parent, os.W_OK):  # told before the walk
            raise Misuse(f"{options.list} cannot be written there: name another place")
        report = Report(os.path.abspath(options.root), options.depth, options.older)
        walk(report.root, report, options.rate)
        found = {**summary(report, options.top), "capacity": capacity(report.root)}
        if options.open:
            found["held_open"], found["processes_not_asked"] = held_open(report.root)
        unwritten = write_list(options.list, report.old) if options.list else ""
        if options.list:
            old = {"days": options.older, "files": len(report.old), "bytes": report.old_bytes}
            found["old"] = {**old, "not_listed": report.not_listed}
    except (Misuse, OSError) as error:
        print(f"space_report.py: {error}", file=sys.stderr)
        return 2
    if unwritten:  # the walk may have taken hours: its report is shown all the same
        print(f"space_report.py: {unwritten}: no list was written", file=sys.stderr)
    over = []
    if options.most_files and report.files > options.most_files:
        over.append(f"{report.files} inodes are more than {options.most_files}")
    if options.most_bytes is not None and report.bytes > options.most_bytes:
        over.append(f"{human(report.bytes)} are more than {human(options.most_bytes)}")
    found["over"] = over
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found, options.top)
        if options.list and not unwritten:
            size = human(report.old_bytes)
            print(f"{len(report.old)} files, {size}, older than {options.older} days: {options.list}")
            if report.not_listed:
                print(f"{report.not_listed} more have a line break in their path: not listed")
        for line in over:
            print(f"over the limit: {line}")
    return 2 if unwritten else 1 if over else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a traceback
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped; nothing was changed", file=sys.stderr)
        code = 130
    except OSError as error:  # standard output is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"space_report.py: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)
