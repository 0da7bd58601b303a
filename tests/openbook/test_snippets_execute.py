"""Fences that run: exit codes, output, sessions, limits, and what is kept of a pass."""

import shutil

import pytest

from openbook.render import Renderer
from openbook.snippets import execute, requirements, sandbox
from openbook.snippets.cache import Cache
from openbook.snippets.collect import collect

needs_sandbox = pytest.mark.skipif(bool(sandbox.unusable()), reason=f"needs bubblewrap: {sandbox.unusable()}")
needs_slurm = pytest.mark.skipif(bool(requirements.missing("slurm")), reason=requirements.missing("slurm") or "-")
CONFIG = """site_name: Test
markdown_extensions: [attr_list, pymdownx.highlight, pymdownx.snippets, pymdownx.superfences]
"""


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    root = tmp_path_factory.mktemp("site")
    (root / "docs").mkdir()
    (root / "mkdocs.yml").write_text(CONFIG)
    (root / "docs" / "helper.py").write_text("ANSWER = 42\n")
    return Renderer(root / "mkdocs.yml")


def pages(renderer, text):
    page = renderer.docs / "index.md"
    page.write_text(text)
    collected = collect(renderer, page, "index.md")
    assert collected.findings == []
    return [collected]


@pytest.fixture
def run(renderer, tmp_path):
    return lambda text: list(execute.run_all(pages(renderer, text), Cache(tmp_path / "cache")))


def rules(findings):
    return [(found.rule, found.line) for found in findings]


@needs_sandbox
@pytest.mark.parametrize(
    "text",
    [
        "```python {check=run}\nprint('a')\n```\n",
        "```python {check=run}\nprint('took 3 s')\n```\n\n```text {.output}\ntook ... s\n```\n",
        "```python {check=run exit=3}\nimport sys\nsys.exit(3)\n```\n",
        "```python {check=run}\nimport helper\nassert helper.ANSWER == 42\n```\n",
        "```bash {check=run exit=1}\nset -e\nfalse\necho never\n```\n",
        "```bash {check=run}\necho a; echo b >&2\n```\n\n```text {.output}\na\nb\n```\n",
        "```console {check=run}\n$ echo a \\\n    b\na b\n$ cat <<EOF\n> x\n> EOF\nx\n$ true\n```\n",
        "```console {check=run}\n$ X=1\n$ cd /tmp\n$ echo $X $PWD\n1 /tmp\n$ false\n$ echo $?\n1\n```\n",
        "```console {check=run exit=7}\n$ echo a\na\n$ bash -c 'exit 7'\n```\n",
        "```pycon {check=run}\n>>> {3: 1,\n...  4: 2}\n{3: ..., 4: 2}\n>>> 1 / 0\nTraceback (most recent call last):\n"
        "ZeroDivisionError: division by zero\n```\n",
        "```python {check=run session=a}\nx = 1\n```\n\n```text {.output}\n```\n\n```python {check=run session=b}\n"
        "x = 2\n```\n\n```python {check=run session=a}\nprint(x, __name__)\n```\n\n```text {.output}\n1 __main__\n```\n",
        "```python {check=run session=a exit=1}\nx = 1\nraise ValueError\n```\n\n```python {check=run session=a}\nx\n```\n",
        "```bash {check=run session=a}\nX=1\ncd /tmp\n```\n\n```console {check=run session=a}\n$ echo $X $PWD\n1 /tmp\n```\n",
        "```pycon {check=run session=a}\n>>> x = 1\n```\n\n```pycon {check=run session=a}\n>>> x\n1\n```\n",
        "```python\nraise SystemExit(1)  # not asked to run\n```\n",
        "```python {check=compile}\nraise SystemExit(1)\n```\n",
    ],
)
def test_passes(run, text):
    assert run(text) == []


