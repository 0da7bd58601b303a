"""Batch scripts: what sbatch would refuse, ignore or change without a word."""

import shutil

import pytest

from openbook.snippets.dialects import slurm, slurm_options
from openbook.snippets.dialects.base import Snippet

needs_sbatch = pytest.mark.skipif(
    shutil.which("sbatch") is None, reason="needs sbatch: sudo apt-get install slurm-client"
)


def own(source, **options):
    return [(problem.line, problem.rule) for problem in slurm.own_rules(Snippet(source, **options))]


@pytest.mark.parametrize(
    "source",
    [
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n\n# why\n#SBATCH --time=1-12:00:00\nsrun hostname",
        "#SBATCH -N 2 -n 16 -t 30  # two nodes\n#SBATCH -pgpu\n#SBATCH --job-name='my job'",
        ["#SBATCH --exclusive", "#SBATCH --exclusive=user", ""][0],
        "#SBATCH --signal=B:USR1@120 --open-mode=append --requeue",
        "#SBATCH --mail-type=END\n#SBATCH --mail-type=FAIL",
        "#SBATCH --output=%x-%j.out --array=0-9%2 --gres=gpu:h100:8",
        "#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2",
        "#SBATCH --time=UNLIMITED --mem=0",
        "##SBATCH --nodes=4  (switched off)",
        "# sbatch reads this file",
        "#SBATCH --cpus-per-t=4",
        "#SBATCH --ntasks=16 --nodes=2-4",
        "#SBATCH --tasks-per-node=8 --nodes=2 --ntasks=16",
    ],
)
def test_sound(source):
    assert own(source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("#!/bin/bash\nset -e\n\n#SBATCH --nodes=2", [(4, "slurm-ignored-directive")]),
        ("#SBATCH --nodez=2", [(1, "slurm-unknown-option")]),
        ("#SBATCH -Z 2", [(1, "slurm-unknown-option"), (1, "slurm-directive")]),
        ("#SBATCH --cpu-bind=cores", [(1, "slurm-unknown-option")]),
        ("#SBATCH --time=12h", [(1, "slurm-time")]),
        ("#SBATCH -t 1:2:3:4", [(1, "slurm-time")]),
        ("#SBATCH --time=1-", [(1, "slurm-time")]),
        ("#SBATCH --nodes=2\n#SBATCH -N 4", [(2, "slurm-duplicate")]),
        ("#SBATCH --ntasks-per-node=2 --tasks-per-node=2", [(1, "slurm-duplicate")]),
        ("#SBATCH --mem=4G\n#SBATCH --mem-per-cpu=1G", [(2, "slurm-combination")]),
        ("#SBATCH --exclusive\n#SBATCH --oversubscribe", [(2, "slurm-combination")]),
        ("#SBATCH --gres=gpu:8\n#SBATCH --gpus-per-node=8", [(2, "slurm-combination")]),
        ("#SBATCH --nodes=4\n#SBATCH --ntasks=2", [(2, "slurm-combination")]),
        ("#SBATCH --nodes=2 --ntasks=17 --ntasks-per-node=8", [(1, "slurm-combination")]),
        ("#SBATCH --nodes = 2", [(1, "slurm-value")]),
        ("#SBATCH --nodes", [(1, "slurm-value")]),
        ("#SBATCH --exclusive --requeue --hold=yes", [(1, "slurm-value")]),
        ("#SBATCH --job-name=my job", [(1, "slurm-directive")]),
        ('#SBATCH --job-name="open', [(1, "slurm-directive")]),
        ("#SBATCH --output=$SCRATCH/log", [(1, "slurm-value")]),
        ("#SBATCH --mem=64 GB", [(1, "slurm-directive")]),
        ("#SBATCH --mem=64Q", [(1, "slurm-value")]),
        ("#SBATCH --cpus-per-task=${N}", [(1, "slurm-value")]),
        ("#SBATCH --cpus-per-task=all", [(1, "slurm-value")]),
        ("# SBATCH --nodes=2", [(1, "slurm-not-directive")]),
        ("#sbatch --nodes=2", [(1, "slurm-not-directive")]),
    ],
)
def test_mistakes(source, found):
    assert own(source) == found


def test_a_file_needs_an_interpreter_line():
    assert own("#SBATCH --nodes=2\nhostname", whole=True) == [(1, "slurm-shebang")]
    assert own("#!/bin/bash\n#SBATCH --nodes=2\nhostname", whole=True) == []


def test_shell_rules_hold_too():
    rules = [problem.rule for _, problem in slurm.check([Snippet("#!/bin/bash\n#SBATCH --nodes=2\nif true; then\n")])]
    assert rules == ["shell-syntax"]


def test_options_are_consistent():
    assert set(slurm_options.SHORT.values()) <= slurm_options.ALL
    named = {name for pair in slurm_options.EXCLUSIVE for name in pair}
    assert named | slurm_options.COUNTS | slurm_options.TIMES | slurm_options.SIZES <= slurm_options.ALL
    assert not slurm_options.FLAGS & slurm_options.VALUED
    assert slurm_options.resolve("n") is None


@needs_sbatch
def test_sbatch_is_asked():
    bad = Snippet("# a comment\n#SBATCH --nodes=2\n#SBATCH --signal=B:USR9@10\nhostname")
    good = Snippet("#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8 --gpus-per-task=1 --time=1:00:00\nhostname")
    newer = Snippet("#SBATCH --segment=4\nhostname")
    found = [(snippet, problem.line, problem.rule) for snippet, problem in slurm.check([good, bad, newer])]
    assert found == [(bad, 3, "slurm-sbatch")]
