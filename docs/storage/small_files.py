#!/usr/bin/env python3
"""Measure what many small files cost in a directory, against the same bytes in one tar.

    small_files.py DIR --files 5000 --size 16K --yes           write, read, remove on one node
    small_files.py DIR --keep --yes                            write on one node, and ...
    small_files.py DIR/small-files-XXXX --kept --yes           ... read on another one: truly cold

Creates files of random bytes, lists and stats them, reads them in random order, then does the
same with one tar, and removes everything again. Run it on the shared file system and on local
disk. On one node names and attributes are still cached when it reads; the data are dropped from
the page cache with posix_fadvise before. --keep and --kept on two nodes avoid both caches.
Nothing is written until --yes. Exit codes: 0 measured, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, Callable

PER_DIRECTORY = 1000  # files; one huge directory would measure that instead
UNITS = {"": 1, "K": 1000, "M": 1000**2, "KI": 1024, "MI": 1024**2}


class Misuse(Exception):
    """The request makes no sense here; the message names the fix (exit code 2)."""


def byte_count(text: str) -> int:
    """Parse `16K` (10**3) or `16Ki` (2**10) into bytes."""
    digits = text.rstrip("KMkmiI")
    size = int(digits) * UNITS.get(text[len(digits) :].upper(), 0) if digits.isdecimal() else 0
    if not 0 < size <= 1 << 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 16K or 1Mi")
    return size


def whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 10000000")
    return int(text)


def drop_data(path: Path) -> None:
    """Write the file's data out and forget them on this node; attributes stay cached."""
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def each(threads: int, work: Callable[[Path], Any], paths: list[Path]) -> None:
    """Do the work for every path, that many at a time."""
    if threads == 1:
        for path in paths:
            work(path)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, paths):
            pass


