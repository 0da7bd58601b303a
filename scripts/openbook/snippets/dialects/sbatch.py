"""What sbatch itself says about a script, with no cluster: `--test-only` and an invented slurm.conf.

It parses every option before it looks for the controller, which it does not find.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from openbook.snippets import tools
from openbook.snippets.dialects import slurm_options as options
from openbook.snippets.dialects.base import Problem, Snippet

CONFIG = """\
ClusterName=nowhere
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
MessageTimeout=1
AuthType=auth/none
SlurmUser=root
GresTypes=gpu
SelectType=select/cons_tres
NodeName=node[1-1024] CPUs=64
PartitionName=main Nodes=ALL Default=YES
"""
# About the missing cluster, not about the script.
NO_CLUSTER = re.compile(r"says: .*(?:controller|configuration source|SelectType|plugin|resolve|munge|auth)", re.I)


def ask_all(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    """Errors that sbatch reports; none where it is not installed."""
    program = tools.where("sbatch")  # a second opinion: nobody has to have it
    if program is None or not snippets:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slurm.conf").write_text(CONFIG, encoding="utf-8")
        numbered = list(enumerate(snippets))
        answers = tools.together(lambda one: ask(program, folder, *one), numbered)
        for snippet, problems in zip(snippets, answers, strict=True):
            for problem in problems:
                yield snippet, problem


def ask(program: str, folder: Path, number: int, snippet: Snippet) -> list[Problem]:
    """What it says of one script; it names no lines, so the option's name finds them."""
    script = folder / f"{number}.sbatch"
    start = "" if snippet.source.startswith("#!") else "#!/bin/bash\n"
    script.write_text(f"{start}{snippet.source}\n", encoding="utf-8")
    done = tools.call([program, "--test-only", str(script)], env={"SLURM_CONF": str(folder / "slurm.conf")})
    return [problem for problem in told(done.stderr, snippet) if not NO_CLUSTER.search(problem.message)]


def told(stderr: str, snippet: Snippet) -> list[Problem]:
    """Its messages about one script, but for options that this sbatch is too old for."""
    problems = []
    for message in re.findall(r"^(?:sbatch: (?:error: |fatal: )?|allocation failure: )(.+)$", stderr, re.M):
        newer = re.match(r"unrecognized option '--([\w-]+)", message)
        if not (newer and options.resolve(newer[1])):
            line = line_of(message, snippet.source)
            problems.append(Problem(line, "slurm-sbatch", f"sbatch says: {message}"))
    return problems


def line_of(message: str, source: str) -> int:
    names = re.findall(r"--([\w-]+)", message)
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("#SBATCH") and any(re.search(rf"--{re.escape(name)}\b", line) for name in names):
            return number
    return 0
