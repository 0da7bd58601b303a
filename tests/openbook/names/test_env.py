"""Environment variables: what is found, where, and what is left alone."""

import pytest

from openbook.names import env, lists

KNOWN = lists.variables()


def found(document):
    return [(one.line, one.rule, one.target, one.hint) for one in env.check(document, KNOWN)]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_DEBGU", "NCCL_DEBUG"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),  # plural
        ("NCLL_DEBUG", "NCCL_DEBUG"),  # the family itself
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("TORCH_DISTRIBUTED_DEBG", "TORCH_DISTRIBUTED_DEBUG"),
        ("PYTROCH_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
        ("SLURM_JOB_NODELST", "SLURM_JOB_NODELIST"),
        ("HSA_NO_SCRATCH_RECLAIMS", "HSA_NO_SCRATCH_RECLAIM"),
        ("FI_EFA_FORK_SAVE", "FI_EFA_FORK_SAFE"),
        ("HF_HUB_OFFLINES", "HF_HUB_OFFLINE"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("PYTHONUNBUFERED", "PYTHONUNBUFFERED"),
        ("SLURM_JOB_NODELST_HET_GROUP_0", "SLURM_JOB_NODELIST"),
    ],
)
def test_a_misspelt_name_is_found_with_the_right_one(page, wrong, right):
    [(line, rule, target, hint)] = found(page(f"# T\n\nSet\n`{wrong}=1` on all nodes.\n"))
    assert (line, rule, target) == (4, "unknown-variable", wrong)
    assert right in hint


@pytest.mark.parametrize(
    "text",
    [
        *(
            "NCCL_DEBUG",
            "NCCL_*",
            "NCCL_IB_*",
            "TORCH_NCCL_*",
            "NCCL_IB_…",
            "NCCL_IB_<NAME>",
            "NCCL_{ALGO,PROTO}",
            "SLURM_…",
        ),
        *(
            "SLURM_JOB_NODELIST_HET_GROUP_0",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
            "FI_EAGAIN",
        ),
        *(
            "WORLD_SIZE",
            "RANK",
            "CAP_SYS_PTRACE",
            "MODEL_CARD",
            "IBV_WC_RETRY_EXC_ERR",
            "NCCL_PARAM(",
            "PYTHON",
            "NCCL",
        ),
        *("SLURM_LAB_DIR", "my_NCCL_DEBGU", "xNCCL_DEBGU"),
    ],
)
def test_real_names_beginnings_and_other_words_are_left_alone(page, text):
    assert found(page(f"# T\n\n`{text}`\n")) == []


def test_a_beginning_that_nothing_has(page):
    assert found(page("# T\n\n`NCCL_FOO_*` and `NCCL_IB_*`\n"))[0][2] == "NCCL_FOO_"


def test_prose_logs_comments_and_output_are_not_read(page):
    text = (
        "# T\n\nNCCL_DEBGU in prose, <!-- `NCCL_DEBGU` -->.\n\n```text\nNCCL_DEBGU set\n```\n\n"
        "```console\n$ env | grep NCCL\nNCCL_DEBGU=INFO\n```\n\n```diff\n-NCCL_DEBGU\n```\n"
    )
    assert found(page(text)) == []


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("bash", "export NCCL_DEBGU=INFO"),
        ("bash", 'echo "${NCCL_DEBGU:-}"'),
        ("console", "$ NCCL_DEBGU=INFO \\\n    torchrun train.py\noutput"),
        ("slurm", "#!/bin/bash\nexport NCCL_DEBGU=INFO"),
        ("dockerfile", "FROM x\nENV NCCL_DEBGU=INFO"),
        ("yaml", "env:\n  - name: NCCL_DEBGU"),
        ("python", 'import os\nos.environ["NCCL_DEBGU"] = "INFO"'),
        ("python", "x = 1  # see NCCL_DEBGU"),
        ("cuda", 'auto x = getenv("NCCL_DEBGU");'),
    ],
)
def test_fences_are_read_also_in_lists_and_boxes(page, language, code):
    document = page(f"# T\n\n!!! note\n\n    - in a list\n\n        ```{language}\n{indented(code)}\n        ```\n")
    lines = {line for line, rule, target, _ in found(document) if target == "NCCL_DEBGU"}
    assert lines == {8 + next(n for n, line in enumerate(code.split("\n")) if "DEBGU" in line)}


def indented(code):
    return "\n".join("        " + line for line in code.split("\n"))


