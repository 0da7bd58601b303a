"""Runs fences with check=run in the sandbox and holds what happens against what the page says."""

import functools
import importlib.metadata
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from openbook.findings import Finding
from openbook.snippets import expected, prepare, requirements, sandbox, tools
from openbook.snippets.cache import Cache, key_of
from openbook.snippets.collect import Item, PageItems
from openbook.snippets.dialects import console

COMMANDS_OF_SHELL = ["fio", "gcc", "sbatch"]  # whose versions can change what a shell snippet prints


@dataclass
class Unit:
    """What has one exit code: a fence, or one command of a transcript."""

    item: Item
    line: int  # of the page
    text: str
    code: int | None  # None: any, as the page itself shows it
    printed: str | None  # what it must print; None: anything
    printed_line: int = 0


@dataclass
class Process:
    """Fences that share a process, in order."""

    kind: str
    items: list[Item]
    folder: Path | None

    @property
    def timeout(self) -> float:
        return sum(item.expectation.timeout for item in self.items)

    @property
    def ranks(self) -> int:
        return self.items[0].expectation.ranks


def processes(page: PageItems) -> list[Process]:
    found: dict[object, Process] = {}
    for item in page.items:
        if item.level == "run" or (item.level == "compile" and item.kind in prepare.COMPILED):
            name = (item.expectation.session, item.kind) if item.expectation.session else id(item)
            found.setdefault(name, Process(item.kind, [], page.folder)).items.append(item)
    return list(found.values())


def units(item: Item) -> Iterator[Unit]:
    fence, code = item.fence, item.expectation.exit
    if item.dialect.name == "console":
        commands = console.split(fence.source)
        for command, after in zip(commands, [*commands[1:], None]):
            line = fence.line_of(command.line)
            wanted = code if after is None else None if "$?" in after.text else 0
            yield Unit(item, line, command.text, wanted, "\n".join(command.output), line)
    elif item.output:
        yield Unit(item, fence.start, fence.source, code, item.output.source, item.output.start)
    else:
        yield Unit(item, fence.start, fence.source, code, None)


def beside(folder: Path | None) -> dict[str, Path]:
    """The files that a reader has downloaded from beside the page."""
    if folder is None:
        return {}
    found = (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return {path.name: path for path in sorted(found) if path.suffix != ".md" and not path.name.startswith(".")}


def patience() -> float:
    """How much longer things take while other programs want the CPUs too."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 4.0)


@functools.cache
def installed() -> list[str]:
    return sorted(f"{one.name} {one.version}" for one in importlib.metadata.distributions())


def key(process: Process, parts: Sequence[Unit], files: dict[str, Path]) -> str:
    return key_of(
        kind=process.kind,
        levels=[item.level for item in process.items],
        timeout=process.timeout,
        ranks=process.ranks,
        units=[(unit.text, unit.code, unit.printed) for unit in parts],
        beside={name: sha256(path.read_bytes()).hexdigest() for name, path in files.items()},
        versions=[sys.version, installed(), machinery(), *(tools.version(name) for name in used_by(process.kind))],
    )


def used_by(kind: str) -> list[str]:
    more = {"shell": COMMANDS_OF_SHELL, "slurm": ["sbatch"], "c": ["gcc"], "cpp": ["g++"]}.get(kind, [])
    return ["bash", "bwrap", *more]


@functools.cache
def machinery() -> list[str]:
    """What decides how snippets run: a change of it makes them run again."""
    modules = (prepare.DRIVER, Path(prepare.__file__), Path(sandbox.__file__), prepare.LAB)
    return [sha256(path.read_bytes()).hexdigest() for path in modules if path.exists()]


def run(process: Process, cache: Cache) -> list[Finding]:
    """Run a process unless it is known to pass."""
    parts = [unit for item in process.items for unit in units(item)]
    why = sandbox.unusable() or requirements.missing(process.kind)
    if why:
        return [notice(item, why) for item in process.items]
    files = beside(process.folder)
    digest = key(process, parts, files)
    if not parts or cache.passed(digest):
        return []
    mark = f"end-{secrets.token_hex(8)}"
    timeout = process.timeout * patience()
    start = prepare.start(process.kind, [unit.text for unit in parts], mark, timeout, process.ranks)
    there = {name: path for name, path in files.items() if name not in start.files} | start.beside
    result = sandbox.run(start.command, start.files, start.limits, there)
    findings = list(judge(parts, result, mark))
    if not findings:
        cache.keep(digest)
    return findings


def judge(parts: Sequence[Unit], result: sandbox.Result, mark: str) -> Iterator[Finding]:
    """The first unit that did not do what the page says; those after it cannot be judged."""
    pieces = re.split(rf"\n?{mark} (\d+)\n", result.output)
    if mark not in result.output and len(parts) == 1 and result.ended == "exit":
        pieces = [result.output, str(result.code), ""]
    for n, unit in enumerate(parts):
        output = pieces[2 * n] if 2 * n < len(pieces) else ""
        code = int(pieces[2 * n + 1]) if 2 * n + 1 < len(pieces) else None
        if (
            code is not None
            and unit.code in (code, None)
            and (unit.printed is None or expected.matches(unit.printed, output))
        ):
            continue
        lacking = requirements.absent(output)
        if lacking:
            yield notice(unit.item, f"needs {lacking}")
        elif code is None:
            yield unfinished(unit, result, output)
        elif unit.code not in (code, None):
            line = failing_line(unit, output)
            yield finding(unit, line, "run-exit", f"exit code {code}, not {unit.code}", tail(output))
        else:
            hint = expected.difference(unit.printed, output)
            yield finding(unit, unit.printed_line, "run-output", "it prints something else", hint)
        return


def unfinished(unit: Unit, result: sandbox.Result, output: str) -> Finding:
    if unit.item.kind == "slurm" and result.ended == "exit":
        return finding(unit, unit.line, "run-lab", "the Slurm lab did not work", tail(output))
    told = {
        "timeout": f"still running after {unit.item.expectation.timeout:g} s",
        "memory": f"it took more than {sandbox.MEMORY // sandbox.MB} MiB of memory",
        "output": f"it printed more than {sandbox.OUTPUT // sandbox.MB} MiB",
        "exit": f"it ended the session with exit code {result.code}",
    }
    return finding(unit, unit.line, f"run-{result.ended}", told[result.ended], tail(output))


def failing_line(unit: Unit, output: str) -> int:
    """The page's line of the last place in the snippet that a traceback or the shell names."""
    places = re.findall(r'snippet(?:_\d+)?\.\w+(?:", line |: line |:|\()(\d+)', output)
    if not places or unit.item.dialect.name == "console":
        return unit.line
    return unit.item.fence.line_of(int(places[-1]))


def tail(output: str, most: int = 12) -> str:
    lines = output.rstrip().split("\n")
    return "\n".join((["…"] if len(lines) > most else []) + [line[:300] for line in lines[-most:]])


def finding(unit: Unit, line: int, rule: str, message: str, hint: str) -> Finding:
    return Finding(unit.item.fence.path, line, 0, rule, "error", message, hint.replace("\n", "\n    "))


def notice(item: Item, why: str) -> Finding:
    return Finding(item.fence.path, item.fence.start, 0, "not-run", "notice", f"not run: {why}")


def run_all(pages: Iterable[PageItems], cache: Cache) -> Iterator[Finding]:
    """Findings of everything that runs, as many processes at once as there are CPUs."""
    todo = [process for page in pages for process in processes(page)]
    for findings in tools.together(lambda process: run(process, cache), todo):
        yield from findings
