"""How snippets of each kind are started in the sandbox: the command, its files and its limits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openbook import ROOT
from openbook.snippets import requirements, sandbox
from openbook.snippets.sandbox import Limits

SUFFIX = {
    "python": ".py",
    "pycon": ".pycon",
    "shell": ".sh",
    "c": ".c",
    "cpp": ".cpp",
    "cuda": ".cu",
    "slurm": ".sbatch",
}
COMPILED = ("c", "cpp", "cuda")
DRIVER = Path(__file__).with_name("driver.py")
LAB = ROOT / "docs" / "slurm" / "slurm_lab.py"
LAB_SECONDS = 40  # for its daemons to start and to end
RANK_MEMORY = 512 * sandbox.MB  # what one rank with PyTorch takes, shared libraries counted each time
# munged wants every folder above its socket to be root's, and in the sandbox there is no root.
START_LAB = """mkdir /tmp/bin
printf '#!/bin/sh\\nexec /usr/sbin/munged --force "$@"\\n' > /tmp/bin/munged
chmod +x /tmp/bin/munged
PATH=/tmp/bin:$PATH exec python3 slurm_lab.py run -- bash steps.sh
"""
# `sbatch --wait` looks only every ten seconds. Of an array the highest exit code counts; a signal is 128 and its number.
SUBMIT = """out=/tmp/job.out
if told=$(sbatch --test-only snippet.sbatch 2>&1) &&
    job=$(sbatch --parsable --output=$out --error=$out --open-mode=append snippet.sbatch); then
    while [ -n "$(squeue --noheader --jobs="$job" 2> /dev/null)" ]; do sleep 0.1; done
    code=$(scontrol --oneliner show job "$job" | sed -E 's/.*JobState=(\\S+).* ExitCode=([0-9]+):([0-9]+).*/\\1 \\2 \\3/' |
        awk '{c = $3 ? 128 + $3 : $2; if (!c && $1 != "COMPLETED") c = 1; if (c > most) most = c} END {print most + 0}')
    cat $out 2> /dev/null
else
    code=$?
    echo "$told"
fi
"""


@dataclass(frozen=True)
class Start:
    """`files` stand in the working directory, and so do the files of `beside`, by name."""

    command: list[str]
    files: dict[str, str]
    limits: Limits
    beside: dict[str, Path] = field(default_factory=dict)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def start(kind: str, texts: Sequence[str], mark: str, timeout: float, ranks: int = 0) -> Start:
    """`mark` is printed with the exit code after each text, unless there is one and the process is its own."""
    if kind == "slurm":
        return submit(texts[0], mark, timeout)
    name = f"snippet{SUFFIX[kind]}"
    if ranks:
        driver = DRIVER.read_text(encoding="utf-8")
        limits = Limits(timeout, sandbox.MEMORY + ranks * RANK_MEMORY, sandbox.PROCESSES + 32 * ranks, listens=True)
        return Start(
            ["python3", "driver.py", f"ranks={ranks}", mark, name], {name: texts[0], "driver.py": driver}, limits
        )
    if len(texts) == 1 and kind != "pycon":
        return Start([*program(kind), name], {name: texts[0] + "\n"}, Limits(timeout))
    files = {f"snippet_{n}{SUFFIX[kind]}": text + "\n" for n, text in enumerate(texts, 1)}
    if kind == "shell":
        # The exit code is given back, so that the next command can ask for it.
        show = f"""code=$?; printf '\\n{mark} %d\\n' $code; (exit $code)"""
        lines = [f"trap {quoted(show)} EXIT", *(f". /work/{name}\n{show}" for name in files)]
        return Start(["bash", "session.sh"], {**files, "session.sh": "\n".join(lines)}, Limits(timeout))
    driver = DRIVER.read_text(encoding="utf-8")
    return Start(["python3", "driver.py", kind, mark, *files], {**files, "driver.py": driver}, Limits(timeout))


def program(kind: str) -> list[str]:
    return {
        "python": ["python3"],
        "shell": ["bash"],
        "c": ["gcc", "-fsyntax-only"],
        "cpp": ["g++", "-fsyntax-only"],
        "cuda": [requirements.nvcc() or "nvcc", "-ptx", "-o", "/dev/null"],
    }[kind]


def submit(script: str, mark: str, timeout: float) -> Start:
    """A batch script for the lab: what its job prints, wherever it says that this should go."""
    steps = SUBMIT + f"printf '\\n{mark} %d\\n' $code\n"
    return in_lab(steps, {"snippet.sbatch": with_interpreter(script)}, timeout)


def in_lab(steps: str, files: dict[str, str], timeout: float) -> Start:
    """Shell commands that find a Slurm of four nodes."""
    made = {**files, "steps.sh": steps, "lab.sh": START_LAB}
    limits = Limits(timeout + LAB_SECONDS, processes=512, listens=True)
    return Start(["bash", "lab.sh"], made, limits, {"slurm_lab.py": LAB})


def with_interpreter(script: str) -> str:
    """sbatch wants a first line that a page may leave out."""
    return ("" if script.startswith("#!") else "#!/bin/bash\n") + script + "\n"
