"""Shell for pasting: it parses, shellcheck finds no error, and it has no prompts or placeholders.

The rules are functions of their own, since console and slurm use them too.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from openbook.snippets import tools
from openbook.snippets.dialects.base import Dialect, Problem, Snippet

PROMPT = re.compile(
    r"\s*(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+[:\s]*[\w~/.-]*|\[[\w.-]+@[\w.-]+ [^\]]*\])?\$>? "
    r"|\s*\[[\w.-]+@[\w.-]+ [^\]]*\][$#]?(?: |$)"
)
HEREDOC = re.compile(r"(?<!<)<<(?!<)-?\s*(['\"]?)(\w+)\1")
NAME = r"(<[A-Za-z](?:[\w .-]*\w)?>)"
PLACEHOLDER = re.compile(rf"(?:^|(?<=[\s=:/@~_-])){NAME}(?=$|[\s:/,.@_-])|(?<=\w){NAME}(?=[:/.@_-])")
LONGEST = 2000  # characters of a line that the patterns below look at, some of them in quadratic time
CONSEQUENCES = (1072, 1073)  # "could not parse this": another comment says why
START = r"(?:^|[;&|(`]|\b(?:sudo|then|do|else|time|xargs|srun|nohup)\b(?:\s+-\S+)*|\$\()\s*"
DESTRUCTIVE = {
    "rm -rf": re.compile(START + r"(?:\S*/)?rm\s+(?:\S+\s+)*?-(?:[a-zA-Z]*[rR][a-zA-Z]*f|[a-zA-Z]*f[a-zA-Z]*[rR])"),
    "rm -r -f": re.compile(START + r"rm\s+(?:-[rR]|--recursive)\s+(?:-f|--force)\b"),
    "mkfs": re.compile(START + r"(?:\S*/)?mkfs(?:\.\w+)?\s"),
    "wipefs": re.compile(START + r"(?:wipefs|blkdiscard|shred)\s"),
    "dd of=": re.compile(START + r"dd\s(?:.*\s)?of=(?!/dev/null)"),
    "scontrol": re.compile(START + r"scontrol\s+(?:update\s.*\bstate=(?:drain|down|fail)|reboot|shutdown)", re.I),
    "kubectl": re.compile(START + r"kubectl\s+(?:drain|delete)\b"),
    "nvidia-smi reset": re.compile(START + r"nvidia-smi\s(?:.*\s)?(?:-r|--gpu-reset)\b"),
}


def commands(source: str) -> Iterator[tuple[int, str]]:
    """The lines that the shell reads as commands: no comments, no here-documents; of a huge line the beginning."""
    end = None
    for number, line in enumerate(source.split("\n"), 1):
        if end is not None:
            if line.strip() == end:
                end = None
            continue
        if not line.lstrip().startswith("#"):
            line = line[:LONGEST]
            yield number, line
            match = HEREDOC.search(line)
            if match:
                end = match[2]


def prompts(snippet: Snippet) -> Iterator[Problem]:
    for number, line in commands(snippet.source):
        if PROMPT.match(line):
            hint = "leave the prompt out, or make it a console fence"
            yield Problem(number, "shell-prompt", "a prompt cannot be pasted", hint)


def placeholders(snippet: Snippet) -> Iterator[Problem]:
    for number, line in commands(snippet.source):
        match = PLACEHOLDER.search(line)
        if match and line[: match.start()].count('"') % 2 == 0 and line[: match.start()].count("'") % 2 == 0:
            name = re.sub(r"\W+", "_", match[0].strip("<>")).upper()
            message = f"the shell reads {match[0]} as files to read and to overwrite"
            yield Problem(number, "shell-placeholder", message, f"write ${{{name}:?}}")


def destructive(snippet: Snippet) -> Iterator[Problem]:
    """Commands that destroy must stand inside a warning; a file beside the page is not asked."""
    if snippet.whole or "warning" in snippet.within or "danger" in snippet.within:
        return
    for number, line in commands(snippet.source):
        for name, pattern in DESTRUCTIVE.items():
            if pattern.search(line):
                hint = "put the fence in a `!!! warning` that says what is destroyed"
                yield Problem(number, "destructive-command", f"{name} outside of a warning", hint)
                break


def syntax(source: str) -> list[Problem]:
    """What `bash -n` says."""
    bash = tools.find("bash")
    if bash is None:
        return []
    told = re.findall(r"^.*?: line (\d+): (.*)$", tools.call([bash, "-n"], source).stderr, re.M)
    # A second line repeats the source; the first says what is wrong.
    return [Problem(int(line), "shell-syntax", message) for line, message in told if not message.startswith("`")]


def shellcheck(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    """Errors of shellcheck, from one process for all."""
    program = tools.find("shellcheck")
    if not snippets or program is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for number, snippet in enumerate(snippets):
            names.append(f"{folder}/{number}.sh")
            Path(names[-1]).write_text(snippet.source + "\n", encoding="utf-8")
        done = tools.call([program, "--norc", "-S", "error", "-s", "bash", "-f", "json1", *names])
    comments = json.loads(done.stdout)["comments"] if done.stdout else []
    codes = Counter((item["file"], item["code"]) for item in comments)
    explained = {item["file"] for item in comments if item["code"] not in CONSEQUENCES}
    for item in comments:
        place = (item["file"], item["code"])
        if item["code"] in CONSEQUENCES and item["file"] in explained:
            continue
        more = codes.pop(place, 0)  # the first of its kind speaks for all in the snippet
        if more:
            hint = f"and {more - 1} more of this kind in the snippet" if more > 1 else ""
            problem = Problem(item["line"], f"shell-SC{item['code']}", item["message"], hint)
            yield snippets[int(Path(item["file"]).stem)], problem


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    pasted = []
    for snippet in snippets:
        mistakes = [*prompts(snippet), *placeholders(snippet)]
        yield from ((snippet, problem) for problem in (*mistakes, *destructive(snippet)))
        if not mistakes:
            pasted.append(snippet)
    sound = []
    for snippet, problems in zip(pasted, tools.together(lambda one: syntax(one.source), pasted), strict=True):
        yield from with_each(snippet, problems)
        if not problems and all(len(line) <= LONGEST for line in snippet.source.split("\n")):
            sound.append(snippet)
    yield from shellcheck(sound)


def with_each(snippet: Snippet, problems: Iterable[Problem]) -> Iterator[tuple[Snippet, Problem]]:
    return ((snippet, problem) for problem in problems)


BASH = Dialect("bash", check, ("parse", "lint", "run", "gpu"), ("sh", "shell"))
