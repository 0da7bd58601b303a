#!/usr/bin/env python3
"""Write, verify and time checkpoints so that a crash never costs the last good one.

    write    one checkpoint of synthetic shards: temporary directory, fsync, rename, pointer
    verify   recompute every checksum; exit 1 and name the files that are damaged
    latest   print the checkpoint to resume from: the pointer's, or the newest that verifies

Layout of DIR: step-00000100/{shard-00000.bin, ..., manifest.json} and the file `latest`, which
holds a directory's name. What is being written is called .partial-*: nobody resumes from it.
Threads stand in for ranks. Exit codes: 0 fine, 1 findings, 2 misuse.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

BLOCK = 4 << 20  # bytes handed to one write()
MANIFEST = "manifest.json"
POINTER = "latest"
UNITS = {"": 1, **{u: 1000**i for i, u in enumerate("KMGT", 1)}, **{u + "I": 1024**i for i, u in enumerate("KMGT", 1)}}
STAGES = ("manifest", "rename")


class Misuse(Exception):
    """The request makes no sense; the message names the fix (exit code 2)."""


class Finding(Exception):
    """The storage or a checkpoint is not as it must be (exit code 1)."""


def byte_count(text: str) -> int:
    """Parse `64M` (10**6) or `1.5Gi` (2**30) into bytes."""
    digits = text.rstrip("KMGTkmgtiI")
    try:
        size = int(float(digits) * UNITS[text[len(digits) :].upper()])
    except (KeyError, ValueError, OverflowError):
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 64M or 1.5Gi")
    return size


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


# --- durable writes ---------------------------------------------------------------------------


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable: fsync of a file does not (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes, fsync: bool) -> None:
    """Replace a small file atomically: temporary name in the same directory, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as stream:
        stream.write(data)
        stream.flush()
        if fsync:
            os.fsync(stream.fileno())
    os.replace(temporary, path)
    if fsync:
        fsync_directory(path.parent)


class Crc32:
    """zlib.crc32 behind hashlib's two methods: finds accidents, not tampering."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: Any) -> None:
        self.value = zlib.crc32(data, self.value)

    def hexdigest(self) -> str:
        return f"{self.value:08x}"


CHECKSUMS: dict[str, Callable[[], Any]] = {"sha256": hashlib.sha256, "crc32": Crc32}


class Crash:
    """Kills the process, as the OOM killer or a lost node would, where --die-after says."""

    def __init__(self, when: str | None) -> None:
        self.stage = when if when in STAGES else None
        self.limit = byte_count(when) if when and not self.stage else None
        self.written = 0
        self.lock = threading.Lock()

    def wrote(self, size: int) -> None:
        with self.lock:
            self.written += size
            if self.limit is not None and self.written >= self.limit:
                os.kill(os.getpid(), signal.SIGKILL)

    def at(self, stage: str) -> None:
        if stage == self.stage:
            os.kill(os.getpid(), signal.SIGKILL)


def write_shard(path: Path, index: int, noise: memoryview, args: argparse.Namespace, crash: Crash) -> dict[str, Any]:
    """Write one shard of args.size bytes; return its manifest entry and the seconds spent."""
    checksum = CHECKSUMS[args.checksum]()
    spent = {"write": 0.0, "checksum": 0.0, "fsync": 0.0}
    with open(path, "wb", buffering=0) as stream:
        done = 0
        while done < args.size:
            # Each block starts elsewhere in the noise, so that deduplication cannot shorten the write.
            offset = (done // BLOCK * 4099 + index * 65537) % BLOCK
            block = noise[offset : offset + min(BLOCK, args.size - done)]
            start = time.perf_counter()
            block = block[: stream.write(block)]  # a raw write may be short
            middle = time.perf_counter()
            checksum.update(block)
            spent["write"] += middle - start
            spent["checksum"] += time.perf_counter() - middle
            done += len(block)
            crash.wrote(len(block))
        start = time.perf_counter()
        if not args.no_fsync:
            os.fsync(stream.fileno())  # reports ENOSPC, EDQUOT and EIO that write() did not
        spent["fsync"] = time.perf_counter() - start
    return {"name": path.name, "bytes": done, "digest": checksum.hexdigest(), "seconds": spent}


def seal(manifest: dict[str, Any]) -> str:
    """Checksum of the manifest itself, so that damage to it is told from damage to a shard."""
    body = {key: value for key, value in manifest.items() if key != "seal"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def check_space(root: Path, need: int) -> None:
    """Raise Finding if the file system has less than `need` bytes free for this user."""
    stat = os.statvfs(root)
    free = stat.f_bavail * stat.f_frsize
    if free < need:
        raise Finding(f"{root}: needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB free: nothing written")


def write(args: argparse.Namespace) -> dict[str, Any]:
    """Write one checkpoint; commit it by rename, move the pointer, then apply the retention."""
    root, fsync, crash = args.dir, not args.no_fsync, Crash(args.die_after)
    name = f"step-{args.step:08d}"
    if (root / name).exists():
        raise Misuse(f"{root / name} exists: a checkpoint is never overwritten in place")
    if args.shards > 512:
        raise Misuse(f"--shards {args.shards}: at most 512, each is a thread")
    root.mkdir(parents=True, exist_ok=True)
    if not args.skip_space_check:
        check_space(root, args.size * args.shards)
    partial = root / f".partial-{name}-{os.getpid()}"
    noise = memoryview(random.Random(0).randbytes(BLOCK) * 2)
    begin = time.perf_counter()
    try:
        partial.mkdir()
        with ThreadPoolExecutor(args.shards) as pool:
            paths = [partial / f"shard-{i:05d}.bin" for i in range(args.shards)]
            jobs = [pool.submit(write_shard, path, i, noise, args, crash) for i, path in enumerate(paths)]
            shards = [job.result() for job in jobs]  # the barrier: raises if any writer failed
        spent = [shard.pop("seconds") for shard in shards]
        slowest = {key: max(s[key] for s in spent) for key in ("write", "checksum", "fsync")}
        data_s = time.perf_counter() - begin
        manifest = {"step": args.step, "checksum": args.checksum, "files": shards}
        manifest["seal"] = seal(manifest)
        write_file(partial / MANIFEST, json.dumps(manifest, indent=1).encode(), fsync)
        crash.at("manifest")
        os.rename(partial, root / name)  # the commit
        if fsync:
            fsync_directory(root)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Finding(f"write failed, earlier checkpoints are untouched: {error}") from error
    crash.at("rename")
    if args.read_back:
        problems = verify_checkpoint(root / name)
        if problems:
            raise Finding(f"read-back: {problems[0]['file']}: {problems[0]['problem']}")
    write_file(root / POINTER, f"{name}\n".encode(), fsync)
    total = time.perf_counter() - begin
    size = args.size * args.shards
    return {
        "checkpoint": str(root / name),
        "bytes": size,
        "fsync": fsync,
        "seconds": {**slowest, "data": data_s, "commit": total - data_s, "total": total},
        "bytes_per_s": size / total,
        "removed": retain(root, args.keep, args.keep_every),
    }


# --- reading back -----------------------------------------------------------------------------


def checkpoints(root: Path) -> list[Path]:
    """Committed checkpoints of a root, newest first."""
    found = [p for p in root.glob("step-*") if p.name[5:].isdecimal() and p.is_dir()]
    return sorted(found, key=lambda p: int(p.name[5:]), reverse=True)


def digest(path: Path, algorithm: str) -> str:
    """Checksum of a file's content."""
    checksum = CHECKSUMS[algorithm]()
    with open(path, "rb", buffering=0) as stream:
        if hasattr(os, "posix_fadvise"):  # ask for the medium's bytes rather than cached ones
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := stream.read(BLOCK):
            checksum.update(block)
    return checksum.hexdigest()


