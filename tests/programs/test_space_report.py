"""space_report.py: counts what a directory holds as quotas do, and changes nothing."""

import importlib.util
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
    strange = tree / "data/x\nevil"
    strange.write_text("")
    os.utime(strange, (1e9, 1e9))
    done = run(tree, "--older", 90, "--list", tmp_path / "old.txt")
    assert done.returncode == 0
    assert "1 more have a line break" in done.stdout
    assert (tmp_path / "old.txt").read_text() == f"{tree}/data/train.tar\n"


def test_the_list_has_every_name_of_a_file_that_has_several(tree, tmp_path):
    os.link(tree / "data/train.tar", tree / "data/again.tar")
    found = report(tree, "--older", 90, "--list", tmp_path / "old.txt")
    names = {str(tree / "data/train.tar"), str(tree / "data/again.tar")}
    assert set((tmp_path / "old.txt").read_text().splitlines()) == names
    assert found["old"]["bytes"] < 300_000  # once


def test_a_list_that_cannot_be_written_is_told_before_the_walk(tree):
    done = run(tree, "--rate", 1, "--older", 90, "--list", tree / "nowhere/old.txt")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_a_full_disk_costs_the_list_but_not_the_report(tree, tmp_path):
    for number in range(40):  # half a name would be that of something else
        os.utime(tree / f"data/images/{number}.jpg", (0, 0))
    command = ["bash", "-c", 'ulimit -f 1; exec "$@"', "-", sys.executable, PROGRAM, tree, "--older", "90", "--list"]
    done = subprocess.run([*command, tmp_path / "old.txt"], capture_output=True, text=True)
    assert done.returncode == 2 and "most bytes" in done.stdout and "old.txt" not in done.stdout
    assert "no list was written" in done.stderr and not (tmp_path / "old.txt").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written(tree):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, PROGRAM, tree], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_the_place_of_the_directory_does_not_decide_the_kind(tmp_path):
    root = tmp_path / "checkpoints" / "runs" / "set"
    root.mkdir(parents=True)
    (root / "a.jpg").write_bytes(b"1")
    assert set(named(report(root)["kinds"])) == {"pictures and samples"}


def test_names_cannot_write_to_the_terminal(tree):
    (tree / "data/\x1b[31mred\rx").write_bytes(os.urandom(900_000))
    assert "\x1b" not in run(tree).stdout
    assert r"\x1b[31mred\rx" in run(tree).stdout


def load():
    spec = importlib.util.spec_from_file_location("space_report", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_slow_server_delayed_is_not_made_up_for_by_a_burst(tree, monkeypatch):
    program, clock, waits = load(), [0.0], []

    def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(program.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(program.time, "sleep", sleep)
    found = (str(tree / "data/train.tar"), os.stat(tree / "data/train.tar"))

    def entries(*_):
        for number in range(200):
            clock[0] += 100 if number == 60 else 0  # the server stands still
            yield found

    monkeypatch.setattr(program, "entries", entries)
    program.walk(str(tree), program.Report(str(tree), 2, None), 100)
    assert waits == pytest.approx([0.5, 0, 0.5, 0.5])


def mounted(*arguments):
    if subprocess.run(["mount", *map(str, arguments)], capture_output=True).returncode:
        pytest.skip("needs the right to mount: run as root")


def test_a_bind_mount_counts_once(tree):
    before = report(tree)
    (tree / "twice").mkdir()
    mounted("--bind", tree / "data", tree / "twice")
    try:
        after = report(tree)
    finally:
        subprocess.run(["umount", tree / "twice"], check=True)
    assert (after["files"], after["bytes"]) == (before["files"], before["bytes"])


def test_another_file_system_is_left_out_and_named(tree):
    before = report(tree)
    (tree / "other").mkdir()
    mounted("-t", "tmpfs", "none", tree / "other")
    try:
        (tree / "other/file").write_bytes(b"1" * 10_000)
        after = report(tree)
        shown = run(tree).stdout
    finally:
        subprocess.run(["umount", tree / "other"], check=True)
    assert after["files"] == before["files"]
    assert after["other_file_systems"] == [str(tree / "other")]
    assert f"another file system, not counted: {tree}/other" in shown


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


@pytest.mark.parametrize("mode", [0o000, 0o444])  # 0o444: the names can be read, what is behind them cannot
def test_a_directory_that_cannot_be_read_is_told(tree, mode):
    if os.geteuid() == 0:  # root reads everything: ask as somebody else
        asked = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for one in [tree, *tree.parents]:
            if str(one).startswith("/tmp/"):
                one.chmod(0o755)
    else:
        asked = []
    (tree / "home").chmod(mode)
    program = tree.parent / PROGRAM.name
    program.write_bytes(PROGRAM.read_bytes())
    done = subprocess.run([*asked, "/usr/bin/python3", program, tree, "--open"], capture_output=True, text=True)
    (tree / "home").chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"not counted: {tree}/home: Permission denied") == 1
    if asked:
        assert "processes of others were not asked" in done.stdout


def test_many_refused_directories_do_not_bury_the_report(tree, monkeypatch, capsys):
    program = load()
    monkeypatch.setattr(program, "entries", lambda root, report: report.unreadable.extend(map(str, range(50))) or [])
    assert program.main([str(tree), "--top", "3"]) == 0
    assert capsys.readouterr().out.count("not counted: ") == 4  # three, and how many more


def test_a_reader_may_leave_early(tree):
    done = subprocess.run(f"{sys.executable} {PROGRAM} {tree} | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""
