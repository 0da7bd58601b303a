import io
import json
import os
import subprocess
import sys

import pytest

from openbook import ROOT
from openbook.findings import Finding, Misuse, report, run

ERROR = Finding("docs/a.md", 3, 2, "missing-target", "error", "no such page", hint="near: b.md", target="c.md")
NOTICE = Finding("docs/a.md", 0, 0, "not-run", "notice", "no sandbox")


def printed(findings, format):
    out = io.StringIO()
    code = report(findings, format, out)
    return code, out.getvalue()


def test_exit_code_is_one_only_for_more_than_notices():
    assert printed([], "text") == (0, "")
    assert printed([NOTICE], "text")[0] == 0
    assert printed([NOTICE, ERROR], "text")[0] == 1


def test_text_names_the_place_and_the_hint():
    _, text = printed([ERROR, NOTICE], "text")
    assert text.splitlines() == [
        "docs/a.md: notice [not-run] no sandbox",
        "docs/a.md:3:2: error [missing-target] no such page",
        "    near: b.md",
    ]


def test_json_is_one_object_a_line():
    _, text = printed([ERROR], "json")
    assert json.loads(text) == {
        "path": "docs/a.md", "line": 3, "column": 2, "rule": "missing-target", "severity": "error",
        "message": "no such page", "hint": "near: b.md", "target": "c.md",
    }  # fmt: skip


def test_json_keeps_letters_readable():
    assert "größer" in printed([Finding("ä.md", 1, 1, "r", "error", "größer")], "json")[1]


@pytest.mark.parametrize("size", [1, 10**6])
def test_a_reader_that_has_gone_is_no_fault(size):
    program = f"import sys; from openbook.findings import run; sys.exit(run(lambda argv: print('x' * {size}) or 0))"
    done = subprocess.run(
        ["bash", "-c", '{ sleep 0.2; "$0" -c "$1"; } | true; echo "${PIPESTATUS[0]}"', sys.executable, program],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "PYTHONUNBUFFERED": ""},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_github_annotation_cannot_be_broken_by_its_text():
    finding = Finding("a,b:c.md", 1, 0, "r", "error", "50%\n::error::forged")
    _, text = printed([finding], "github")
    assert text == "::error file=a%2Cb%3Ac.md,line=1,title=r::50%25%0A::error::forged\n"


def test_unknown_severity_is_refused():
    with pytest.raises(ValueError, match="severity 'fatal'"):
        Finding("a", 1, 1, "r", "fatal", "m")


def test_misuse_is_one_line_and_exit_code_two(capsys):
    def main(argv):
        raise Misuse("no such file: x.md")

    assert run(main) == 2
    assert capsys.readouterr().err == "error: no such file: x.md\n"
