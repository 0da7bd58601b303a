"""What sbatch itself says about a script, with no cluster: `--test-only` and an invented slurm.conf.

It parses every option before it looks for the controller, which it does not find.
"""

import functools
import re
import tempfile
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
NO_CLUSTER = re.compile(r"controller|configuration source|SelectType|plugin|resolve|munge|auth", re.I)


@functools.cache
def folder() -> tempfile.TemporaryDirectory:
    made = tempfile.TemporaryDirectory(prefix="openbook-sbatch-")
    Path(made.name, "slurm.conf").write_text(CONFIG, encoding="utf-8")
    return made


def ask(snippet: Snippet) -> list[Problem]:
    """Errors that sbatch reports; it names no lines, so the option's name finds them."""
    text = snippet.source + "\n"
    if not text.startswith("#!"):
        text = "#!/bin/bash\n" + text
    with tempfile.NamedTemporaryFile("w", suffix=".sbatch", dir=folder().name, encoding="utf-8") as script:
        script.write(text)
        script.flush()
        command = [tools.find("sbatch"), "--test-only", script.name]
        done = tools.call(command, env={"SLURM_CONF": f"{folder().name}/slurm.conf"})
    problems = []
    for message in re.findall(r"^sbatch: (?:error: |fatal: )?(.+)$", done.stderr, re.M):
        newer = re.match(r"unrecognized option '--([\w-]+)", message)
        if NO_CLUSTER.search(message) or (newer and options.resolve(newer[1])):
            continue  # an option that this sbatch is too old for
        problems.append(Problem(line_of(message, snippet.source), "slurm-sbatch", f"sbatch says: {message}"))
    return problems


def line_of(message: str, source: str) -> int:
    names = re.findall(r"--([\w-]+)", message)
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("#SBATCH") and any(re.search(rf"--{re.escape(name)}\b", line) for name in names):
            return number
    return 0
