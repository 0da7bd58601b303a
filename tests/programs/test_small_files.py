"""small_files.py: writes what it says, measures each stage, and leaves nothing behind."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/small_files.py"


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def report(*arguments) -> dict:
    result = run(*arguments, "--json", "--yes")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_writes_nothing_without_yes(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 0
    assert "--yes" in result.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("threads", [1, 4])
def test_every_stage_is_measured_and_all_is_removed(tmp_path, threads):
    found = report(tmp_path, "--files", 1200, "--size", "5Ki", "--threads", threads)
    assert list(found["seconds"]["files"]) == ["create", "list", "stat", "read", "read_again", "remove"]
    assert list(found["seconds"]["tar"]) == ["create", "read", "read_again", "remove"]
    assert all(took > 0 for kind in found["seconds"].values() for took in kind.values())
    assert found["size"] == 5120
    assert found["bytes_on_disk"]["tar"] >= 1200 * (5120 + 512)
    assert not list(tmp_path.iterdir())


def test_kept_files_hold_what_the_tar_holds_and_are_read_later(tmp_path):
    kept = Path(report(tmp_path, "--files", 30, "--size", 700, "--keep")["kept"])
    files = sorted((kept / "small").glob("*/*.bin"))
    assert [path.stat().st_size for path in files] == [700] * 30
    assert len({path.read_bytes() for path in files}) > 1
    listed = subprocess.run(["tar", "-tvf", kept / "samples.tar"], capture_output=True, text=True)
    assert listed.stdout.count(" 700 ") == 30
    found = report(kept, "--kept")
    assert found["files"] == 30
    assert "create" not in found["seconds"]["files"]
    assert found["target_hours"] == pytest.approx(1e6 * found["seconds"]["files"]["read"] / 30 / 3600)
    assert not kept.exists()


def test_the_table_names_the_rates(tmp_path):
    result = run(tmp_path, "--files", 50, "--size", "1K", "--yes")
    assert "read_again" in result.stdout
    assert "50 inodes" in result.stdout
    assert "1,000,000 such files" in result.stdout


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--size", "0"], "not a size"),
        (["--size", "3G"], "not a size"),
        (["--files", "0"], "whole number"),
        (["--files", "-1"], "--files"),
        (["--keep", "--kept"], "one of them"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path, wrong, message):
    result = run(tmp_path, *wrong)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_too_little_room_is_seen_before_writing(tmp_path):
    spec = importlib.util.spec_from_file_location("small_files", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.check_room(module.parse([str(tmp_path), "--files", "10"]))
    with pytest.raises(module.Misuse, match="GB are needed"):  # asked directly: nothing could be written
        module.check_room(module.parse([str(tmp_path), "--files", "10000000", "--size", "1000M"]))


def test_no_such_directory_and_a_foreign_directory(tmp_path):
    (tmp_path / "precious").write_text("stays")
    assert run(tmp_path / "nowhere", "--yes").returncode == 2
    result = run(tmp_path, "--kept", "--yes")
    assert result.returncode == 2
    assert "--keep" in result.stderr
    assert (tmp_path / "precious").read_text() == "stays"
