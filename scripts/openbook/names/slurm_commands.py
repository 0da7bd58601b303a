"""Options of Slurm's commands in shell text, and the states that they are asked for."""

import difflib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from openbook.findings import Finding
from openbook.names import slurm_names
from openbook.names.documents import SHELL, Document
from openbook.names.slurm_names import LAUNCHERS, Command

BEFORE = (
    r"(?:^|[;|&(`]|\$\(|(?<![\w-])(?:then|do|else|exec|time|sudo|nohup|watch|if|while|until|!)[ \t]+)"
    r"[ \t]*(?:\w+=[^\s;|&]*[ \t]+)*(?:[\w./-]*/)?"
)
STATES = {"squeue": ("states", "t"), "sacct": ("state", "s"), "scancel": ("state", "t")}
UNTOLD = re.compile(r"[$<>{}\[\]*…`]|\.\.\.")  # a name that holds one is made elsewhere, or a placeholder


@dataclass(frozen=True)
class Call:
    """`line` counts from 1 in the text."""

    command: str
    line: int
    words: tuple[str, ...]


def joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, and where each began."""
    start, parts = 1, []
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            start = number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield start, " ".join([*parts, line])
        parts = []
    if parts:
        yield start, " ".join(parts)


def words(text: str) -> list[str]:
    """The words of one command, as far as it goes; quotes are taken off."""
    found, word, quote, depth, begun = [], "", "", 0, False
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == quote and not depth:
                quote = ""
            else:
                depth += text.startswith("$(", at) and quote == '"'
                depth -= char == ")" and depth > 0
                word += char
        elif text.startswith("$(", at):
            depth += 1
            word, begun = word + "$(", True
            at += 1
        elif depth:
            depth -= char == ")"
            word += char
        elif char in "'\"":
            quote, begun = char, True
        elif char in ";|&)`\n" or (char == "#" and not begun):
            break
        elif char.isspace():
            if begun:
                found.append(word)
            word, begun = "", False
        elif char == "\\":
            at += 1
            word, begun = word + text[at : at + 1], True
        else:
            word, begun = word + char, True
        at += 1
    return [*found, word] if begun else found


@functools.cache
def commands() -> re.Pattern[str]:
    return re.compile(rf"{BEFORE}({'|'.join(slurm_names.command_names())})(?=\s|$)")


def calls(text: str) -> Iterator[Call]:
    pattern = commands()
    for number, line in joined(text):
        if line.lstrip().startswith("#"):
            continue
        for match in pattern.finditer(line):
            yield Call(match[1], number, tuple(words(line[match.end() :])))


def problems(call: Call) -> Iterator[tuple[str, str, str]]:
    """Rule, message and hint of each mistake."""
    command = slurm_names.command(call.command, plugins=True)
    rest = list(call.words)
    while rest:
        word = rest.pop(0)
        if word == "--" or (call.command in LAUNCHERS and not word.startswith("-")):
            return
        if word.startswith("--"):
            yield from long_option(command, word[2:], rest)
        elif re.match(r"-[A-Za-z]", word):
            yield from short_options(command, word[1:], rest)


def long_option(command: Command, text: str, rest: list[str]) -> Iterator[tuple[str, str, str]]:
    name, equals, value = text.partition("=")
    name = name.removesuffix("[").removesuffix("(")
    if not name or UNTOLD.search(name):
        return
    option = command.resolve(name)
    if option is None:
        like = difflib.get_close_matches(name, command.options, 2)
        others = [one for one in slurm_names.command_names() if name in slurm_names.command(one).options]
        hint = f"did you mean {' or '.join('--' + one for one in like)}?" if like else ""
        hint = hint or (f"{others[0]} has it" if others else "one of a plugin goes into slurm/plugin-options.txt")
        yield "slurm-option", f"{command.name} has no option --{name}", hint
    elif option.value == "VALUE":
        if not equals and rest:
            value = rest.pop(0)
        yield from state(command, option.name, value)
    elif not option.value and equals:
        yield "slurm-option", f"--{option.name} of {command.name} takes no value", ""


def short_options(command: Command, letters: str, rest: list[str]) -> Iterator[tuple[str, str, str]]:
    while letters:
        letter, letters = letters[0], letters[1:]
        option = command.shorts.get(letter)
        if UNTOLD.search(letter):
            return
        if option is None:
            if letter != "h":  # getopt's own, or help everywhere
                yield "slurm-option", f"{command.name} has no option -{letter}", f"see {command.name} --help"
            return
        if option.value == "VALUE":
            value = letters or (rest.pop(0) if rest else "")
            yield from state(command, option.name, value)
        if option.value:
            return


def state(command: Command, option: str, value: str) -> Iterator[tuple[str, str, str]]:
    if command.name not in STATES or option not in STATES[command.name] or UNTOLD.search(value):
        return
    known = slurm_names.states()
    for one in value.split(","):
        if one.upper() not in known and one.upper() not in known.values() and one.lower() != "all" and one:
            like = difflib.get_close_matches(one.upper(), known, 1)
            yield "slurm-state", f"no job has the state {one}", f"did you mean {like[0]}?" if like else ""


def check(document: Document) -> Iterator[Finding]:
    for piece in document.pieces:
        if piece.language in SHELL.values():
            for call in calls(piece.text):
                for rule, message, hint in problems(call):
                    yield Finding(document.path, piece.line_of(call.line), 0, rule, "error", message, hint)
    for span in document.inline:
        text = span.removeprefix("$ ")
        if text.startswith("#SBATCH "):
            text = text.replace("#SBATCH", "sbatch", 1)
        found = [problem for call in calls(text) for problem in problems(call)] + list(reason(span))
        line = next(iter(document.places(span)), 0) if found else 0
        for rule, message, hint in found:
            yield Finding(document.path, line, 0, rule, "error", message, hint)


def reason(span: str) -> Iterator[tuple[str, str, str]]:
    """`(ReqNodeNotAvailable)`: squeue's column, nearly."""
    match = re.fullmatch(r"\(([A-Z]\w{4,})\)", span)
    known = slurm_names.reasons()
    if match and match[1] not in known:
        like = difflib.get_close_matches(match[1], known, 1, 0.8)
        if like:
            yield "slurm-reason", f"squeue has no reason {match[1]}", f"did you mean {like[0]}?"
