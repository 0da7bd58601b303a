"""checkpoint_writer.py: crashes, damage and full disks never cost the last good checkpoint."""

import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/checkpoint_writer.py"


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, **options)


def write(root: Path, step: int, *more, **options) -> subprocess.CompletedProcess:
    common = ["--shards", 2, "--size", "300K", "--yes", "--json"]
    return run("write", root, "--step", step, *common, *more, **options)


def saved(root: Path, *steps: int) -> Path:
    """A root with checkpoints of these steps."""
    for step in steps:
        result = write(root, step, "--keep", 9)
        assert result.returncode == 0, result.stdout + result.stderr
    return root


def names(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir())


def resume(root: Path) -> str:
    result = run("latest", root)
    assert result.returncode == 0, result.stdout
    return Path(result.stdout.strip()).name


def test_writes_nothing_without_yes(tmp_path):
    result = run("write", tmp_path / "ck", "--step", 1)
    assert result.returncode == 0
    assert "--yes" in result.stdout
    assert not (tmp_path / "ck").exists()


def test_written_checkpoint_verifies_and_is_timed(tmp_path):
    result = write(tmp_path, 100, "--read-back")
    report = json.loads(result.stdout)
    assert report["bytes"] == 600_000
    assert report["seconds"]["total"] >= report["seconds"]["data"] > 0
    assert names(tmp_path) == ["latest", "step-00000100"]
    assert names(tmp_path / "step-00000100") == ["manifest.json", "shard-00000.bin", "shard-00001.bin"]
    assert run("verify", tmp_path).returncode == 0
    assert run("verify", tmp_path / "step-00000100").returncode == 0
    assert resume(tmp_path) == "step-00000100"


def test_sizes_beyond_one_block_and_crc32(tmp_path):
    result = write(tmp_path, 1, "--size", "9Mi", "--checksum", "crc32", "--no-fsync")
    assert json.loads(result.stdout)["fsync"] is False
    assert (tmp_path / "step-00000001/shard-00000.bin").stat().st_size == 9 * 2**20
    assert run("verify", tmp_path).returncode == 0


@pytest.mark.parametrize("moment", ["1", "400K", "manifest"])
def test_kill_during_a_write_leaves_the_previous_checkpoint(tmp_path, moment):
    saved(tmp_path, 100)
    result = write(tmp_path, 200, "--die-after", moment)
    assert result.returncode == -signal.SIGKILL
    assert any(name.startswith(".partial-step-00000200") for name in names(tmp_path))
    assert resume(tmp_path) == "step-00000100"
    assert run("verify", tmp_path).returncode == 0
    # The restarted job writes the same step again, and clears the leftover away.
    saved(tmp_path, 200)
    assert names(tmp_path) == ["latest", "step-00000100", "step-00000200"]


def test_kill_between_rename_and_pointer_leaves_both_good(tmp_path):
    saved(tmp_path, 100)
    assert write(tmp_path, 200, "--die-after", "rename").returncode == -signal.SIGKILL
    assert (tmp_path / "latest").read_text().strip() == "step-00000100"
    assert resume(tmp_path) == "step-00000100"
    assert run("verify", tmp_path).returncode == 0
    (tmp_path / "latest").unlink()
    assert resume(tmp_path) == "step-00000200"


def flip(path: Path) -> None:
    with open(path, "r+b") as stream:
        stream.seek(1000)
        byte = stream.read(1)
        stream.seek(1000)
        stream.write(bytes([byte[0] ^ 1]))


