#!/usr/bin/env python3
"""Look into a PyTorch distributed checkpoint (DCP) without loading it, and compare two checkpoints.

    reshard_check.py inspect DIR               files, tensors, how they are split; missing or short files
    reshard_check.py inspect DIR --ranks 32    and what each of 32 ranks would read (FSDP2); --crc to read all, too
    reshard_check.py compare A B [--dry-run]   tensor by tensor, whatever the layouts; names and shapes only

A and B are DCP directories, files of torch.save, or directories of safetensors. `.metadata` is a pickle,
which could run code: here names that DCP writes become stand-ins, all others are refused, memory is bounded.
`inspect` and, on directories, `--dry-run` need only the standard library; `compare` needs PyTorch.
Exit codes: 0 nothing found; 1 findings (missing, short, damaged, different); 2 misuse.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import math
import os
import pickle
import signal
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SAFETENSORS = {"BF16": "bfloat16", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
SAFETENSORS.update({f"{k[0].upper()}{n}": f"{k}{n}" for k in ("float", "int", "uint") for n in (8, 16, 32, 64)})
STEP = 1 << 24  # elements compared at once
Known = dict[str, tuple[str, tuple[int, ...]]]  # name → (dtype, shape)


class Misuse(Exception):
    """The request cannot be answered; the message names the fix (exit code 2)."""


def plain(text: str) -> str:
    """The text without what a name in a file could do to a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def reason(error: Exception) -> str:
    """The kind and first line of an error; Misuse is raised again."""
    if isinstance(error, Misuse):
        raise error
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


class Record:
    """Stands in for DCP's dataclasses: holds what was pickled, runs nothing of it."""

    def __init__(self, *_values: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})


WRITTEN = ("torch.distributed.checkpoint.", "torch.distributed._shard.", "megatron.core.dist_checkpointing.")
WRITTEN += ("pathlib.", "torch.serialization._get_layout", "builtins.getattr")  # the last: members of enumerations


class MetadataUnpickler(pickle.Unpickler):
    """Gives stand-ins for the names in DCP's metadata; refuses all others, as they could be any function."""

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}".startswith(WRITTEN):  # by any version of PyTorch; none is imported or run
            return Record
        if module == "torch" and name.startswith(("Size", "float", "bfloat", "complex", "int", "uint", "bool")):
            return tuple if name == "Size" else name
        raise Misuse(f".metadata names {module}.{name}, which DCP does not write: refused. Do not trust this file")


