"""space_report.py: counts what a directory holds as quotas do, and changes nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/space_report.py"


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def report(*arguments) -> dict:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "scratch"
    for name, size in (
        ("run1/step10/__0_0.distcp", 300_000),
        ("run1/step10/rank/deep/optim.pt", 100_000),
        ("home/.cache/pip/http/a/b", 20_000),
        ("home/core.4711", 50_000),
        ("data/train.tar", 200_000),
        *((f"data/images/{number}.jpg", 100) for number in range(40)),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    old = time.time() - 200 * 86400
    os.utime(root / "data/train.tar", (old, old))
    return root


def named(rows: list[dict]) -> dict:
    return {row["name"]: row for row in rows}


def test_agrees_with_du(tree):
    found = report(tree)
    own = tree.stat().st_blocks * 512  # du counts the directory itself
    du = subprocess.run(["du", "-s", "-B1", tree], capture_output=True, text=True).stdout.split()[0]
    assert found["bytes"] == int(du) - own
    inodes = subprocess.run(["du", "-s", "--inodes", tree], capture_output=True, text=True).stdout.split()[0]
    assert found["files"] == int(inodes) - 1
    assert found["small_files"] == 40


def test_directories_are_told_apart_to_the_depth(tree):
    shallow = named(report(tree, "--depth", 1)["directories_by_files"])
    assert set(shallow) == {"run1", "home", "data"}
    deep = named(report(tree, "--depth", 2, "--top", 50)["directories_by_files"])
    assert deep["data/images"]["files"] == 41  # with the directory itself
    assert "run1/step10/rank" not in deep


def test_kinds_name_what_usually_fills_a_quota(tree):
    kinds = named(report(tree)["kinds"])
    assert kinds["checkpoints"]["files"] == 2
    assert kinds["core dumps"]["files"] == 1
    assert kinds["caches (pip, uv, Hugging Face, Triton, …)"]["files"] == 1
    assert kinds["archives and shards"]["files"] == 1
    assert kinds["pictures and samples"]["files"] == 40


def test_hard_links_count_once_and_links_are_not_followed(tree):
    before = report(tree)
    os.link(tree / "data/train.tar", tree / "data/again.tar")
    (tree / "data/elsewhere").symlink_to("/usr")
    after = report(tree)
    assert after["further_names"] == 1
    assert after["files"] == before["files"] + 1
    assert after["apparent_bytes"] < before["apparent_bytes"] + 10_000


def test_sparse_files_count_what_they_occupy(tree):
    before = report(tree)["bytes"]
    with open(tree / "sparse.bin", "wb") as stream:
        stream.truncate(1 << 30)
    found = report(tree)
    assert found["bytes"] < before + 1_000_000
    assert found["apparent_bytes"] > 1 << 30


def test_the_list_has_the_old_files_only_and_nothing_is_removed(tree, tmp_path):
    names = tmp_path / "old.txt"
    found = report(tree, "--older", 90, "--list", names)
    assert names.read_text().splitlines() == [str(tree / "data/train.tar")]
    assert found["old"]["files"] == 1
    assert (tree / "data/train.tar").exists()
    assert named(found["ages"])["to a year"]["files"] == 1
    assert run(tree, "--older", 90, "--list", names).returncode == 2  # would overwrite


def test_a_name_with_a_line_break_cannot_smuggle_a_path_into_the_list(tree, tmp_path):
    old = time.time() - 200 * 86400
    strange = tree / "data/x\nevil"
    strange.write_text("")
    os.utime(strange, (old, old))
    done = run(tree, "--older", 90, "--list", tmp_path / "old.txt")
    assert done.returncode == 2
    assert "line break" in done.stderr
    assert not (tmp_path / "old.txt").exists()


def test_names_that_are_not_text_are_shown(tree):
    with open(os.fsencode(tree) + b"/caf\xe9.tar", "wb") as stream:
        stream.write(os.urandom(900_000))
    done = run(tree)
    assert done.returncode == 0, done.stderr
    assert r"caf\udce9.tar" in done.stdout


def test_deleted_files_that_are_still_open_are_found(tree):
    with open(tree / "data/log", "wb") as stream:
        stream.write(os.urandom(123_000))
        stream.flush()
        os.fsync(stream.fileno())
        os.unlink(tree / "data/log")
        held = [row for row in report(tree, "--open")["held_open"] if row["path"] == str(tree / "data/log")]
    assert held[0]["pids"] == [os.getpid()]
    assert held[0]["bytes"] >= 123_000


@pytest.mark.parametrize(("limit", "code"), [(["--most-files", 10], 1), (["--most-files", 10_000], 0),
                                             (["--most-bytes", "100K"], 1), (["--most-bytes", "1G"], 0)])  # fmt: skip
def test_limits_decide_the_exit_code(tree, limit, code):
    done = run(tree, *limit)
    assert done.returncode == code
    assert ("over the limit" in done.stdout) == bool(code)


def test_the_rate_is_kept(tree):
    start = time.monotonic()
    found = report(tree, "--rate", 100)
    assert found["files"] >= 50
    assert time.monotonic() - start >= 0.5  # 50 entries at 100 a second


@pytest.mark.parametrize("arguments", [["/nowhere"], [".", "--older", "90"], [".", "--rate", "0"],
                                       [".", "--most-bytes", "lots"], []])  # fmt: skip
def test_misuse_is_told(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_directory_that_cannot_be_read_is_told(tree):
    if os.geteuid() == 0:  # root reads everything: ask as somebody else
        asked = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for one in [tree, *tree.parents]:
            if str(one).startswith("/tmp/"):
                one.chmod(0o755)
    else:
        asked = []
    (tree / "home").chmod(0)
    program = tree.parent / PROGRAM.name
    program.write_bytes(PROGRAM.read_bytes())
    done = subprocess.run([*asked, "/usr/bin/python3", program, tree], capture_output=True, text=True)
    (tree / "home").chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert f"not counted: {tree}/home: Permission denied" in done.stdout


def test_a_reader_may_leave_early(tree):
    done = subprocess.run(f"{sys.executable} {PROGRAM} {tree} | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""
