"""The options of Slurm's commands, and the states and reasons of jobs, from docs/data/names/slurm."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from openbook.findings import Misuse
from openbook.names.lists import FOLDER, read

LISTS = FOLDER / "slurm"
REMARK = re.compile(r"(?:-(?P<short>\w))? ?(?P<value>\[VALUE\]|VALUE)?(?:; (?P<note>.*))?")
# Their command line ends where the command to run begins.
LAUNCHERS = frozenset({"sbatch", "srun", "salloc"})


@dataclass(frozen=True)
class Option:
    """`value` is "", "VALUE" (needs one) or "[VALUE]" (may have one, after =)."""

    name: str
    short: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Command:
    name: str
    options: Mapping[str, Option]
    shorts: Mapping[str, Option]

    def resolve(self, name: str) -> Option | None:
        """The option that a long name means: getopt_long takes any unambiguous beginning."""
        if name in self.options:
            return self.options[name]
        like = [option for option in self.options if option.startswith(name)]
        return self.options[like[0]] if len(like) == 1 else None


def command_names() -> list[str]:
    return sorted(path.stem for path in LISTS.glob("s*.txt") if path.stem != "states")


@functools.cache
def command(name: str, plugins: bool = False) -> Command:
    """Raises Misuse when there is no list, or a line of it that is no option."""
    options: dict[str, Option] = {}
    shorts: dict[str, Option] = {}
    paths = [LISTS / f"{name}.txt"] + ([LISTS / "plugin-options.txt"] if plugins and name in LAUNCHERS else [])
    for entry in (entry for path in paths for entry in read(path)[0].names.values()):
        remark = REMARK.fullmatch(entry.remark)
        if remark is None or not entry.name.startswith("--"):
            raise Misuse(f"{LISTS / name}.txt:{entry.line}: not `--name  -n VALUE`")
        option = Option(entry.name[2:], remark["short"] or "", remark["value"] or "", remark["note"] or "")
        options[option.name] = option
        if option.short:
            shorts.setdefault(option.short, option)
    return Command(name, options, shorts)


@functools.cache
def states() -> Mapping[str, str]:
    """Long name → short code."""
    return {name: entry.remark for name, entry in read(LISTS / "states.txt")[0].names.items()}


@functools.cache
def reasons() -> frozenset[str]:
    return frozenset(read(LISTS / "reasons.txt")[0].names)