def verify_checkpoint(path: Path, deep: bool = True) -> list[dict[str, str]]:
    """Problems of one checkpoint, as {file, problem}; deep recomputes the checksums."""
    source = path / MANIFEST
    try:
        manifest = json.loads(source.read_bytes())
        files, algorithm = manifest["files"], manifest["checksum"]
        if manifest["seal"] != seal(manifest) or algorithm not in CHECKSUMS:
            raise ValueError
    except FileNotFoundError:
        return [{"file": str(source), "problem": "missing: the checkpoint was never finished"}]
    except OSError as error:
        return [{"file": str(source), "problem": error.strerror or str(error)}]
    except (ValueError, KeyError, TypeError):
        return [{"file": str(source), "problem": "damaged: its own checksum does not match"}]
    problems = []
    for entry in files:
        file = path / entry["name"]
        try:
            if (size := file.stat().st_size) != entry["bytes"]:
                problem = f"{size} bytes, the manifest says {entry['bytes']}"
            elif deep and digest(file, algorithm) != entry["digest"]:
                problem = f"{algorithm} differs from the manifest"
            else:
                continue
        except OSError as error:
            problem = error.strerror or str(error)
        problems.append({"file": str(file), "problem": problem})
    return problems


def pointed(root: Path) -> str | None:
    """The name that the pointer holds, if it is readable."""
    try:
        return (root / POINTER).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def retain(root: Path, keep: int, keep_every: int | None) -> list[str]:
    """Delete old checkpoints and leftovers; only complete ones count towards `keep`."""
    complete = [p for p in checkpoints(root) if not verify_checkpoint(p, deep=False)]
    if not complete:
        return []
    spare = {pointed(root)} | {p.name for p in complete[:keep]}
    newest = int(complete[0].name[5:])
    if keep_every:
        spare |= {p.name for p in checkpoints(root) if int(p.name[5:]) % keep_every == 0}
    doomed = [p for p in checkpoints(root) if p.name not in spare and int(p.name[5:]) < newest]
    for path in doomed:
        # Renamed first: a deletion that is interrupted must not leave half a checkpoint.
        os.rename(path, root / f".partial-{path.name}-deleted")
    for leftover in root.glob(".partial-step-*"):
        step = leftover.name.split("-")[2]
        if step.isdecimal() and int(step) <= newest:
            shutil.rmtree(leftover)
    return [p.name for p in doomed]


