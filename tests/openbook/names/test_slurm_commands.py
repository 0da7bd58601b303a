"""Options of Slurm's commands, states and reasons."""

import pytest

from openbook.names import slurm_commands, slurm_names


def found(document):
    return [(one.line, one.rule, one.message, one.hint) for one in slurm_commands.check(document)]


def messages(text):
    return [message for call in slurm_commands.calls(text) for _, message, _ in slurm_commands.problems(call)]


@pytest.mark.parametrize(
    "text",
    [
        "srun -N2 --ntasks-per-node 8 -l --mpi=pmix python train.py --bogus -Zz",
        "srun --container-image=img --container-mounts=/a:/b ./x",
        "srun --jobid=\"$JOB\" --overlap --pty bash -c 'x --foo'",
        "srun --exclusive=user --exclusive --label ./x",
        "srun --ntasks-per-n=8 ./x",  # an unambiguous beginning
        'squeue --me -o "%i %T" --sort=-p; squeue -u "$USER" -t PD,R --states=all',
        "sinfo -R -N -l | grep --count drain",
        "scontrol show job 12 --details && sacct -j 12 -X --format=JobID,State -s oom",
        "scancel --signal=USR1 --batch 12",
        "echo srun --foo; man srun; # srun --foo",
        "# nothing; srun --foo\n  # or $(srun --foo)",
        "sbatch --$OPTION job.sh; srun --<OPTION> x; srun --… x; salloc --{a,b}=1",
        "mysrun --foo; srun-wrapper --foo; ./x srun --foo",
        "salloc --power=x",  # of 22.05, which readers still have
    ],
)
def test_what_is_right_or_not_slurms(text):
    assert messages(text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("srun --ntask-per-node=8 ./x", "srun has no option --ntask-per-node"),
        ("FOO=1 /usr/bin/srun --ntasks-per-nodes 8 ./x", "srun has no option --ntasks-per-nodes"),
        ("x=$(sbatch --parsble job.sh)", "sbatch has no option --parsble"),
        ('x="$(scontrol --future2 show node)"', "scontrol has no option --future2"),
        ("if squeue --mee; then", "squeue has no option --mee"),
        ("sbatch --dependency=afterok:$(sbatch --parsble a.sh) b.sh", "sbatch has no option --parsble"),
        ("squeue -h | xargs x; sinfo --noheadr", "sinfo has no option --noheadr"),
        ("srun --hold=3 x", "--hold of srun takes no value"),
        ("sacct -lZ", "sacct has no option -Z"),
        ("squeue --states=COMPLETEING", "no job has the state COMPLETEING"),
        ("squeue -t PD,RUNING", "no job has the state RUNING"),
        ("srun \\\n  --label \\\n  --bogus \\\n  x", "srun has no option --bogus"),
    ],
)
def test_what_a_command_does_not_take(text, message):
    assert messages(text) == [message]


def test_options_end_at_the_command_to_run():
    assert messages("srun -n 2 --label ./train --bogus") == []
    assert messages("squeue 5 --bogus") == ["squeue has no option --bogus"]
    assert messages("srun --nodes 2 --bogus ./train") == ["srun has no option --bogus"]


def test_places_and_hints_on_a_page(page):
    text = (
        "# T\n\nUse `srun --ntask-per-node=8` and `#SBATCH --gpu-per-node=8`.\n\n"
        "- x\n\n    ```console\n    $ squeue --mee\n    squeue --zzz\n    ```\n\n```text\n$ srun --bogus\n```\n\n"
        "Held by `(Resorces)`, `(Priority)`, `(Something)`.\n"
    )
    lines = [(line, rule) for line, rule, *_ in found(page(text))]
    assert sorted(lines) == [(3, "slurm-option"), (3, "slurm-option"), (8, "slurm-option"), (16, "slurm-reason")]
    hints = {message: hint for _, _, message, hint in found(page(text))}
    assert "--ntasks-per-node" in hints["srun has no option --ntask-per-node"]
    assert "Resources" in hints["squeue has no reason Resorces"]


def test_the_lists_hold_what_everybody_uses():
    for name in slurm_names.command_names():
        command = slurm_names.command(name)
        assert "help" in command.options or name == "sattach", name
        assert all(option.value in ("", "VALUE", "[VALUE]") for option in command.options.values())
    assert slurm_names.command("sbatch").shorts["J"].name == "job-name"
    assert slurm_names.command("srun").options["mpi"].value == "VALUE"
    assert slurm_names.states()["OUT_OF_MEMORY"] == "OOM"
    assert {"Priority", "Resources", "ReqNodeNotAvail", "QOSMaxJobsPerUserLimit"} <= slurm_names.reasons()
