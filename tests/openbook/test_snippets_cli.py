"""check_snippets.py as people call it."""

import json
import os
import subprocess
import sys

import pytest

from openbook import ROOT
from openbook.snippets import levels

SCRIPT = ROOT / "scripts" / "check_snippets.py"
CONFIG = "site_name: Test\nmarkdown_extensions: [attr_list, pymdownx.highlight, pymdownx.superfences]\n"


def call(*arguments, cwd=None, env=None):
    """Without the package on the path: the script finds it beside itself."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | (env or {})
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "docs" / "part").mkdir(parents=True)
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    (tmp_path / "docs" / "index.md").write_text("# A\n\n```python {check=lint .annotate}\nprint('ä')\n```\n")
    (tmp_path / "docs" / "part" / "page.md").write_text("```bash\nls\n```\n")
    return tmp_path


def test_list_as_json(site):
    done = call("--list", "--format", "json", "--config", "mkdocs.yml", cwd=site)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "path": "docs/index.md",
            "start": 3,
            "end": 5,
            "language": "python",
            "attributes": {"check": "lint"},
            "classes": ["annotate"],
            "source": "print('ä')",
        },
        {
            "path": "docs/part/page.md",
            "start": 1,
            "end": 3,
            "language": "bash",
            "attributes": {},
            "classes": [],
            "source": "ls",
        },
    ]


def test_a_page_outside_of_docs_from_anywhere(site, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "page.md").write_text("text\n\n```bash\nif\n```\n")
    done = call("page.md", "--config", site / "mkdocs.yml", "--format", "json", cwd=elsewhere)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["path"], found["line"], found["rule"]) == ("page.md", 4, "shell-syntax")
    assert call("--list", elsewhere / "page.md", cwd="/").stdout.startswith(f"{elsewhere}/page.md:3-5:"[1:])


def test_a_list_that_is_not_whole_says_so(site):
    extensions = "[pymdownx.superfences, pymdownx.snippets: {check_paths: true}]"
    (site / "mkdocs.yml").write_text(f"site_name: Test\nmarkdown_extensions: {extensions}\n")
    (site / "docs" / "index.md").write_text('--8<-- "absent.py"\n')
    done = call("--list", "--config", "mkdocs.yml", cwd=site)
    assert done.returncode == 1
    assert "page.md:1-3" in done.stdout
    assert "[render-error]" in done.stderr
    assert "absent.py" in done.stderr


def test_findings_and_table(site):
    (site / "docs" / "part" / "job.sbatch").write_text("#!/bin/bash\nset -e\n#SBATCH --nodes=2\n")
    (site / "docs" / "part" / "run.sh").write_text("if\n")
    done = call("--config", "mkdocs.yml", cwd=site)
    assert done.returncode == 1
    assert "docs/part/job.sbatch:3: error [slurm-ignored-directive]" in done.stdout
    assert "docs/part/run.sh:" in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["all", "2", "1", "1"]
    assert (
        "::error file=docs/part/job.sbatch,line=3"
        in call("--config", "mkdocs.yml", "--format", "github", cwd=site).stdout
    )
    only = call("--config", "mkdocs.yml", "docs/part/job.sbatch", "--format", "json", cwd=site)
    assert [json.loads(line)["path"] for line in only.stdout.splitlines()] == ["docs/part/job.sbatch"]


def test_nothing_found(site):
    done = call("--config", "mkdocs.yml", cwd=site)
    assert (done.returncode, done.stderr) == (0, "")
    done = call("--config", "mkdocs.yml", "--format", "json", cwd=site)
    assert (done.returncode, done.stdout) == (0, "")


def test_nothing_runs_unless_asked(site):
    (site / "docs" / "index.md").write_text("```bash {check=run}\nfalse\n```\n")
    assert call("--config", "mkdocs.yml", cwd=site).returncode == 0
    done = call("--config", "mkdocs.yml", "--run", cwd=site)
    assert "run-exit" in done.stdout or "not-run" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.md"], "absent.md: no such file"),
        (["--config", "absent.yml"], "no configuration"),
        (["--config", "broken.yml"], "site_name"),
        (["latin.md"], "not UTF-8"),
        (["latin.sh"], "not UTF-8"),
        (["empty"], "no pages"),
        (["--format", "xml"], "invalid choice"),
        (["--frobnicate"], "unrecognized"),
    ],
)
def test_misuse(site, arguments, said):
    (site / "latin.md").write_bytes(b"caf\xe9")
    (site / "latin.sh").write_bytes(b"caf\xe9")
    (site / "broken.yml").write_text("docs_dir: docs\n")
    (site / "empty").mkdir()
    done = call(*(arguments if "--config" in arguments else ["--config", "mkdocs.yml", *arguments]), cwd=site)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_nothing():
    done = call("--help")
    assert done.returncode == 0
    assert "Exit code" in done.stdout


def test_without_the_environment():
    done = subprocess.run([sys.executable, "-S", str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "missing" in done.stderr


def test_skips_may_only_fall(tmp_path):
    baseline = tmp_path / "skips.txt"
    baseline.write_text("# comment\n2 docs/a.md\n1 docs/b.md  # why\n")
    assert levels.allowed(baseline) == {"docs/a.md": 2, "docs/b.md": 1}

    def rules(counts):
        return [(found.rule, found.path) for found in levels.compare(counts, levels.allowed(baseline), "skips.txt")]

    assert rules({"docs/a.md": 2, "docs/b.md": 1}) == []
    assert rules({"docs/a.md": 3, "docs/b.md": 1}) == [("more-skips", "docs/a.md")]
    assert rules({"docs/a.md": 2, "docs/b.md": 1, "docs/c.md": 1}) == [("more-skips", "docs/c.md")]
    assert rules({"docs/a.md": 2}) == [("fewer-skips", "skips.txt")]
    baseline.write_text("two docs/a.md\n")
    with pytest.raises(levels.Misuse, match=r"skips\.txt:1"):
        levels.allowed(baseline)