DAMAGE = {
    "flipped": (flip, "sha256 differs"),
    "truncated": (lambda path: os.truncate(path, 1000), "1000 bytes, the manifest says 300000"),
    "missing": (Path.unlink, "No such file"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_resume_falls_back(tmp_path, kind):
    damage, message = DAMAGE[kind]
    saved(tmp_path, 100, 200)
    victim = tmp_path / "step-00000200/shard-00001.bin"
    damage(victim)
    result = run("verify", tmp_path)
    assert result.returncode == 1
    assert f"{victim}: {message}" in result.stdout
    assert "step-00000100: ok" in result.stdout
    assert "shard-00000" not in result.stdout
    quick = run("verify", tmp_path / "step-00000200", "--quick", "--json")
    assert json.loads(quick.stdout)["ok"] is (kind == "flipped")  # sizes do not show a flipped bit
    assert resume(tmp_path) == "step-00000100"


def test_damaged_manifest_is_told_from_a_damaged_shard(tmp_path):
    saved(tmp_path, 100)
    manifest = tmp_path / "step-00000100/manifest.json"
    manifest.write_text(manifest.read_text().replace('"bytes": 300000', '"bytes": 300001', 1))
    result = run("verify", tmp_path)
    assert result.returncode == 1
    assert f"{manifest}: damaged" in result.stdout
    assert run("latest", tmp_path).returncode == 1


def test_unreadable_manifest_does_not_stop_the_search(tmp_path):
    """EIO and EACCES come as OSError, as a directory in the manifest's place does."""
    saved(tmp_path, 100, 200)
    manifest = tmp_path / "step-00000200/manifest.json"
    manifest.unlink()
    manifest.mkdir()
    assert resume(tmp_path) == "step-00000100"
    assert f"{manifest}: Is a directory" in run("verify", tmp_path).stdout


def test_ctrl_c_stops_at_once_and_costs_no_checkpoint(tmp_path):
    saved(tmp_path, 100)
    arguments = ["write", tmp_path, "--step", "200", "--shards", "2", "--size", "100G", "--skip-space-check", "--yes"]
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))}
    process = subprocess.Popen([sys.executable, PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, **limit)
    while not list(tmp_path.glob(".partial-*/shard-*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors.startswith("interrupted") and "Traceback" not in errors
    assert resume(tmp_path) == "step-00000100"


def test_foreign_leftovers_are_left_alone(tmp_path):
    (tmp_path / ".partial-step-mine").mkdir()
    saved(tmp_path, 100)
    assert names(tmp_path) == [".partial-step-mine", "latest", "step-00000100"]


def test_retention_keeps_the_newest_and_the_milestones(tmp_path):
    for step in (100, 150, 200, 250):
        report = json.loads(write(tmp_path, step, "--keep", 2, "--keep-every", 100).stdout)
    assert report["removed"] == ["step-00000150"]
    assert names(tmp_path) == ["latest", "step-00000100", "step-00000200", "step-00000250"]


def test_retention_does_not_count_a_damaged_checkpoint(tmp_path):
    saved(tmp_path, 100, 200)
    os.truncate(tmp_path / "step-00000200/shard-00000.bin", 1)
    report = json.loads(write(tmp_path, 300, "--keep", 2).stdout)
    assert report["removed"] == ["step-00000200"]
    assert names(tmp_path) == ["latest", "step-00000100", "step-00000300"]


def test_full_disk_is_refused_before_anything_is_written(tmp_path):
    saved(tmp_path, 100)
    result = write(tmp_path, 200, "--size", "1000T")
    assert result.returncode == 1
    assert "nothing written" in result.stdout
    assert names(tmp_path) == ["latest", "step-00000100"]


def test_error_in_the_middle_of_a_write_cleans_up(tmp_path):
    """A file size limit stands in for a quota: both appear in the middle of a write."""
    saved(tmp_path, 100)
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))}
    result = write(tmp_path, 200, **limit)
    assert result.returncode == 1
    assert "earlier checkpoints are untouched" in result.stdout
    assert names(tmp_path) == ["latest", "step-00000100"]
    assert resume(tmp_path) == "step-00000100"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a small file system: run as root with CAP_SYS_ADMIN")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.root  # who alone can mount one
def test_no_space_left_on_device(small_disk):
    saved(small_disk, 100)
    result = write(small_disk, 200, "--size", "1M", "--skip-space-check")
    assert result.returncode == 1
    assert "No space left on device" in result.stdout
    assert names(small_disk) == ["latest", "step-00000100"]
    assert resume(small_disk) == "step-00000100"


def test_everything_is_durable_before_it_is_visible(tmp_path, monkeypatch):
    """A kill cannot show a missing fsync, so the order of the calls is recorded."""
    spec = importlib.util.spec_from_file_location("checkpoint_writer", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls = []

    def record(name, describe):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a: (calls.append(describe(*a)), original(*a))[1])

    def opened(descriptor):
        return re.sub(r"[-.]\d+(\.tmp)?$", "", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    record("fsync", lambda descriptor: f"fsync {opened(descriptor)}")
    record("rename", lambda _, new: f"rename {Path(new).name}")
    record("replace", lambda _, new: f"replace {Path(new).name}")
    argv = ["checkpoint_writer.py", "write", str(tmp_path / "root"), "--step", "7", "--size", "9K", "--shards", "1"]
    monkeypatch.setattr(sys, "argv", [*argv, "--yes"])
    assert module.main() == 0
    assert calls == [
        "fsync shard-00000.bin",
        "fsync .manifest.json",
        "replace manifest.json",
        "fsync .partial-step-00000007",
        "rename step-00000007",
        "fsync root",
        "fsync .latest",
        "replace latest",
        "fsync root",
    ]


def test_misuse_exits_2_without_a_traceback(tmp_path):
    saved(tmp_path, 100)
    cases = [
        ["write", tmp_path, "--step", "100", "--yes"],  # exists: never overwritten in place
        ["write", tmp_path, "--step", "0"],
        ["write", tmp_path, "--step", "200", "--size", "much"],
        ["write", tmp_path, "--step", "200", "--die-after", "soon", "--yes"],
        ["write", tmp_path, "--step", "200", "--shards", "100000", "--size", "1K", "--yes"],
        ["verify", tmp_path / "nowhere"],
        [],
    ]
    for case in cases:
        result = run(*case)
        assert result.returncode == 2, case
        assert "error:" in result.stderr
        assert "Traceback" not in result.stderr


def test_nothing_to_resume_from(tmp_path):
    for command in ("verify", "latest"):
        result = run(command, tmp_path)
        assert result.returncode == 1
        assert result.stdout == ""  # a batch script takes it as the name of a checkpoint
        assert str(tmp_path) in result.stderr