def timed(work: Callable[[], Any]) -> float:
    """Seconds that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def list_all(root: Path) -> list[Path]:
    """Read the directories without asking for attributes, as `ls -f` does."""
    return [Path(entry.path) for folder in os.scandir(root) for entry in os.scandir(folder.path)]


def write_tar(path: Path, files: int, payload: Callable[[], bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for n in range(files):
            data = payload()
            member = tarfile.TarInfo(f"{n:08d}.bin")
            member.size = len(data)
            tar.addfile(member, BytesIO(data))


def read_tar(path: Path) -> int:
    """Read every member in the order of the archive; returns bytes."""
    total = 0
    with tarfile.open(path, "r|") as tar:  # a stream: never seeks
        for member in tar:
            stream = tar.extractfile(member)
            total += len(stream.read()) if stream else 0
    return total


def write(args: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Create the files and the tar below root; seconds of both, and bytes on disk."""
    rng = random.Random(args.seed)
    block = bytes(rng.getrandbits(8) for _ in range(min(args.size, 4096)))

    def payload() -> bytes:
        tail = rng.randrange(256)  # not all alike, so that nothing deduplicates them
        return (block * (args.size // len(block) + 1))[: args.size - 1] + bytes([tail])

    small, archive = root / "small", root / "samples.tar"
    folders = [small / f"{n:05d}" for n in range(-(-args.files // PER_DIRECTORY))]
    paths = [folders[n // PER_DIRECTORY] / f"{n:08d}.bin" for n in range(args.files)]
    small.mkdir()
    for folder in folders:
        folder.mkdir()
    files = timed(lambda: each(args.threads, lambda path: path.write_bytes(payload()), paths))
    tar = timed(lambda: write_tar(archive, args.files, payload))
    each(args.threads, drop_data, paths)
    drop_data(archive)
    (root / "plan.json").write_text(json.dumps({"files": args.files, "size": args.size}))
    disk = {"files": sum(p.stat().st_blocks * 512 for p in paths), "tar": archive.stat().st_blocks * 512}
    return {"seconds": {"files": {"create": files}, "tar": {"create": tar}}, "bytes_on_disk": disk}


def read(args: argparse.Namespace, root: Path) -> dict[str, dict[str, float]]:
    """List, stat and read what write() left below root; seconds."""
    small, archive = root / "small", root / "samples.tar"
    paths: list[Path] = []
    files = {"list": timed(lambda: paths.extend(list_all(small)))}
    tar: dict[str, float] = {}
    random.Random(args.seed).shuffle(paths)  # a training order, which no read-ahead can guess
    files["stat"] = timed(lambda: each(args.threads, os.stat, paths))
    for label in ("read", "read_again"):  # the second pass comes from the page cache
        files[label] = timed(lambda: each(args.threads, Path.read_bytes, paths))
        tar[label] = timed(lambda: read_tar(archive))
    return {"files": files, "tar": tar}


def remove(root: Path) -> dict[str, dict[str, float]]:
    """Remove everything below root; seconds."""
    tar = timed(lambda: os.unlink(root / "samples.tar"))
    return {"files": {"remove": timed(lambda: shutil.rmtree(root / "small"))}, "tar": {"remove": tar}}


def plan_of(root: Path) -> dict[str, int]:
    try:
        return json.loads((root / "plan.json").read_text())
    except (OSError, ValueError) as error:
        raise Misuse(f"{root} is no directory that --keep left") from error


def check_room(args: argparse.Namespace) -> None:
    """Refuse before writing when space or inodes would run out (statvfs does not know quotas)."""
    if not args.directory.is_dir():
        raise Misuse(f"{args.directory} is not a directory: name one on the file system to measure")
    room = os.statvfs(args.directory)
    need = 2 * args.files * (args.size + 4096)
    if room.f_bavail * room.f_frsize < need:
        raise Misuse(f"{need / 1e9:.1f} GB are needed in {args.directory}: fewer --files or another place")
    if room.f_files and room.f_favail < args.files * 1.01 + 10:
        raise Misuse(f"only {room.f_favail} inodes are free in {args.directory}: fewer --files")


def show(report: dict[str, Any]) -> None:
    files, size = report["files"], report["size"]
    print(f"{files} files of {size} bytes against one tar, {report['threads']} thread(s), in {report['directory']}")
    print("stage          files s   files/s    MB/s     tar s   files/s    MB/s   ratio")
    for stage, took in report["seconds"]["files"].items():
        cells = f"{took:10.3f}{files / took:10.0f}"
        moves = stage.startswith(("create", "read"))
        cells += f"{files * size / took / 1e6:8.1f}" if moves else " " * 8
        tar = report["seconds"]["tar"].get(stage)
        if tar:
            cells += f"{tar:10.3f}"
            cells += f"{files / tar:10.0f}{files * size / tar / 1e6:8.1f}" if moves else " " * 18
            cells += f"{took / tar:8.1f}"
        print(f"{stage:12}{cells}")
    disk = report["bytes_on_disk"]
    if disk:
        print(f"on disk: {disk['files'] / 1e6:.1f} MB in {files} inodes, {disk['tar'] / 1e6:.1f} MB in 1")
    if "kept" in report:
        print(f"kept: read it on another node with: small_files.py {report['kept']} --kept --yes")
    else:
        print(f"one pass over {report['target']:,} such files: {report['target_hours']:.2f} h of one such reader")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where to measure; a directory is made in it and removed")
    parser.add_argument("--files", type=whole, default=5000, help="number of small files (5000)")
    parser.add_argument("--size", type=byte_count, default=16_000, help="bytes of each, as in 16K (10**3) or 16Ki")
    parser.add_argument("--threads", type=whole, default=1, help="files in flight at once (1)")
    parser.add_argument("--target", type=whole, default=1_000_000, help="files of the real data set")
    parser.add_argument("--seed", type=int, default=0, help="of the contents and the order of reading")
    parser.add_argument("--keep", action="store_true", help="write only, and leave it for another node")
    parser.add_argument("--kept", action="store_true", help="DIR is what --keep left: read and remove it")
    parser.add_argument("--yes", action="store_true", help="really write, or remove")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if args.keep and args.kept:
        parser.error("--keep writes and --kept reads: one of them")
    return args


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Write, read and remove, as far as asked; the whole report."""
    report: dict[str, Any] = {"directory": str(args.directory), "threads": args.threads, "target": args.target}
    if args.kept:
        root, plan = args.directory, plan_of(args.directory)
        report.update(plan, seconds={"files": {}, "tar": {}}, bytes_on_disk=None)
    else:
        root = Path(tempfile.mkdtemp(prefix="small-files-", dir=args.directory))
        report.update(files=args.files, size=args.size)
    try:
        if not args.kept:
            report.update(write(args, root))
        if args.keep:
            report["kept"] = str(root)
            return report
        for stages in (read(args, root), remove(root)):
            for kind, took in stages.items():
                report["seconds"][kind].update(took)
    finally:
        if not args.keep:
            shutil.rmtree(root)
    report["target_hours"] = args.target * report["seconds"]["files"]["read"] / report["files"] / 3600
    return report


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        if args.kept:
            plan_of(args.directory)
        else:
            check_room(args)
        if not args.yes:
            total = 2 * args.files * args.size / 1e6
            what = "read and remove" if args.kept else f"write {args.files} files and a tar, {total:.0f} MB, below"
            print(f"would {what} {args.directory}; add --yes")
            return 0
        report = run(args)
    except (Misuse, OSError) as error:
        print(f"small_files.py: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