def test_code_names_of_programs_are_no_variables(page, program):
    assert found(page('# T\n\n```python\nNCCL_NAMES = ("a",)\n```\n\n```c\nif (x == NCCL_WHATEVER) {}\n```\n')) == []
    assert found(program("SLURM_NAMES = {}\nprint(SLURM_NAMES)\n")) == []


def test_programs_are_read_with_their_lines(program):
    source = '"""Help.\n\nSet NCCL_DEBGU.\n"""\nimport os\n\nvalue = os.environ.get("SLURM_PROCIDD", f"{os}")\n'
    assert [(line, name) for line, _, name, _ in found(program(source))] == [(3, "NCCL_DEBGU"), (7, "SLURM_PROCIDD")]
    assert [line for line, *_ in found(program("#!/bin/bash\nexport NCCL_DEBGU=1\n", "job.sbatch"))] == [2]


def test_an_old_name_points_to_the_new_one(page):
    [(line, rule, target, _)] = found(page("# T\n\n```bash\nexport NCCL_ASYNC_ERROR_HANDLING=1\n```\n"))
    assert (line, rule, target) == (4, "old-variable", "NCCL_ASYNC_ERROR_HANDLING")
    [finding] = env.check(page("# T\n\n`NCCL_ASYNC_ERROR_HANDLING`\n"), KNOWN)
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in finding.message


def test_an_old_name_beside_the_new_one_is_fine(page):
    assert found(page("# T\n\n`PYTORCH_ALLOC_CONF`, before 2.9 `PYTORCH_CUDA_ALLOC_CONF`\n")) == []


def test_what_has_no_effect_may_be_told_but_not_set(page):
    assert found(page("# T\n\n`TORCH_NCCL_ABORT_IN_DESTROY_PG` is gone.\n")) == []
    document = page("# T\n\n```bash\nexport TORCH_NCCL_ABORT_IN_DESTROY_PG=1\n```\n")
    assert [rule for _, rule, *_ in found(document)] == ["old-variable"]


def test_outside_the_families_only_what_a_shell_sets_is_compared(page):
    assert [t for _, _, t, _ in found(page("# T\n\n```bash\nexport WORLD_SIZES=8\n```\n"))] == ["WORLD_SIZES"]
    assert found(page("# T\n\n`WORLD_SIZES`\n\n```bash\nexport RUN_DIR=/x\n```\n")) == []


def test_a_variable_of_the_script_itself(page):
    assert found(page('# T\n\n```bash\nSRUN_ARGS="-l -K1"\nsrun ${SRUN_ARGS} x\n```\n')) == []
    exported = page('# T\n\n```bash\nexport SRUN_ARGS="-l"\nsrun ${SRUN_ARGS} x\n```\n')
    assert [target for _, _, target, _ in found(exported)] == ["SRUN_ARGS"] * 2
    later = page("# T\n\n```bash\nSRUN_ARGS=-l\nexport SRUN_ARGS\nsrun $SRUN_ARGS x\n```\n")
    assert [line for line, *_ in found(later)] == [4, 5, 6]
    unread = page("# T\n\n```bash\nNCCL_DEBGU=INFO\npython x.py\n```\n")
    assert [target for _, _, target, _ in found(unread)] == ["NCCL_DEBGU"]


def test_a_misspelt_family_in_a_program(program):
    [(line, _, target, hint)] = found(program('import os\nos.environ["NCLL_DEBUG"] = "INFO"\n'))
    assert (line, target) == (2, "NCLL_DEBUG") and "NCCL_DEBUG" in hint


def test_code_blocks_are_no_inline_code(page):
    assert found(page("# T\n\nText:\n\n    NCCL_DEBGU\n\n<pre><code>NCCL_DEBGU</code></pre>\n")) == []


def test_the_line_is_that_of_the_inline_code(page):
    document = page("# T\n\n```text\nNCCL_DEBGU\n```\n\nSee `NCCL_DEBGU`.\n")
    assert [line for line, *_ in found(document)] == [7]


def test_each_of_two_places_is_told(page):
    document = page("# T\n\n`NCCL_DEBGU`\n\n- again `NCCL_DEBGU`\n\n`NCCL_DEBGU_X`\n")
    assert [(line, name) for line, _, name, _ in found(document)] == [
        (3, "NCCL_DEBGU"),
        (5, "NCCL_DEBGU"),
        (7, "NCCL_DEBGU_X"),
    ]
