"""The command: what it reads, what it prints, how it ends."""

import json
import subprocess
import sys

from openbook import ROOT
from openbook.names import cli

SCRIPT = ROOT / "scripts" / "check_names.py"


def run(*arguments, cwd=ROOT):
    return subprocess.run([sys.executable, SCRIPT, *arguments], cwd=cwd, capture_output=True, text=True)


def test_findings_of_a_folder_as_text_and_json(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\n`NCCL_DEBGU`\n")
    (tmp_path / "b.sbatch").write_text("#!/bin/bash\nsrun --bogus x\n")
    (tmp_path / "c.txt").write_text("NCCL_DEBGU\n")
    done = run(tmp_path, "--format", "json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [(one["path"].rpartition("/")[2], one["line"], one["rule"]) for one in found] == [
        ("a.md", 3, "unknown-variable"),
        ("b.sbatch", 2, "slurm-option"),
    ]
    text = run(".", cwd=tmp_path).stdout
    assert "a.md:3: error [unknown-variable]" in text and "did you mean NCCL_DEBUG" in text


def test_what_a_folder_holds(tmp_path):
    for name in ("a.md", "b.py", "c.yaml", "data/d.md", "assets/e.py", ".hidden/f.md", "g.txt", "__pycache__/h.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [path.name for path in cli.find([tmp_path], tmp_path)] == ["a.md", "b.py", "c.yaml"]


def test_nothing_found(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\n`NCCL_DEBUG`\n")
    done = run(tmp_path / "a.md")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_misuse(tmp_path):
    (tmp_path / "x.rst").write_text("x")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    for argument in (tmp_path / "nothing.md", tmp_path / "x.rst", tmp_path / "bad.md", "--format=xml"):
        done = run(argument)
        assert done.returncode == 2, argument
        assert "Traceback" not in done.stderr
        assert done.stderr.count("error") == 1


def test_pytorch_is_not_imported():
    code = "import sys; from openbook.names import cli; cli.main([]); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
