#!/usr/bin/env python3
"""Look into a PyTorch distributed checkpoint (DCP) without loading it, and compare two checkpoints.

    reshard_check.py inspect DIR               files, tensors, how they are split; missing or short files
    reshard_check.py inspect DIR --ranks 32    and what each of 32 ranks would read (FSDP2 layout)
    reshard_check.py inspect DIR --crc         read everything and check the CRC of each shard
    reshard_check.py compare A B               tensor by tensor, whatever the layouts; first differences
    reshard_check.py compare A B --dry-run     names, types and shapes only; no tensor is read

A and B are DCP directories, files of torch.save, or directories of safetensors (an export).
`.metadata` is a pickle, which can run code when loaded: here only the few names that DCP writes are
allowed, with stand-ins. `inspect` and, on directories, `--dry-run` need only the standard library;
`compare` needs PyTorch and holds one tensor of each side at a time.
Exit codes: 0 nothing found; 1 findings (missing, short, damaged, different); 2 misuse.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import pickle
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any

WIDTH = {"float64": 8, "complex64": 8, "complex128": 16, "int64": 8, "uint64": 8, "float32": 4, "int32": 4}
WIDTH.update({"uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2})  # others, as fp8: 1 byte
SAFETENSORS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32"}
SAFETENSORS.update({"U8": "uint8", "I8": "int8", "BOOL": "bool", "F64": "float64", "F8_E4M3": "float8_e4m3fn"})
Known = dict[str, tuple[str, tuple[int, ...]]]  # name → (dtype, shape)
Source = tuple[Known, Callable[[str], Any]]  # and what reads the value of a name


class Misuse(Exception):
    """The request cannot be answered; the message names the fix (exit code 2)."""


class Record:
    """Stands in for DCP's dataclasses: holds what was pickled, runs nothing of it."""

    def __init__(self, *_values: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def __hash__(self) -> int:
        return hash((getattr(self, "fqn", None), getattr(self, "offset", None)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.__dict__ == other.__dict__


class TensorRecord(Record):
    """Stands in for TensorStorageMetadata: properties, size, chunks."""


ALLOWED: dict[str, dict[str, Any]] = {
    "torch.distributed.checkpoint.metadata": {
        "TensorStorageMetadata": TensorRecord,
        **dict.fromkeys(("Metadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex"), Record),
        **dict.fromkeys(("TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING"), Record),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo": Record},
    "torch.serialization": {"_get_layout": str},
    "torch": {"Size": tuple},
    "builtins": {"getattr": Record},  # so Python 3.11 pickles a member of an enumeration
    **{module: {"PosixPath": PurePosixPath} for module in ("pathlib", "pathlib._local")},
}


class MetadataUnpickler(pickle.Unpickler):
    """Knows the names in DCP's metadata; refuses all others, as they could be any function."""

    def find_class(self, module: str, name: str) -> Any:
        if name in ALLOWED.get(module, ()):
            return ALLOWED[module][name]
        if module == "torch" and (name in WIDTH or name.startswith(("float8_", "float4_", "int", "uint", "bool"))):
            return name  # a dtype
        raise Misuse(f".metadata names {module}.{name}, which DCP does not write: refused. Do not trust this file")


class Checkpoint:
    """One DCP directory. `shards`: name → [(offsets, sizes, file, first byte, length)], the first two None
    for what is no tensor (`others`)."""

    def __init__(self, directory: Path) -> None:
        self.directory, path = directory, directory / ".metadata"
        if not path.is_file():
            alone = "saved with use_collectives=False" if list(directory.glob("__*.metadata")) else ""
            raise Misuse(f"{directory} has no .metadata: {alone or 'never finished, or no DCP checkpoint'}")
        try:
            with path.open("rb") as stream:
                meta = MetadataUnpickler(stream).load()
            self.version = getattr(meta, "version", None)
            self.known: Known = {}
            self.shards: dict[str, list[tuple]] = defaultdict(list)
            sizes: dict[tuple[str, Any], tuple[int, ...]] = {}
            for name, entry in meta.state_dict_metadata.items():
                if isinstance(entry, TensorRecord):
                    self.known[name] = (entry.properties.state[0], entry.size)
                    sizes.update({(name, chunk.offsets): chunk.sizes for chunk in entry.chunks})
            for index, info in meta.storage_data.items():
                offset = getattr(index, "offset", None)
                place = (info.relative_path, info.offset, info.length)
                self.shards[index.fqn].append((offset, sizes.get((index.fqn, offset)), *place))
        except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, ValueError, IndexError) as error:
            raise Misuse(f"{path} cannot be read ({error}): damaged, or not written by DCP") from None
        self.others = [name for name in meta.state_dict_metadata if name not in self.known]
        self.places = [(name, *shard[2:]) for name, shards in sorted(self.shards.items()) for shard in shards]

    def bytes_of(self, name: str, sizes: Iterable[int]) -> int:
        return math.prod(sizes) * WIDTH.get(self.known[name][0], 1)

    def size(self, file: str) -> int:
        return (self.directory / file).stat().st_size if (self.directory / file).is_file() else -1

    def stored(self, file: str, start: int, length: int) -> bytes:
        with (self.directory / file).open("rb") as stream:
            stream.seek(start)
            return stream.read(length)

    def problems(self, crc: bool) -> list[str]:
        """Files missing or short, tensors with holes, and with `crc` shards that differ from their CRC."""
        found: list[str] = []
        ends: dict[str, list[int]] = defaultdict(list)
        for _, file, start, length in self.places:
            ends[file].append(start + length)
        for file, needed in sorted(ends.items()):
            size = self.size(file)
            if lost := sum(end > size for end in needed):
                what = f"is short, {size} of {max(needed)} bytes" if size >= 0 else "is missing"
                found.append(f"{file} {what}: {lost} entries are lost")
        for name, (_, whole) in self.known.items():
            held = sum(math.prod(shard[1] or ()) for shard in self.shards[name])
            if held != math.prod(whole):
                found.append(f"{name} has {math.prod(whole)} elements, its shards have {held}")
        for name, file, start, length in self.places if crc else ():
            if self.size(file) < start + length:
                continue  # reported above
            try:  # each entry is an archive as torch.save writes it, with a CRC-32 for each member
                with zipfile.ZipFile(io.BytesIO(self.stored(file, start, length))) as archive:
                    bad = archive.testzip()
            except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as error:
                bad = str(error)
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
                low, high = 0, shape[0]
                if len(self.shards[name]) > 1:
                    step = -(-shape[0] // ranks)  # the rule of torch.chunk
                    low, high = min(rank * step, high), min((rank + 1) * step, high)
                needed += self.bytes_of(name, (high - low, *shape[1:]))
                for offset, sizes, file, _, length in self.shards[name]:
                    if not whole or (low < offset[0] + (sizes or shape)[0] and offset[0] < high):
                        wanted.append((file, length))
            result.append((needed, sum(length for _, length in wanted), len({file for file, _ in wanted})))
        return result


def human(count: float) -> str:
    power = min(4, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{int(power > 0)}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def inspect(args: argparse.Namespace) -> int:
    point = Checkpoint(args.first)
    problems = point.problems(args.crc)
    files: dict[str, list[int]] = defaultdict(list)
    for _, file, _, length in point.places:
        files[file].append(length)
    rows = []
    for name, (dtype, shape) in sorted(point.known.items()):
        shards = point.shards[name]
        if name.startswith(args.only):
            grid = "x".join(str(len({s[0][dim] for s in shards})) for dim in range(len(shape))) or "1"
            row = {"name": name, "dtype": dtype, "shape": list(shape), "split": grid, "shards": len(shards)}
            rows.append({**row, "bytes": point.bytes_of(name, shape), "files": sorted({s[2] for s in shards})})
    unused = sorted(path.name for path in args.first.glob("*.distcp") if path.name not in files)
    reads = [dict(zip(("needs", "reads", "files"), r)) for r in (point.reads(args.ranks) if args.ranks else [])]
    if args.json:
        body = {"version": point.version, "tensors": rows, "others": point.others, "problems": problems}
        print(json.dumps({**body, "files": {f: sum(n) for f, n in files.items()}, "unused": unused, "ranks": reads}))
        return int(bool(problems))
    once = [row["bytes"] for row in rows if row["shards"] == 1]
    print(f"DCP {point.version}: {len(rows)} tensors, {human(sum(row['bytes'] for row in rows))}", end="; ")
    print(f"in one piece {len(once)}, {human(sum(once))}; {len(point.others)} entries are no tensors")
    print(f"\n{'file':<16}{'entries':>8}{'bytes':>11}")
    for file, lengths in sorted(files.items()):
        print(f"{file:<16}{len(lengths):>8}{human(sum(lengths)):>11}")
    print(f"\n{'tensor':<38}{'dtype':<10}{'shape':<14}{'split':<7}in")
    for row in rows[: args.show]:
        place = row["files"][0] if len(row["files"]) == 1 else f"{len(row['files'])} files"
        print(f"{row['name']:<38}{row['dtype']:<10}{row['shape']!s:<14}{row['split']:<7}{place}")
    print(f"... and {len(rows) - args.show} more (--show N)" if len(rows) > args.show else "")
    if reads:
        print(f"{'rank':<8}{'needs':>11}{'reads':>11}{'files':>7}")
        for rank, row in list(enumerate(reads))[: args.show]:
            print(f"{rank:<8}{human(row['needs']):>11}{human(row['reads']):>11}{row['files']:>7}")
        print(f"{'all':<8}{human(sum(r['needs'] for r in reads)):>11}{human(sum(r['reads'] for r in reads)):>11}\n")
    notes = [f"note: {file} is not in .metadata: left by another save into this directory" for file in unused]
    print(*notes, *(f"PROBLEM: {problem}" for problem in problems), sep="\n", end="\n" if notes or problems else "")
    print(f"{len(problems)} problem(s)" if problems else "ok, CRCs checked" if args.crc else "ok, contents not read")
    return int(bool(problems))


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        hint = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
        raise Misuse(f"PyTorch is missing: {hint}") from None


def open_dcp(path: Path) -> Source:
    point = Checkpoint(path)

    def read(name: str) -> Any:
        torch, whole = torch_module(), None
        for offsets, sizes, *place in point.shards[name]:
            data = point.stored(*place)
            try:
                part = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            except pickle.UnpicklingError:
                return data  # an object of some class: compared as written, not loaded
            if name not in point.known or len(point.shards[name]) == 1:
                return part
            whole = torch.empty(point.known[name][1], dtype=part.dtype) if whole is None else whole
            whole[tuple(slice(o, o + s) for o, s in zip(offsets, sizes))] = part
        return whole

    return {**dict.fromkeys(point.others, ("object", ())), **point.known}, read


def open_torch(path: Path) -> Source:
    torch, flat = torch_module(), {}

    def flatten(value: Any, name: str) -> None:  # the names that DCP gives to nested values
        nested = isinstance(value, list) and any(isinstance(item, (dict, list, torch.Tensor)) for item in value)
        if not (nested or isinstance(value, dict)):
            flat[name] = value
            return
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flatten(item, f"{name}.{key}" if name else str(key))

    flatten(torch.load(path, map_location="cpu", weights_only=True, mmap=True), "")
    tensors = {name: value for name, value in flat.items() if isinstance(value, torch.Tensor)}
    kinds = {name: (str(value.dtype)[6:], tuple(value.shape)) for name, value in tensors.items()}
    return {**dict.fromkeys(flat, ("object", ())), **kinds}, flat.__getitem__


def open_safetensors(path: Path) -> Source:
    known: Known = {}
    where = {}
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            for name, entry in json.loads(stream.read(length)).items():
                if name != "__metadata__":
                    known[name] = (SAFETENSORS.get(entry["dtype"], entry["dtype"]), tuple(entry["shape"]))
                    where[name] = (file, *(8 + length + offset for offset in entry["data_offsets"]))

    def read(name: str) -> Any:
        torch, (file, start, end) = torch_module(), where[name]
        with file.open("rb") as stream:
            stream.seek(start)
            data = bytearray(stream.read(end - start))
        return torch.frombuffer(data, dtype=getattr(torch, known[name][0])).reshape(known[name][1])

    return known, read


def difference(a: Any, b: Any, tolerance: float) -> str:
    """What differs between two values; empty if nothing. NaN equals NaN."""
    torch = torch_module()
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return "" if type(a) is type(b) and a == b else f"{str(a)[:40]} against {str(b)[:40]}"
    if a.is_floating_point() or b.is_floating_point():
        a, b = a.detach().double(), b.detach().double()
        wrong = ~(((a - b).abs() <= tolerance) | (a == b) | (a.isnan() & b.isnan()))
    else:
        wrong = a != b
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in wrong.nonzero()[0])
    values = f"{a[at].item():.7g} against {b[at].item():.7g}"
    return f"{int(wrong.sum())} of {a.numel()} elements differ, first at {list(at)}: {values}"


def compare(args: argparse.Namespace) -> int:
    sides = []
    for path in (args.first, args.second):
        opener = open_torch if path.is_file() else open_dcp
        known, read = (open_safetensors if path.is_dir() and list(path.glob("*.safetensors")) else opener)(path)
        short = {n[len(args.strip) :] if n.startswith(args.strip) else n: n for n in known}
        sides.append(({s: (known[n], n) for s, n in short.items() if s.startswith(args.only)}, read))
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
            what = "" if args.dry_run else difference(read_a(full_a), read_b(full_b), args.tolerance)
        found += [(name, what)] if what else []
    if args.json:
        print(json.dumps({"compared": len(both), "values": not args.dry_run, "differences": dict(found)}))
        return int(bool(found))
    lines = [f"{name}: {what}" for name, what in found[: args.show]]
    lines += [f"... and {len(found) - args.show} more (--show N)"] if len(found) > args.show else []
    read = "names, types and shapes" if args.dry_run else "values"
    print(*lines, f"{len(both)} entries in both, {read} compared: {len(found) or 'no'} differences", sep="\n")
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
    if args.ranks < 0 or args.show < 1 or not args.tolerance >= 0:
        parser.error("--ranks and --tolerance must not be negative, --show must be at least 1")
    if (args.what == "compare") != (args.second is not None):
        parser.error("inspect takes one directory, compare two checkpoints")
    try:
        return inspect(args) if args.what == "inspect" else compare(args)
    except (Misuse, OSError) as error:
        print(f"reshard_check.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
