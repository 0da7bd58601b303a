"""The command: what it prints, its exit codes, and that it runs from anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbook import ROOT

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

SCRIPT = ROOT / "scripts" / "check_links.py"
CONFIG = "site_name: Small\nsite_url: https://x.example/\nmarkdown_extensions: [attr_list]\n"


def run(*arguments: str | Path, cwd: Path, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [*prefix, sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env, timeout=60)


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


BROKEN = {"site/index.html": "<main>\n<a href='no.html'>x</a>\n</main>"}


def test_findings_as_json_lines_from_another_folder(tmp_path):
    put(tmp_path, BROKEN)
    done = run("--site", tmp_path / "site", "--format", "json", cwd=Path("/"))
    assert done.returncode == 1
    (finding,) = map(json.loads, done.stdout.splitlines())
    assert finding == {
        "path": str(tmp_path / "site/index.html"),
        "line": 2,
        "column": 10,
        "rule": "missing-target",
        "severity": "error",
        "message": "the link to no.html leads nowhere: no.html is not in the site",
        "hint": "",
        "target": "no.html",
    }


def test_paths_are_relative_to_the_working_directory(tmp_path):
    put(tmp_path, BROKEN)
    done = run("--site", "site", cwd=tmp_path)
    assert done.stdout.startswith("site/index.html:2:10: error [missing-target] the link to no.html")
    assert done.stderr == "1 pages, 1 links: 1 findings\n"


def test_annotations(tmp_path):
    put(tmp_path, BROKEN)
    done = run("--site", "site", "--format", "github", cwd=tmp_path)
    assert done.stdout.startswith("::error file=site/index.html,line=2,col=10,title=missing-target::the link")
    assert done.returncode == 1


def test_a_site_without_faults(tmp_path):
    put(tmp_path, {"site/index.html": "<p>x"})
    done = run("--site", "site", "--format", "json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--site", "none"], "none does not exist"),
        (["--site", "file"], "file is a file"),
        (["--site", "bare"], "bare has no HTML page"),
        (["--site", "latin"], "latin/index.html is not UTF-8"),
        (["--site", "empty"], "empty/index.html is empty"),
        (["--site", "folder"], "folder/index.html is a folder"),
        (["--site", "dangling"], "dangling/index.html cannot be read"),
        (["--site", "good", "--config", "none.yml"], "none.yml cannot be read"),
        (["--site", "good", "--config", "bad.yml"], "bad.yml:1: not valid YAML"),
        (["--site", "good", "--config", "latin.yml"], "latin.yml is not UTF-8"),
        (["--site", "good", "--record-anchors"], "--record-anchors needs the book"),
        (["--config", "unbuildable.yml"], "the book does not build"),
        (["--format", "xml"], "invalid choice"),
        (["extra"], "unrecognized arguments"),
        (["--sit", "good"], "unrecognized arguments"),
    ],
)
def test_misuse_is_said_and_gives_two(tmp_path, arguments, message):
    put(tmp_path, {"file": "x", "bare/x.txt": "x", "latin/index.html": b"caf\xe9", "empty/index.html": ""})
    put(tmp_path, {"folder/index.html/x.html": "x", "good/index.html": "<p>x", "bad.yml": "a: [", "latin.yml": b"\xe9"})
    put(tmp_path, {"unbuildable.yml": "site_name: x\nplugins: [no-such-plugin]\n", "docs/index.md": "x"})
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling/index.html").symlink_to("nowhere")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_page_without_permission(tmp_path):
    put(tmp_path, {"site/index.html": "<p>x"})
    (tmp_path / "site/index.html").chmod(0)
    # root reads every file, unless it gives up the capabilities to do so
    ordinary = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    done = run("--site", "site", cwd=tmp_path, prefix=ordinary)
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


def test_file_names_that_cannot_be_printed(tmp_path):
    put(tmp_path, {"mkdocs.yml": CONFIG, "docs/index.md": "x", "site/index.html": "<p>x"})
    for folder in (b"docs", b"site"):
        with open(os.fsencode(tmp_path) + b"/" + folder + b"/\xff.csv", "w"):
            pass
    done = run("--site", "site", cwd=tmp_path)
    assert done.returncode == 1
    assert "orphan-file" in done.stdout


def test_the_book_of_the_working_directory_is_used_only_for_its_own_site(tmp_path):
    put(tmp_path, {"mkdocs.yml": CONFIG, "docs/index.md": "\n\n[x](no.html)", "docs/a.md": "", "docs/b.md": ""})
    put(tmp_path, {"own/index.html": "<main><a href='no.html'>x</a>", "own/a/index.html": "<p>x"})
    put(tmp_path, {"other/index.html": "<main><a href='no.html'>x</a>"})
    assert run("--site", "own", cwd=tmp_path).stdout.startswith("docs/index.md:3:5: ")
    assert run("--site", "other", cwd=tmp_path).stdout.startswith("other/index.html:1:16: ")


def test_the_book_is_built_when_no_site_is_given(tmp_path):
    pytest.importorskip("mkdocs", reason="needs MkDocs: pip install -e .")
    config = CONFIG.replace("[attr_list]", "[attr_list, pymdownx.snippets: {check_paths: true}]")
    put(tmp_path, {"mkdocs.yml": config, "docs/index.md": "# T { #t }\n\n[x](no.md)\n", "docs/sub/a.md": "# A\n"})
    put(tmp_path, {"part.md": "\n[y](gone.md)\n", "docs/b.md": '# B\n\n--8<-- "part.md"\n'})
    done = run(cwd=tmp_path)
    assert done.stdout.startswith("docs/index.md:3:5: error [missing-target]"), done.stderr
    assert "part.md:2:5: error [missing-target]" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "mkdocs.yml", "part.md"]
    done = run("--config", tmp_path / "mkdocs.yml", "--record-anchors", cwd=Path("/"))
    assert done.returncode == 1
    assert (tmp_path / "docs/data/anchors.txt").read_text() == "b#b\nindex#t\nsub/a#a\n"
    assert "3 anchors added" in done.stderr


def test_help_needs_nothing_installed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", SCRIPT, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "--record-anchors" in done.stdout
