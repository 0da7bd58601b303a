"""Batch scripts: shell that is never pasted, with `#SBATCH` lines that sbatch would read.

sbatch reads the lines up to the first command and ignores the rest without a word, so that is a
rule here. Where sbatch is installed it reads the script too, against a cluster that does not exist.
"""

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openbook.snippets.dialects import bash, sbatch
from openbook.snippets.dialects import slurm_options as options
from openbook.snippets.dialects.base import Dialect, Problem, Snippet

# minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]] (sbatch(1), --time)
TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1|infinite|unlimited", re.I)
SIZE = re.compile(r"\d+[KMGT]?B?", re.I)
NEARLY_DIRECTIVE = re.compile(r"#[ \t]*SBATCH[ \t]+-", re.I)
HETJOB = re.compile(r"(het|pack)job\b", re.I)


@dataclass
class Option:
    line: int
    name: str
    value: str


def arguments(text: str) -> list[str]:
    """The words of a directive; a word that starts with # begins a comment. Raises ValueError."""
    words = shlex.shlex(text, posix=True, punctuation_chars="")
    words.whitespace_split = True
    words.commenters = "#"
    return list(words)


def directives(source: str) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether sbatch reads it, of every `#SBATCH` line."""
    read = True
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("#SBATCH"):
            yield number, line.removeprefix("#SBATCH").strip(), read
        elif line.strip() and not line.lstrip().startswith("#"):
            read = False


def parse(number: int, text: str) -> tuple[list[Option], list[Problem]]:
    """The options of one directive."""
    try:
        words = arguments(text)
    except ValueError as problem:
        return [], [Problem(number, "slurm-directive", f"cannot be split into words: {problem}".lower())]
    found, problems = [], []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = options.resolve(given)
        elif re.match(r"-\w", word):
            given, equals, value = word[1], "", word[2:]
            name = options.SHORT.get(given)
        else:
            problems.append(
                Problem(number, "slurm-directive", f"{word!r} belongs to no option", "quote a value with blanks")
            )
            continue
        if name is None:
            problems.append(unknown(number, word, given))
            continue
        if name in options.VALUED and not value and not equals:
            if not words or words[0] == "=" or words[0].startswith("--"):
                problems.append(Problem(number, "slurm-value", f"{word} needs a value", "write it as --name=value"))
                words = words[2:] if words and words[0] == "=" else words
                continue
            value = words.pop(0)
        elif name in options.VALUED and not value:
            problems.append(Problem(number, "slurm-value", f"{word} has an empty value"))
        elif name in options.FLAGS and equals:
            problems.append(Problem(number, "slurm-value", f"--{name} takes no value"))
        found.append(Option(number, name, value))
    return found, problems


def unknown(number: int, word: str, given: str) -> Problem:
    if given in options.SRUN_ONLY:
        hint = "give it to srun, inside the script"
        return Problem(number, "slurm-unknown-option", f"--{given} is an option of srun, not of sbatch", hint)
    like = difflib.get_close_matches(given, options.ALL, 1)
    hint = f"did you mean --{like[0]}?" if like else "see sbatch --help"
    return Problem(number, "slurm-unknown-option", f"sbatch has no option {word.split('=')[0]}", hint)


def values(found: Sequence[Option]) -> Iterator[Problem]:
    for option in found:
        name, value = option.name, option.value
        if "$" in value or "`" in value:
            hint = "sbatch does not expand variables here; it knows %j, %A, %a, %x, %N, %u"
            yield Problem(option.line, "slurm-value", f"--{name}={value} stays as it is written", hint)
        elif name in options.TIMES and not TIME.fullmatch(value):
            hint = "minutes, minutes:seconds, hours:minutes:seconds, or days-hours:minutes:seconds"
            yield Problem(option.line, "slurm-time", f"{value!r} is no time to sbatch", hint)
        elif name in options.SIZES and not SIZE.fullmatch(value):
            yield Problem(option.line, "slurm-value", f"--{name}={value}: a number with K, M, G or T", "as in 64G")
        elif name in options.COUNTS and not re.fullmatch(r"\d+", value):
            yield Problem(option.line, "slurm-value", f"--{name}={value}: a whole number")


def combinations(found: Sequence[Option]) -> Iterator[Problem]:
    """What sbatch would refuse or silently change, in one component of a job."""
    last: dict[str, Option] = {}
    for option in found:
        before = last.get(option.name)
        if before and option.name not in options.ADDED_UP:
            message = f"--{option.name} is given twice; sbatch takes this one"
            yield Problem(option.line, "slurm-duplicate", message, f"the other is on line {before.line} of the script")
        last[option.name] = option
    for one, other in options.EXCLUSIVE:
        if one in last and other in last:
            line = max(last[one].line, last[other].line)
            yield Problem(line, "slurm-combination", f"sbatch refuses --{one} together with --{other}")
    gres = last.get("gres")
    if gres and "gpus-per-node" in last and gres.value.startswith("gpu"):
        line = max(gres.line, last["gpus-per-node"].line)
        yield Problem(line, "slurm-combination", "sbatch refuses --gpus-per-node together with --gres=gpu")
    yield from counts(last)


def counts(last: dict[str, Option]) -> Iterator[Problem]:
    def number(name: str) -> int | None:
        text = last[name].value if name in last else ""
        return int(text) if text.isdecimal() else None

    nodes, tasks, per_node = number("nodes"), number("ntasks"), number("ntasks-per-node")
    if nodes and tasks and tasks < nodes:
        message = f"{tasks} tasks cannot use {nodes} nodes: sbatch lowers the number of nodes"
        yield Problem(last["ntasks"].line, "slurm-combination", message)
    if nodes and tasks and per_node and tasks > nodes * per_node:
        message = f"{tasks} tasks do not fit on {nodes} nodes with {per_node} a node"
        yield Problem(last["ntasks"].line, "slurm-combination", message)


def own_rules(snippet: Snippet) -> Iterator[Problem]:
    lines = snippet.source.split("\n")
    if snippet.whole and not lines[0].startswith("#!"):
        yield Problem(1, "slurm-shebang", "sbatch takes only a script whose first line starts with #!")
    found: list[Option] = []
    for number, text, read in directives(snippet.source):
        if not read:
            message = "sbatch ignores #SBATCH lines after the first command"
            yield Problem(number, "slurm-ignored-directive", message, "move it to the top of the script")
        elif HETJOB.match(text):
            yield from combinations(found)
            found = []
        else:
            some, problems = parse(number, text)
            yield from problems
            yield from values(some)
            found += some
    yield from combinations(found)
    for number, line in enumerate(lines, 1):
        if NEARLY_DIRECTIVE.match(line) and not line.startswith("#SBATCH"):
            yield Problem(number, "slurm-not-directive", "a comment to sbatch, not a directive", "write #SBATCH")


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    sound = []
    for snippet in snippets:
        problems = list(own_rules(snippet))
        yield from bash.with_each(snippet, problems)
        if not problems:
            sound.append(snippet)
    yield from bash.check(snippets)
    yield from sbatch.ask_all(sound)


SLURM = Dialect("slurm", check, ("parse", "lint", "run", "gpu"), ("sbatch",))
