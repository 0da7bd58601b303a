"""The options of sbatch, as `src/common/slurm_opt.c` of Slurm 26.11.0rc1 (commit 284c3b95) lists them.

`--power`, which newer versions dropped, is as in sbatch(1) of 22.05.
"""

from openbook.snippets.dialects.base import words

FLAGS = words(
    "consolidate-segments contiguous external get-user-env help hold ignore-pbs no-requeue overcommit oversubscribe "
    "parsable quiet reboot spread-job spread-segments stepmgr test-only use-min-nodes usage verbose version wait"
)
OPTIONAL = words("exclusive nice no-kill oom-kill-step propagate requeue resv-ports")
VALUED = words(
    "account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment "
    "constraint container container-id context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task "
    "deadline delay-boot dependency distribution error exclude export export-file extra extra-node-info gid "
    "gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name "
    "kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update "
    "mincpus network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node "
    "ntasks-per-socket ntasks-per-tres open-mode output partition power prefer priority profile qos reservation "
    "resources runtime segment signal sockets-per-node switches tasks-per-node thread-spec threads-per-core time "
    "time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap"
)
SHORT = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "D": "chdir",
    "M": "clusters",
    "C": "constraint",
    "S": "core-spec",
    "c": "cpus-per-task",
    "d": "dependency",
    "m": "distribution",
    "e": "error",
    "x": "exclude",
    "B": "extra-node-info",
    "G": "gpus",
    "h": "help",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "L": "licenses",
    "k": "no-kill",
    "F": "nodefile",
    "w": "nodelist",
    "N": "nodes",
    "n": "ntasks",
    "o": "output",
    "O": "overcommit",
    "s": "oversubscribe",
    "p": "partition",
    "q": "qos",
    "Q": "quiet",
    "t": "time",
    "v": "verbose",
    "V": "version",
    "W": "wait",
}
SAME = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
ALL = FLAGS | OPTIONAL | VALUED
ADDED_UP = frozenset({"mail-type", "verbose", "quiet"})  # may be given more than once
COUNTS = words(
    "core-spec cores-per-socket cpus-per-gpu cpus-per-task mincpus ntasks ntasks-per-core ntasks-per-gpu "
    "ntasks-per-node ntasks-per-socket segment sockets-per-node thread-spec threads-per-core"
)
TIMES = frozenset({"time", "time-min"})
SIZES = frozenset({"mem", "mem-per-cpu", "mem-per-gpu", "tmp"})
# sbatch refuses these together: the `fatal(…)` calls of the same file.
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
# Options of srun that people write into batch scripts.
SRUN_ONLY = words("cpu-bind kill-on-bad-exit label mpi multi-prog no-container-mount-home pty unbuffered")


def resolve(name: str) -> str | None:
    """The option that a long name means: getopt_long takes any unambiguous beginning."""
    if name in ALL:
        return SAME.get(name, name)
    like = [option for option in ALL if option.startswith(name)]
    return SAME.get(like[0], like[0]) if len(like) == 1 else None