def bound_memory(growth: int) -> None:
    """Let this process grow by so many bytes at most, 0 for any (Linux): a short pickle can ask for any memory."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        resource = importlib.import_module("resource")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + growth if growth else hard, hard))


def counts(values: Any) -> tuple[int, ...]:
    """`values` if it is a tuple of whole numbers that a tensor can have, else ValueError."""
    if isinstance(values, tuple) and all(isinstance(n, int) and 0 <= n < 1 << 63 for n in values):
        return values
    raise ValueError("a size or offset is no whole number")


class Checkpoint:
    """One DCP directory. `shards`: name → [(offsets, sizes, file, first byte, length)], two None in `others`."""

    def __init__(self, directory: Path) -> None:
        self.directory, path = directory, directory / ".metadata"
        if not path.is_file():
            alone = "saved with use_collectives=False" if list(directory.glob("__*.metadata")) else "never finished"
            raise Misuse(f"{directory} has no .metadata: {alone}, or no DCP checkpoint")
        if (size := path.stat().st_size) > 50_000_000:
            print(f"reading {human(size)} of .metadata, which can take {human(20 * size)} of memory", file=sys.stderr)
        self.known: Known = {}
        self.shards: dict[str, list[tuple]] = defaultdict(list)
        bound_memory(64 * size + (256 << 20))
        try:
            with path.open("rb") as stream:
                meta = MetadataUnpickler(stream).load()
                self.version = getattr(meta, "version", None)
                self.fill(meta)
        except Exception as error:  # a damaged or hostile pickle can raise anything, MemoryError too
            raise Misuse(f"{path} cannot be read ({reason(error)}): damaged, or not written by DCP") from None
        finally:
            bound_memory(0)

    def fill(self, meta: Any) -> None:
        """Take tensors and shards from the metadata; ValueError and the like where it is not as DCP writes it."""
        sizes: dict[tuple[str, Any], Any] = {}
        for name, entry in meta.state_dict_metadata.items():
            if not isinstance(name, str):
                raise ValueError("a name is no text")
            if hasattr(entry, "properties"):
                properties = vars(entry.properties)
                self.known[name] = (str(properties.get("dtype") or properties["state"][0]), counts(entry.size))
                sizes.update({(name, counts(chunk.offsets)): counts(chunk.sizes) for chunk in entry.chunks})
            else:
                sizes[name, None] = None
        for index, info in meta.storage_data.items():
            if getattr(info, "transform_descriptors", None) or Path(info.relative_path).name != info.relative_path:
                raise ValueError(f"entry {index.fqn!r} is written in a way not known here: {vars(info)}")
            offset, place = getattr(index, "offset", None), (info.relative_path, *counts((info.offset, info.length)))
            self.shards[index.fqn].append((offset, sizes[index.fqn, offset], *place))
        self.others = [name for name in meta.state_dict_metadata if name not in self.known]
        self.places = [(name, *shard[2:]) for name, shards in sorted(self.shards.items()) for shard in shards]
        self.files: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for _, file, *entry in self.places:
            self.files[file].append(tuple(entry))
        self.size = {f: p.stat().st_size if p.is_file() else -1 for f in self.files for p in [self.directory / f]}
        whole = {name: math.prod(shape) for name, (_, shape) in self.known.items()}
        held = {name: sum(math.prod(shard[1]) for shard in self.shards[name]) for name in whole}
        self.holes = {n: f"{whole[n]} elements, its shards have {held[n]}" for n in whole if whole[n] != held[n]}

    def bytes_of(self, name: str, sizes: Iterable[int]) -> int:
        bits = "".join(filter(str.isdigit, self.known[name][0].split("_")[0]))  # none in bool; float8_e4m3fn has 8
        return math.prod(sizes) * max(1, int(bits or 8) // 8)

    def stored(self, file: str, start: int, length: int) -> bytes:
        if self.size[file] < start + length:
            raise ValueError(f"{file} is missing or short")
        with (self.directory / file).open("rb") as stream:
            stream.seek(start)
            return stream.read(length)

    def problems(self, crc: bool) -> list[str]:
        """Files missing or short, tensors with holes, and with `crc` shards that differ from their CRC."""
        found: list[str] = []
        for file, entries in sorted(self.files.items()):
            size, needed = self.size[file], [start + length for start, length in entries]
            if lost := sum(end > size for end in needed):
                what = f"is short, {size} of {max(needed)} bytes" if size >= 0 else "is missing"
                found.append(f"{file} {what}: {lost} entries are lost")
        found += [f"{name} has {hole}" for name, hole in self.holes.items()]
        for name, file, start, length in (p for p in self.places if crc and self.size[p[1]] >= p[2] + p[3]):
            try:  # each entry is an archive as torch.save writes it, with a CRC-32 for each member
                with zipfile.ZipFile(io.BytesIO(self.stored(file, start, length))) as archive:
                    bad = archive.testzip()
            except Exception as error:  # zipfile, zlib and lzma each have their own for damage
                bad = reason(error)
            if bad is not None:
                found.append(f"{name} is damaged, in {file} from byte {start} ({bad})")
        return found

    def reads(self, ranks: int) -> list[tuple[int, int, int]]:
        """(bytes needed, bytes read, files opened) of each rank, if each tensor stored in several shards is
        split on dimension 0 as FSDP2 does. DCP reads a stored shard whole if a rank needs any part of it."""
        result = []
        for rank in range(ranks):
            needed, wanted = 0, [(s[2], s[4]) for name in self.others for s in self.shards[name]]
            for name, (_, whole) in self.known.items():
                shape = whole or (1,)
                low, high, step = 0, shape[0], -(-shape[0] // ranks)  # the rule of torch.chunk
                if len(self.shards[name]) > 1:
                    low, high = min(rank * step, high), min((rank + 1) * step, high)
                needed += self.bytes_of(name, (high - low, *shape[1:]))
                for offset, sizes, file, _, length in self.shards[name]:
                    if not whole or (low < offset[0] + sizes[0] and offset[0] < high):
                        wanted.append((file, length))
            result.append((needed, sum(length for _, length in wanted), len({file for file, _ in wanted})))
        return result


def human(count: float) -> str:
    power = min(4, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{int(power > 0)}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def inspect(args: argparse.Namespace) -> int:
    point = Checkpoint(args.first)
    problems, rows = point.problems(args.crc), []
    files = {file: [length for _, length in entries] for file, entries in sorted(point.files.items())}
    for name, (dtype, shape) in sorted(point.known.items()):
        shards = point.shards[name]
        if name.startswith(args.only):
            grid = "x".join(str(len({s[0][dim] for s in shards})) for dim in range(len(shape))) or "1"
            row = {"name": name, "dtype": dtype, "shape": list(shape), "split": grid, "shards": len(shards)}
            rows.append({**row, "bytes": point.bytes_of(name, shape), "files": sorted({s[2] for s in shards})})
    left = (path for path in args.first.glob("*.distcp") if path.name not in files)
    unused = sorted(path.name for path in left if path.stat().st_size)  # a rank that has nothing to write leaves 0
    reads = [dict(zip(("needs", "reads", "files"), r)) for r in (point.reads(args.ranks) if args.ranks else [])]
    if args.json:
        body = {"version": point.version, "tensors": rows, "others": point.others, "problems": problems}
        body.update(files={f: sum(n) for f, n in files.items()}, unused=unused, ranks=reads)
        print(json.dumps(body), flush=True)
        return int(bool(problems))
    once, held = ([row["bytes"] for row in rows if row["shards"] <= most] for most in (1, math.inf))
    print(f"DCP {point.version}: {len(rows)} tensors, {human(sum(held))}; in one piece {len(once)}, ", end="")
    print(f"{human(sum(once))}; {len(point.others)} entries are no tensors\n\n{'file':<16}{'entries':>8}{'bytes':>11}")
    for file, lengths in files.items():
        print(plain(f"{file:<16}{len(lengths):>8}{human(sum(lengths)):>11}"))
    print(f"\n{'tensor':<38}{'dtype':<10}{'shape':<14}{'split':<7}in")
    for row in rows[: args.show]:
        place = row["files"][0] if len(row["files"]) == 1 else f"{len(row['files'])} files"
        print(plain(f"{row['name']:<38}{row['dtype']:<10}{row['shape']!s:<14}{row['split']:<7}{place}"))
    print(f"... and {len(rows) - args.show} more (--show N)" if len(rows) > args.show else "")
    if reads:
        print(f"{'rank':<8}{'needs':>11}{'reads':>11}{'files':>7}")
        for rank, row in list(enumerate(reads))[: args.show]:
            print(f"{rank:<8}{human(row['needs']):>11}{human(row['reads']):>11}{row['files']:>7}")
        print(f"{'all':<8}{human(sum(r['needs'] for r in reads)):>11}{human(sum(r['reads'] for r in reads)):>11}\n")
    end = f"{len(problems)} problem(s)" if problems else "ok, CRCs checked" if args.crc else "ok, contents not read"
    notes = [f"note: {file} is not in .metadata: left by another save into this directory" for file in unused]
    print(*map(plain, [*notes, *(f"PROBLEM: {problem}" for problem in problems), end]), sep="\n", flush=True)
    return int(bool(problems))


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise Misuse("PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu") from None


def open_dcp(path: Path) -> tuple[Known, Callable[[str], Any]]:  # the second reads the value of a name
    point = Checkpoint(path)

    def read(name: str) -> Any:
        torch, shards, whole = torch_module(), point.shards[name], None
        if name in point.holes:
            raise ValueError(point.holes[name])
        for offsets, sizes, *place in shards:
            data = point.stored(*place)
            try:
                part = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            except pickle.UnpicklingError:
                return data  # an object of some class: compared as written, not loaded
            if len(shards) == 1 or name not in point.known:
                return part
            whole = torch.empty(point.known[name][1], dtype=part.dtype) if whole is None else whole
            whole[tuple(slice(o, o + s) for o, s in zip(offsets, sizes))] = part
        return whole

    return {**dict.fromkeys(point.others, ("object", ())), **point.known}, read


def open_torch(path: Path) -> tuple[Known, Callable[[str], Any]]:
    torch, flat = torch_module(), {}

    def flatten(value: Any, name: str) -> None:  # the names that DCP gives to nested values
        nested = isinstance(value, list) and any(isinstance(item, (dict, list, torch.Tensor)) for item in value)
        if not (nested or isinstance(value, dict)):
            flat[name] = value
            return
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flatten(item, f"{name}.{key}" if name else str(key))

    flatten(torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)), "")
    kinds: Known = dict.fromkeys(flat, ("object", ()))
    kinds.update({n: (str(v.dtype)[6:], tuple(v.shape)) for n, v in flat.items() if isinstance(v, torch.Tensor)})
    return kinds, flat.__getitem__


def open_safetensors(path: Path) -> tuple[Known, Callable[[str], Any]]:
    known: Known = {}
    where = {}
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as stream:
            length = min(int.from_bytes(stream.read(8), "little"), file.stat().st_size)
            header = {n: e for n, e in json.loads(stream.read(length)).items() if n != "__metadata__"}
        if twice := header.keys() & known.keys():
            raise Misuse(f"{file} has {min(twice)} again, as shards of an export have: consolidate them first")
        for name, entry in header.items():
            known[name] = (SAFETENSORS.get(entry["dtype"], entry["dtype"]), counts(tuple(entry["shape"])))
            where[name] = (file, *(8 + length + offset for offset in counts(tuple(entry["data_offsets"]))))

    def read(name: str) -> Any:
        torch, (file, start, end) = torch_module(), where[name]
        with file.open("rb") as stream:
            stream.seek(start)
            data = bytearray(stream.read(end - start))
        dtype = getattr(torch, known[name][0])
        return (torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)).reshape(known[name][1])

    return known, read


def difference(a: Any, b: Any, tolerance: float) -> str:
    """What differs between two values; empty if nothing. NaN equals NaN."""
    torch = torch_module()
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        same = type(a) is type(b) and (a == b or (a != a and b != b))
        return "" if same else f"{str(a)[:40]} against {str(b)[:40]}"
    if a.shape != b.shape:
        return f"stored as {list(a.shape)} against {list(b.shape)}"
    shape, count, first, flat_a, flat_b = a.shape, 0, 0, a.detach().reshape(-1), b.detach().reshape(-1)
    for part, (a, b) in enumerate(zip(flat_a.split(STEP), flat_b.split(STEP))):  # float64 copies of a part only
        if a.is_floating_point() or b.is_floating_point():
            a, b = a.double(), b.double()
            wrong = ~(((a - b).abs() <= tolerance) | (a == b) | (a.isnan() & b.isnan()))
        else:
            wrong = a != b
        first = first if count or not wrong.any() else part * STEP + int(wrong.nonzero()[0])
        count += int(wrong.sum())
    at = [first // math.prod(shape[dim + 1 :]) % shape[dim] for dim in range(len(shape))] if count else []
    values = f"first at {at}: {flat_a[first].item():.7g} against {flat_b[first].item():.7g}" if count else ""
    return f"{count} of {len(flat_a)} elements differ, {values}" if count else ""


def compare(args: argparse.Namespace) -> int:
    sides = []
    for path in (args.first, args.second):
        opener = open_torch if path.is_file() else open_dcp
        exported = path.is_dir() and not (path / ".metadata").exists() and list(path.glob("*.safetensors"))
        try:
            known, read = (open_safetensors if exported else opener)(path)
        except Exception as error:  # torch.load has many
            raise Misuse(f"{path} cannot be read: {reason(error)}") from None
        short = {n: n[len(args.strip) :] if n.startswith(args.strip) else n for n in known}
        if len(set(short.values())) < len(known):
            raise Misuse(f"--strip {args.strip} makes one name of two in {path}: use --only")
        sides.append(({s: (known[n], n) for n, s in short.items() if s.startswith(args.only)}, read))
    (names_a, read_a), (names_b, read_b) = sides
    both = sorted(set(names_a) & set(names_b))
    if not both:
        raise Misuse("no name is in both: see the names with inspect, and --only or --strip a prefix")
    found = [(name, "only in A" if name in names_a else "only in B") for name in sorted(set(names_a) ^ set(names_b))]
    for name in both:
        ((type_a, shape_a), full_a), ((type_b, shape_b), full_b) = names_a[name], names_b[name]
        if shape_a != shape_b or (type_a != type_b and not args.any_dtype):
            what = f"{type_a} {list(shape_a)} against {type_b} {list(shape_b)}"
        else:
            try:
                what = "" if args.dry_run else difference(read_a(full_a), read_b(full_b), args.tolerance)
            except Exception as error:  # torch.load has many
                what = f"cannot be compared: {reason(error)}"
        found += [(name, what)] if what else []
    if args.json:
        print(json.dumps({"compared": len(both), "values": not args.dry_run, "differences": dict(found)}), flush=True)
        return int(bool(found))
    lines = [f"{name}: {what}" for name, what in found[: args.show]]
    lines += [f"... and {len(found) - args.show} more (--show N)"] if len(found) > args.show else []
    read = "names, types and shapes" if args.dry_run else "values"
    lines += [f"{len(both)} entries in both, {read} compared: {len(found) or 'no'} differences"]
    print(*map(plain, lines), sep="\n", flush=True)
    return int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("inspect", "compare"))
    parser.add_argument("first", type=Path, metavar="DIR")
    parser.add_argument("second", type=Path, metavar="B", nargs="?", help="compare: the other checkpoint")
    parser.add_argument("--ranks", type=int, default=0, help="inspect: say what each of so many ranks would read")
    parser.add_argument("--crc", action="store_true", help="inspect: read everything and check CRCs")
    parser.add_argument("--dry-run", action="store_true", help="compare: names, types and shapes only")
    parser.add_argument("--tolerance", type=float, default=0.0, help="compare: largest absolute difference allowed")
    parser.add_argument("--any-dtype", action="store_true", help="compare: values only, as after a cast to bf16")
    parser.add_argument("--only", default="", metavar="PREFIX", help="names that begin so, after --strip")
    parser.add_argument("--strip", default="", metavar="PREFIX", help="compare: drop this from names, like 'model.'")
    parser.add_argument("--show", type=int, default=10, help="rows or differences printed, 10 by default")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args()
    if not 0 <= args.ranks <= 100_000 or args.show < 1 or not args.tolerance >= 0:
        parser.error("--ranks must be from 0 to 100,000, --tolerance not negative, --show at least 1")
    if (args.what == "compare") != (args.second is not None):
        parser.error("inspect takes one directory, compare two checkpoints")
    try:
        return inspect(args) if args.what == "inspect" else compare(args)
    except (Misuse, OSError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # standard output may be what is full
        print(plain(f"reshard_check.py: {error}"), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a traceback
    sys.exit(main())
