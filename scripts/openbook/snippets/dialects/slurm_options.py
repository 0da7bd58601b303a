"""The options of sbatch, by how they take values: from docs/data/names/slurm/sbatch.txt, which says its source."""

from openbook.names.slurm_names import command


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SBATCH = command("sbatch")
FLAGS, OPTIONAL, VALUED = (
    frozenset(option.name for option in SBATCH.options.values() if option.value == value)
    for value in ("", "[VALUE]", "VALUE")
)
SHORT = {short: option.name for short, option in SBATCH.shorts.items()}
SAME = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
ALL = FLAGS | OPTIONAL | VALUED
ADDED_UP = frozenset({"mail-type", "verbose", "quiet"})  # may be given more than once
COUNTS = words(
    "core-spec cores-per-socket cpus-per-gpu cpus-per-task mincpus ntasks ntasks-per-core ntasks-per-gpu "
    "ntasks-per-node ntasks-per-socket segment sockets-per-node thread-spec threads-per-core"
)
TIMES = frozenset({"time", "time-min"})
SIZES = frozenset({"mem", "mem-per-cpu", "mem-per-gpu", "tmp"})
# sbatch refuses these together: the `fatal(…)` calls of `src/common/slurm_opt.c`.
EXCLUSIVE = (
    ("mem", "mem-per-cpu"),
    ("mem", "mem-per-gpu"),
    ("mem-per-cpu", "mem-per-gpu"),
    ("exclusive", "oversubscribe"),
    ("core-spec", "thread-spec"),
    ("cpus-per-task", "cpus-per-gpu"),
    ("gpus-per-task", "ntasks-per-gpu"),
    ("gpus-per-socket", "ntasks-per-gpu"),
    ("ntasks-per-node", "ntasks-per-gpu"),
    ("tres-per-task", "ntasks-per-gpu"),
)
# Options of srun that people write into batch scripts; the last is a plugin's.
SRUN_ONLY = (command("srun").options.keys() - ALL) | {"no-container-mount-home"}


def resolve(name: str) -> str | None:
    """The option that a long name means: getopt_long takes any unambiguous beginning."""
    option = SBATCH.resolve(name)
    return SAME.get(option.name, option.name) if option else None