@needs_sandbox
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\n\n```python {check=run}\nx = 1\n\nraise ValueError(x)\n```\n", ("run-exit", 6)),
        ("```python {check=run exit=2}\nx = 1\n```\n", ("run-exit", 1)),
        ("```python {check=run}\nprint(1)\n```\n\n```text {.output}\n2\n```\n", ("run-output", 5)),
        ("```python {check=run}\nprint(1)\n```\n\n```text {.output}\n```\n", ("run-output", 5)),
        ("```bash {check=run}\ntrue\nset -u\necho $none\n```\n", ("run-exit", 4)),
        ("```console {check=run}\n$ true\n$ echo a\nb\n```\n", ("run-output", 3)),
        ("```console {check=run}\n$ true\n$ false\n$ true\n```\n", ("run-exit", 3)),
        ("```console {check=run}\n$ true\n$ exit 0\n$ true\n```\n", ("run-exit", 4)),
        ("```pycon {check=run}\n>>> 1\n1\n>>> 2\n3\n```\n", ("run-exit", 4)),
        ("```bash {check=run timeout=0.5}\nsleep 30\n```\n", ("run-timeout", 1)),
        ("```bash {check=run}\nyes\n```\n", ("run-output", 1)),
        (
            "```python {check=run session=a}\nx = 1\n```\n\n```python {check=run session=a}\ny = 1\nx / 0\n```\n\n"
            "```python {check=run session=a}\nraise\n```\n",
            ("run-exit", 7),
        ),
        (
            "```bash {check=run session=a}\ntrue\n```\n\n```bash {check=run session=a timeout=0.3}\nsleep 99\n```\n",
            ("run-timeout", 5),
        ),
    ],
)
def test_fails(run, text, found, monkeypatch):
    monkeypatch.setattr("openbook.snippets.contract.TIMEOUT", 3.0)
    assert rules(run(text)) == [found]


@needs_sandbox
def test_the_finding_shows_what_was_printed(run):
    (found,) = run("```python {check=run}\nraise ValueError('this')\n```\n")
    assert "ValueError: this" in found.hint
    (found,) = run("```bash {check=run}\necho printed\n```\n\n```text {.output}\nexpected\n```\n")
    assert "-expected" in found.hint
    assert "+printed" in found.hint


@needs_sandbox
def test_c_compiles(run):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc: sudo apt-get install gcc")
    assert run("```c {check=compile}\nint main(void) { return 0; }\n```\n") == []
    assert rules(run("```c {check=compile}\nint main(void) {\n  return x;\n}\n```\n")) == [("run-exit", 3)]


@needs_sandbox
def test_cuda_compiles(run):
    why = requirements.missing("cuda")
    if why:
        monkeyed = run("```cuda {check=compile}\n__global__ void f() {}\n```\n")
        assert [(found.rule, found.severity) for found in monkeyed] == [("not-run", "notice")]
        return
    assert run("```cuda {check=compile timeout=60}\n__global__ void f() {}\n```\n") == []
    assert rules(run("```cuda {check=compile timeout=60}\n__global__ void f() {\n  x;\n}\n```\n")) == [("run-exit", 3)]


RANKS = """```python {check=run ranks=3}
import os, sys, time
rank = int(os.environ["RANK"])
time.sleep(0.2 * (3 - rank))
print(rank, os.environ["WORLD_SIZE"])
```

```text {.output}
0 3
1 3
2 3
```
"""


@needs_sandbox
def test_ranks_are_processes_whose_outputs_come_in_order(run):
    assert run(RANKS) == []
    assert rules(run(RANKS.replace("2 3\n```", "2 4\n```"))) == [("run-output", 8)]


@needs_sandbox
def test_a_rank_that_fails_ends_the_others(run):
    text = RANKS.replace("print(rank", "if rank == 1: sys.exit(5)\ntime.sleep(60)\nprint(rank")
    (found,) = run(text.split("```text")[0])
    assert (found.rule, found.message) == ("run-exit", "exit code 5, not 0")


