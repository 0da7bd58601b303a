"""Transcripts: commands after `$ `, continued after a backslash or with `> `, and what they print."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from openbook.snippets import tools
from openbook.snippets.dialects import bash
from openbook.snippets.dialects.base import Dialect, Problem, Snippet

UNFINISHED = re.compile(r"(?:\\|\||&&|\b(?:do|then|else)|[{(])\s*$|<<")


@dataclass
class Command:
    """`line` is the transcript's line of the prompt."""

    line: int
    text: str
    output: list[str]


def split(source: str) -> list[Command]:
    """The commands of a transcript with their outputs."""
    found: list[Command] = []
    continued = False
    for number, line in enumerate(source.split("\n"), 1):
        last = found[-1] if found else None
        if line.startswith("$ ") or line == "$":
            found.append(Command(number, line[2:], []))
            continued = True
        elif last and continued and last.text.endswith("\\"):
            last.text += "\n" + line.removeprefix("> ")
        elif last and continued and line.startswith("> ") and unfinished(last.text):
            last.text += "\n" + line[2:]
        elif last:
            continued = False
            last.output.append(line)
    return found


def unfinished(text: str) -> bool:
    """Does the shell ask for more? Quotes, here-documents, pipes and open blocks."""
    return bool(UNFINISHED.search(text)) or bool(bash.syntax(text))


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    every = []
    for snippet in snippets:
        found = split(snippet.source)
        if not found:
            hint = "commands stand after `$ `; output alone is a text fence"
            yield snippet, Problem(1, "no-prompt", "no line starts with `$ `", hint)
        every += [(snippet, command) for command in found]
    texts = tools.together(lambda one: bash.syntax(without_placeholders(one[1].text)), every)
    for (snippet, command), problems in zip(every, texts, strict=True):
        alone = replace(snippet, source=command.text)
        for problem in (*problems, *bash.destructive(alone)):
            yield snippet, replace(problem, line=command.line + max(problem.line, 1) - 1)


def without_placeholders(text: str) -> str:
    """`<NAME>` in a transcript is for people; the shell would take it for a redirection."""
    return bash.PLACEHOLDER.sub(lambda match: match[0].replace("<", "_").replace(">", "_"), text)


CONSOLE = Dialect("console", check, ("parse", "run", "gpu"))
