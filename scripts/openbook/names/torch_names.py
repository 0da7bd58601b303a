"""The public names of PyTorch and their parameters, from docs/data/names/torch.txt.gz (made by torch_upstream)."""

import difflib
import functools
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from openbook.findings import Misuse
from openbook.names.lists import FOLDER

FILE = FOLDER / "torch.txt.gz"
LINE = re.compile(
    r"(?P<kind>module|class|def|name) (?P<name>[\w.]+)(?:\((?P<parameters>.*?)\))?(?P<open> \+)?"
    r"(?: = (?P<alias>[\w.]+))?(?P<bases>(?: < [\w.]+)*)(?: => (?P<message>.*))?"
)
ALIKE = 0.85  # a member that is in no list counts as wrong only if a real one is that close


@dataclass(frozen=True)
class Entry:
    kind: str
    name: str
    parameters: tuple[str, ...] | None  # None: not known
    open: bool  # has more below than the list says
    alias: str
    bases: tuple[str, ...]
    message: str  # what PyTorch says about a deprecated name

    def takes(self, keyword: str) -> bool:
        """True also when it is not known."""
        if self.kind not in ("def", "class") or self.parameters is None:
            return True
        return keyword in self.parameters or any(one.startswith("**") for one in self.parameters)


@dataclass(frozen=True)
class Missing:
    """`where` has no `name`."""

    where: str
    name: str
    alike: list[str]


class Names:
    """Looks names up; a line of the file is read when it is asked for."""

    def __init__(self, text: str):
        self.lines: dict[str, str] = {}
        self.version = ""
        for line in text.split("\n"):
            if line.startswith("# version: "):
                self.version = line.removeprefix("# version: ")
            elif line and line[0] != "#":
                name = line.split(" ", 2)[1].partition("(")[0]
                if name not in self.lines or line.startswith("module"):
                    self.lines[name] = line

    @functools.cache  # noqa: B019 - one instance lives as long as the process
    def entry(self, name: str) -> Entry | None:
        line = self.lines.get(name)
        match = LINE.fullmatch(line) if line else None
        if match is None:
            return None
        known = match["parameters"]
        return Entry(
            match["kind"],
            match["name"],
            None if known in (None, "?") else tuple(one for one in known.split(", ") if one),
            bool(match["open"]),
            match["alias"] or "",
            tuple(match["bases"].split(" < ")[1:]),
            match["message"] or "",
        )

    def below(self, name: str) -> list[str]:
        beginning = name + "."
        return [
            one[len(beginning) :]
            for one in self.lines
            if one.startswith(beginning) and "." not in one[len(beginning) :]
        ]

    def find(self, dotted: str) -> Entry | Missing | None:
        """What a dotted name means; None when that cannot be told."""
        first, *rest = dotted.split(".")
        at = self.entry(first)
        for name in rest:
            if at is None or name.startswith("_"):
                return None
            if at.kind == "module":
                found = self.entry(f"{at.alias or at.name}.{name}") or self.entry(f"{at.name}.{name}")
                if found is None:
                    return None if at.open else self.missing(at, name)
            elif at.kind == "class":
                found = next(
                    (self.entry(f"{one}.{name}") for one in (at.name, *at.bases) if f"{one}.{name}" in self.lines), None
                )
                if found is None:
                    missing = self.missing(at, name)
                    return missing if missing.alike and not at.open else None
            else:
                return None
            at = found
        return at

    def missing(self, at: Entry, name: str) -> Missing:
        cutoff = 0.6 if at.kind == "module" else ALIKE
        known = [one for where in (at.alias or at.name, *at.bases) for one in self.below(where)]
        alike = difflib.get_close_matches(name, known, 2, cutoff)
        if at.kind == "module" and not alike:  # the same name elsewhere
            ending = f".{name}"
            alike = sorted((one for one in self.lines if one.endswith(ending)), key=len)[:1]
        return Missing(at.name, name, alike)


@functools.cache
def names(file: Path = FILE) -> Names:
    try:
        return Names(gzip.decompress(file.read_bytes()).decode())
    except OSError as problem:
        raise Misuse(f"{file}: {problem.strerror}; make it with python -m openbook.names.torch_upstream") from problem