@needs_sandbox
def test_ranks_talk_to_each_other_with_gloo(run):
    pytest.importorskip(
        "torch", reason="needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    text = """```python {check=run ranks=2 timeout=90}
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor(float(dist.get_rank() + 1))
dist.all_reduce(total)
print(dist.get_rank(), total.item())
dist.destroy_process_group()
```

```text {.output}
0 3.0
1 3.0
```
"""
    assert run(text) == []


JOB = """```slurm {check=run}
#SBATCH --nodes=2 --ntasks-per-node=2 --output=elsewhere-%j.log
echo "nodes $SLURM_JOB_NUM_NODES"
srun bash -c 'echo task $SLURM_PROCID' | sort
```

```text {.output}
nodes 2
task 0
...
task 3
```
"""


@needs_sandbox
@needs_slurm
def test_a_batch_script_is_submitted_and_its_output_compared(run):
    assert run(JOB) == []
    assert rules(run(JOB.replace("task 3", "task 4"))) == [("run-output", 7)]


@needs_sandbox
@needs_slurm
def test_a_job_has_an_exit_code_and_sees_nothing_of_the_host(run, tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    text = f"```slurm {{check=run exit=3}}\n#SBATCH --nodes=1\ncat {tmp_path}/secret /etc/shadow\nexit 3\n```\n"
    assert run(text) == []
    (found,) = run(text.replace("exit=3", "exit=0"))
    assert found.rule == "run-exit"
    assert "hunter2" not in found.hint
    assert "No such file" in found.hint


def test_without_slurm_a_job_is_not_run(renderer, tmp_path, monkeypatch):
    monkeypatch.setattr(requirements, "DAEMONS", ("slurmctld-of-nowhere",))
    monkeypatch.setattr(sandbox, "unusable", lambda: "")
    monkeypatch.setattr(sandbox, "run", lambda *_, **__: pytest.fail("it ran"))
    found = list(execute.run_all(pages(renderer, JOB), Cache(tmp_path)))
    assert [(one.rule, one.severity) for one in found] == [("not-run", "notice")]
    assert "sudo apt-get install" in found[0].message


@needs_sandbox
def test_a_pass_is_kept_a_failure_is_not(renderer, tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    good = pages(renderer, "```bash {check=run}\necho a\n```\n\n```text {.output}\na\n```\n")
    assert list(execute.run_all(good, cache)) == []
    assert len(list(cache.folder.iterdir())) == 1
    bad = pages(renderer, "```bash {check=run}\necho a\n```\n\n```text {.output}\nb\n```\n")
    assert rules(execute.run_all(bad, cache)) == [("run-output", 5)]
    assert len(list(cache.folder.iterdir())) == 1
    monkeypatch.setattr(sandbox, "run", lambda *_, **__: pytest.fail("it ran again"))
    again = pages(renderer, "moved\n\n```bash {check=run}\necho a\n```\n\n```text {.output}\na\n```\n")
    assert list(execute.run_all(again, cache)) == []


@needs_sandbox
@pytest.mark.parametrize("change", ["source", "output", "exit", "timeout", "beside", "version"])
def test_whatever_a_result_depends_on_is_in_its_key(renderer, monkeypatch, change):
    text = "```bash {check=run exit=0 timeout=9}\necho a\n```\n\n```text {.output}\na\n```\n"

    def key(text):
        (process,) = execute.processes(pages(renderer, text)[0])
        parts = [unit for item in process.items for unit in execute.units(item)]
        return execute.key(process, parts, execute.beside(process.folder))

    before = key(text)
    assert key(text) == before
    if change == "beside":
        helper = renderer.docs / "helper.py"
        helper.write_text("ANSWER = 43\n")
        after = key(text)
        helper.write_text("ANSWER = 42\n")
    elif change == "version":
        monkeypatch.setattr(execute, "installed", lambda: ["other 1.0"])
        after = key(text)
    else:
        old, new = {"source": ("echo a", "echo  a"), "output": ("\na\n", "\nb\n")}.get(
            change, (f"{change}=", f"{change}=1")
        )
        after = key(text.replace(old, new))
    assert after != before


def test_without_a_sandbox_nothing_runs(renderer, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "unusable", lambda: "no bubblewrap")
    monkeypatch.setattr(sandbox, "run", lambda *_, **__: pytest.fail("it ran"))
    (found,) = execute.run_all(pages(renderer, "```bash {check=run}\nfalse\n```\n"), Cache(tmp_path))
    assert (found.rule, found.severity, found.line) == ("not-run", "notice", 1)
    assert "no bubblewrap" in found.message


@needs_sandbox
def test_what_a_machine_lacks_is_no_mistake_of_the_page(run, monkeypatch):
    text = "```bash {check=run}\necho \"ModuleNotFoundError: No module named 'torch'\"\nexit 1\n```\n"
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda name: None)
    (found,) = run(text)
    assert (found.rule, found.severity) == ("not-run", "notice")
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda name: object())
    assert rules(run(text)) == [("run-exit", 1)]


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    cache.keep("key")
    assert not cache.passed("key")
