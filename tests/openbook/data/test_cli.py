"""The command line: exit codes, formats, and what it finds on pages."""

import json
import subprocess
import sys

import pytest

from openbook import ROOT
from openbook.data import cli
from openbook.findings import run


def check(*arguments, cwd=ROOT):
    command = [sys.executable, str(ROOT / "scripts" / "check_figures.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def file(tmp_path, topic):
    made = tmp_path / "chips.yml"
    made.write_text(topic)
    return made


def test_a_right_file_is_fine(file):
    done = check(file, "--today", "2026-12-01")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 topics with 11 figures" in done.stderr


def test_a_finding_has_file_line_and_exit_code_1(file, topic):
    file.write_text(topic.replace("value: 80,", "value: .inf,"))
    done = check(file.name, "--today", "2026-12-01", cwd=file.parent)
    assert done.returncode == 1
    assert done.stdout.startswith("chips.yml:33:28: error [bad-number] .inf is not a number")


@pytest.mark.parametrize("format", ["json", "github"])
def test_formats(file, topic, format):
    file.write_text(topic.replace("value: 80,", "value: 80, unit: W,"))
    done = check(file, "--format", format, "--today", "2026-12-01")
    assert done.returncode == 1
    if format == "json":
        (finding,) = map(json.loads, done.stdout.splitlines())
        assert (finding["rule"], finding["line"], finding["path"]) == ("wrong-unit", 33, str(file))
    else:
        assert done.stdout.startswith("::error file=")


@pytest.mark.parametrize("arguments", [["nowhere"], ["--today", "soon"], ["--bad"], [str(ROOT / "pyproject.toml")]])
def test_misuse(arguments):
    done = check(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


PAGE = """\
# Page

Text with [[chips.one.bf16_dens]] and
[[chips.one.fp4_dense]].

!!! note

    ```figures
    topic: chips
    columns: [bf16_dense, nothing]
    sort: memory
    caption: Peaks
    color: red
    ```

```figures {width=3}
topic: chips
```

```figures
topic: chips
columns: [bf16_dense, released]
caption: Peaks
```
"""


def test_mistakes_on_a_page_have_its_lines(file, monkeypatch, capsys):
    from openbook.data import load

    monkeypatch.setattr(load, "FOLDER", file.parent)
    page = file.parent / "page.md"
    page.write_text(PAGE)
    assert run(cli.main, [str(page), "--format", "json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(f["line"], f["rule"]) for f in found] == [
        (3, "unknown-figure"),
        (4, "unknown-figure"),
        (10, "unknown-column"),
        (11, "unknown-column"),
        (13, "unknown-field"),
        (16, "unknown-attribute"),
        (17, "missing-field"),
        (17, "missing-field"),
    ]
    assert "did you mean 'bf16_dense'" in found[0]["message"]
    assert "no fp4 in the hardware" in found[1]["message"]


def test_the_book_itself():
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
