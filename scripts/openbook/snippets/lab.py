"""Batch scripts held against a whole Slurm: `sbatch --test-only` on four nodes of eight pretend GPUs.

It knows what no parser of options knows: whether a partition exists and whether a request can be met.
"""

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from openbook.findings import Finding
from openbook.snippets import execute, prepare, requirements, sandbox, static, tools
from openbook.snippets.cache import Cache, key_of
from openbook.snippets.collect import PageItems
from openbook.snippets.dialects import sbatch, slurm
from openbook.snippets.dialects.base import Problem, Snippet

ACCEPTED = re.compile(r"^Job \d+ to start at ")
# What a reader's cluster has and the lab has not, by design.
NOT_OURS = re.compile(r"feature|qos|node name|account|reservation|licen[sc]e|burst buffer|cluster", re.I)
LAB = "the lab has gpu (7 days) and debug (30 minutes), with 4 nodes of 96 CPUs, 1 TB and 8 GPUs"
SECONDS = 0.5  # a script, on a busy machine


def check(pages: Iterable[PageItems], files: Sequence[tuple[Path, str]], cache: Cache) -> Iterator[Finding]:
    """Findings for all batch scripts, fences and files, with one lab."""
    scripts: dict[Snippet, object] = {}
    for page in pages:
        for item in page.items:
            if item.dialect is slurm.SLURM and item.level not in static.UNCHECKED:
                scripts[static.snippet_of(item)] = item
    for path, name in files:
        if path.suffix == ".sbatch":
            scripts[Snippet(path.read_text(encoding="utf-8"), whole=True)] = name
    sound = [one for one in scripts if not list(slurm.own_rules(one))]
    if not sound:
        return
    why = sandbox.unusable() or requirements.missing("slurm")
    if why:
        message = f"{len(sound)} batch scripts were not held against a Slurm: {why}"
        yield Finding("sbatch --test-only", 0, 0, "not-run", "notice", message)
        return
    for snippet, problem in ask(sound, cache):
        place = scripts[snippet]
        if isinstance(place, str):
            yield Finding(place, problem.line, 0, problem.rule, problem.severity, problem.message, problem.hint)
        else:
            yield static.finding_of(place, problem)


def ask(snippets: Sequence[Snippet], cache: Cache) -> Iterator[tuple[Snippet, Problem]]:
    """What the lab says; nothing for scripts that it is known to accept."""
    versions = [tools.version("sbatch"), *execute.machinery()]
    keys = {snippet: key_of(lab=snippet.source, versions=versions) for snippet in snippets}
    todo = [snippet for snippet in snippets if not cache.passed(keys[snippet])]
    if not todo:
        return
    mark = f"end-{secrets.token_hex(8)}"
    files = {f"{n}.sbatch": prepare.with_interpreter(snippet.source) for n, snippet in enumerate(todo)}
    steps = "".join(f"sbatch --test-only {name} 2>&1\necho {mark}\n" for name in files)
    start = prepare.in_lab(steps, files, SECONDS * len(todo) * execute.patience())
    result = sandbox.run(start.command, start.files, start.limits, start.beside)
    answers = result.output.split(f"{mark}\n")
    if len(answers) != len(todo) + 1:
        hint = execute.tail(result.output)
        yield todo[0], Problem(0, "run-lab", f"the Slurm lab did not work ({result.ended})", hint)
        return
    for snippet, answer in zip(todo, answers, strict=False):
        problems = [one for one in sbatch.told(answer, snippet) if not quiet(one)]
        if not problems:
            cache.keep(keys[snippet])
        for problem in problems[:1]:  # the rest says it again in other words
            yield snippet, replace(problem, hint=LAB)


def quiet(problem: Problem) -> bool:
    message = problem.message.removeprefix("sbatch says: ")
    return bool(ACCEPTED.match(message) or NOT_OURS.search(message))