def verify(args: argparse.Namespace) -> dict[str, Any]:
    """Verify one checkpoint, or every checkpoint of a root."""
    if not args.dir.is_dir():
        raise Misuse(f"{args.dir} is not a directory")
    alone = (args.dir / MANIFEST).exists() or args.dir.name.startswith("step-")
    targets = [args.dir] if alone else checkpoints(args.dir)
    if not targets:
        raise Finding(f"{args.dir}: no checkpoint")
    results = {str(p): verify_checkpoint(p, deep=not args.quick) for p in targets}
    return {"ok": not any(results.values()), "checkpoints": results}


def latest(args: argparse.Namespace) -> dict[str, Any]:
    """Choose what to resume from: the pointer's checkpoint, else the newest that verifies."""
    found = checkpoints(args.dir)
    name = pointed(args.dir)
    skipped = []
    for path in sorted(found, key=lambda p: p.name != name):  # stable: the rest stays newest first
        problems = verify_checkpoint(path, deep=not args.quick)
        if not problems:
            return {"checkpoint": str(path), "skipped": skipped}
        skipped += problems
    raise Finding(f"{args.dir}: none of {len(found)} checkpoints verifies")


# --- command line -----------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The command line."""
    main_parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    common.add_argument("dir", type=Path)
    commands = main_parser.add_subparsers(dest="command", required=True)

    p = commands.add_parser("write", parents=[common], help="write one checkpoint")
    p.add_argument("--step", type=count, required=True)
    p.add_argument("--shards", type=count, default=4, help="writers, one file each (default 4)")
    p.add_argument("--size", type=byte_count, default=16 * 10**6, help="of a shard; default 16M")
    p.add_argument("--checksum", choices=sorted(CHECKSUMS), default="sha256")
    p.add_argument("--no-fsync", action="store_true", help="unsafe; to see what fsync costs")
    p.add_argument("--read-back", action="store_true", help="verify before `latest` moves")
    p.add_argument("--keep", type=count, default=2, help="complete ones to keep (default 2)")
    p.add_argument("--keep-every", type=count, help="also keep steps divisible by this")
    p.add_argument("--skip-space-check", action="store_true")
    p.add_argument("--die-after", metavar="SIZE|" + "|".join(STAGES), help="kill -9 itself there")
    p.add_argument("--yes", action="store_true", help="really write and delete")

    for name, text in (("verify", "recompute the checksums"), ("latest", "where to resume")):
        p = commands.add_parser(name, parents=[common], help=text)
        p.add_argument("--quick", action="store_true", help="names and sizes only")
    return main_parser


def show(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print a result for people."""
    if args.command == "write":
        s = result["seconds"]
        print(f"{result['checkpoint']}: {result['bytes'] / 1e6:.0f} MB in {s['total']:.2f} s, "
              f"{result['bytes_per_s'] / 1e6:.0f} MB/s, fsync {'on' if result['fsync'] else 'OFF'}")  # fmt: skip
        print(f"slowest writer: write {s['write']:.2f} s, checksum {s['checksum']:.2f} s, "
              f"fsync {s['fsync']:.2f} s; commit {s['commit']:.3f} s")  # fmt: skip
        if result["removed"]:
            print("removed:", ", ".join(result["removed"]))
    elif args.command == "verify":
        for path, problems in result["checkpoints"].items():
            print(f"{path}: {'BAD' if problems else 'ok'}")
            for item in problems:
                print(f"  {item['file']}: {item['problem']}")
    else:
        for item in result["skipped"]:
            print(f"skipped: {item['file']}: {item['problem']}", file=sys.stderr)
        print(result["checkpoint"])


def interrupted(*_: Any) -> None:
    """Stop at once on Ctrl-C, also while threads write."""
    os.write(2, b"interrupted: .partial-* is left behind; the next write that succeeds removes it\n")
    os._exit(130)


def main() -> int:
    """Run the command line; return the exit code."""
    args = parser().parse_args()
    signal.signal(signal.SIGINT, interrupted)
    if args.command == "write" and not args.yes:
        text = f"would write {args.shards} x {args.size / 1e6:g} MB to {args.dir}/step-{args.step:08d}"
        print(json.dumps({"dry_run": text}) if args.json else f"{text}; add --yes")
        return 0
    try:
        result = {"write": write, "verify": verify, "latest": latest}[args.command](args)
    except (Misuse, argparse.ArgumentTypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (Finding, OSError) as error:
        text = json.dumps({"ok": False, "error": str(error)}) if args.json else f"FAILED: {error}"
        print(text, file=sys.stdout if args.json else sys.stderr)  # a script takes stdout as a checkpoint's name
        return 1
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(args, result)
    return 0 if result.get("ok", True) else 1


if __name__ == "__main__":
    sys.exit(main())
