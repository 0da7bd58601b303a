"""docs/storage/fio_sweep.py and the job files beside it: plans without fio, measures with it, leaves nothing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

STORAGE = Path(__file__).parents[2] / "docs/storage"
PROGRAM = STORAGE / "fio_sweep.py"
JOB_FILES = sorted(STORAGE.glob("*.fio"))
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: sudo apt-get install fio")


def sweep(*options, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, PROGRAM, *map(str, options)], capture_output=True, text=True, timeout=120, **more
    )


def small(folder: Path, *options) -> list:
    common = ["--dir", folder, "--size", "4m", "--runtime", 1, "--depths", "1,4", "--jobs", "1,2", "--yes"]
    return [*common, "--loads", "write:1m,randread:4k", *options]


def document(folder: Path, name: str, megabytes: int, seconds: float, end: float, **job) -> Path:
    """What fio 3.33 writes, cut to what is read."""
    side = {"io_bytes": megabytes * 10**6, "total_ios": megabytes, "runtime": int(seconds * 1000),
            "lat_ns": {}, "clat_ns": {"percentile": {"50.000000": 1000, "99.000000": 2000 * megabytes}}}  # fmt: skip
    one = {"jobname": "page-cache", "job options": {"numjobs": "8"}, "read": {"io_bytes": 0}, "write": side, **job}
    path = folder / name
    path.write_text(json.dumps({"timestamp_ms": int(end * 1000), "global options": {"bs": "1m"}, "jobs": [one]}))
    return path


@pytest.fixture
def no_fio(tmp_path):
    """An environment whose PATH has nothing."""
    return {**os.environ, "PATH": str(tmp_path / "nowhere")}


def test_dry_run_prints_the_commands_without_fio_and_writes_nothing(tmp_path, no_fio):
    result = sweep("--dir", tmp_path, "--dry-run", "--loads", "write:1m,randread:4k", "--jobs", "1,4", env=no_fio)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + 2 * 3 * 2 and "--create_only=1" in lines[0] and "--numjobs=4" in lines[0]
    writes = [line for line in lines if "--rw=write" in line]
    assert len(writes) == 6 and all("--end_fsync=1" in line and "--unlink=1" in line for line in writes)
    assert all("--direct=1" in line and "--lat_percentiles=1" in line for line in lines[1:])
    assert not list(tmp_path.iterdir())
    assert "8.6 GB of" in result.stderr  # 1 GiB for each of 4 jobs, and new files beside them


def test_says_when_fio_is_missing(tmp_path, no_fio):
    result = sweep("--dir", tmp_path, "--yes", env=no_fio)
    assert result.returncode == 2 and "sudo apt-get install fio" in result.stderr


@needs_fio
def test_writes_nothing_without_yes(tmp_path):
    result = sweep("--dir", tmp_path, "--size", "1m")
    assert result.returncode == 2 and "--yes" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dir", "/dev/null", "--yes"], "is a device"),
        (["--dir", PROGRAM, "--yes"], "no directory"),
        (["--dir", "/proc/self", "--yes"], "cannot hold test files"),
        (["--yes"], "--dir is missing"),
        (["--dir", ".", "--size", "900000g", "--yes"], "lower --size"),
        (["--dir", ".", "--metrics", "speed"], "--metrics takes"),
        (["--dir", ".", "--loads", "append:4k"], "PATTERN:BLOCK"),
        (["--dir", ".", "--loads", "read:4x"], "no size"),
        (["--dir", ".", "--depths", "0"], "no list of numbers"),
        (["--dir", ".", "--depths", ",".join(map(str, range(1, 300)))], "more than 500"),
        (["--dir", ".", "--runtime", "-5", "--dry-run"], "--runtime takes"),
        (["--dir", ".", "--at-least", "nan", "--dry-run"], "--at-least a number"),
        (["--read", "/no/such/file"], "No such file"),
        (["--read", PROGRAM], "no JSON document"),
    ],
)
def test_misuse_is_named(options, message, tmp_path):
    result = sweep(*options, cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


@needs_fio
def test_measures_for_real_draws_and_leaves_nothing(tmp_path):
    (tmp_path / "t").mkdir()
    result = sweep(*small(tmp_path / "t", "--json", "--svg", tmp_path / "out.svg", "--metrics", "iops,p50_us"))
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["results"]
    assert [(r["load"], r["depth"], r["jobs"]) for r in rows] == [
        (load, depth, jobs) for load in ("write:1m", "randread:4k") for depth in (1, 4) for jobs in (1, 2)
    ]
    for row in rows:
        assert row["mb_s"] > 0 and row["p999_us"] >= row["p99_us"] >= row["p50_us"] > 0
        block = 2**20 if row["load"] == "write:1m" else 4096
        assert row["bytes"] == row["requests"] * block
        if row["load"] == "write:1m":  # each job its whole file
            assert row["bytes"] == row["jobs"] * 4 * 2**20
    assert not list((tmp_path / "t").iterdir())
    titles = [text.text for text in ET.parse(tmp_path / "out.svg").iter() if text.get("class") == "label-strong"]
    assert titles == ["write:1m: IOPS", "write:1m: median latency, µs", "randread:4k: IOPS",
                      "randread:4k: median latency, µs"]  # fmt: skip


@needs_fio
def test_below_the_accepted_rate_is_a_finding(tmp_path):
    result = sweep(*small(tmp_path, "--depths", 2, "--jobs", 1, "--at-least", 1e9, "--buffered", "--engine", "psync"))
    assert result.returncode == 1 and result.stderr.count("below 1e+09") == 2
    assert "psync keeps one request in flight" in result.stderr
    assert "page cache" in result.stderr  # 8 MB fit into memory


@needs_fio
def test_an_engine_that_is_missing_is_no_question_of_direct_io(tmp_path):
    result = sweep(*small(tmp_path, "--engine", "nonesuch", "--depths", 1, "--jobs", 1))
    assert result.returncode == 1 and "not loadable" in result.stderr and "--buffered" not in result.stderr
    assert not list(tmp_path.iterdir())


@needs_fio
def test_sigterm_removes_the_files(tmp_path):
    line = [sys.executable, PROGRAM, "--dir", tmp_path, "--size", "8m", "--runtime", "60", "--yes"]
    process = subprocess.Popen([*line, "--loads", "randread:4k"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("*/data.*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert not list(tmp_path.iterdir())


def test_a_failing_fio_is_a_finding_with_its_words(tmp_path):
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *create_only*) exit 0;; esac\necho "fio: destination does not support O_DIRECT"\nexit 1\n'
    )
    fake.chmod(0o755)
    (tmp_path / "t").mkdir()
    environment = {**os.environ, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
    result = sweep(*small(tmp_path / "t", "--json", "--svg", tmp_path / "out.svg"), env=environment)
    assert result.returncode == 1
    findings = json.loads(result.stdout)["findings"]
    assert len(findings) == 8 and "does not support O_DIRECT; no direct I/O here? try --buffered" in findings[0]
    assert not (tmp_path / "out.svg").exists() and not list((tmp_path / "t").iterdir())


def test_several_nodes_are_all_bytes_over_the_slowest_time(tmp_path):
    files = [document(tmp_path, f"node{n}.json", 1000, seconds, 100) for n, seconds in enumerate((1, 2, 4))]
    result = sweep("--read", *files, "--json")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)["results"]
    assert (row["mb_s"], row["iops"], row["jobs"], row["files"]) == (750, 750, 24, 3)
    assert (row["slowest"], row["slowest_mb_s"], row["p99_us"]) == ("node2.json", 250, 2000)


def test_nodes_that_ran_one_after_the_other_are_a_finding(tmp_path):
    files = [document(tmp_path, f"node{n}.json", 100, 10, 100 + 10 * n) for n in range(2)]
    result = sweep("--read", *files)
    assert result.returncode == 1 and "ended up to 10 s apart" in result.stderr
    assert "over 2 files; slowest node0.json" in result.stdout


def test_its_own_document_is_read_back(tmp_path):
    rows = [{"load": "read:1m", "depth": depth, "jobs": 1, "mb_s": 10 * depth, "iops": depth} for depth in (1, 8)]
    (tmp_path / "own.json").write_text(json.dumps({"results": rows}))
    result = sweep("--read", tmp_path / "own.json", "--svg", tmp_path / "o.svg", "--metrics", "mb_s", "--embed")
    assert result.returncode == 0, result.stderr
    assert "<style>" not in (tmp_path / "o.svg").read_text()
    assert [line.split()[-2:] for line in result.stdout.splitlines()[1:]] == [["-", "-"]] * 2
    result = sweep("--read", tmp_path / "own.json", "--svg", tmp_path / "none" / "o.svg")
    assert result.returncode == 2 and "No such file" in result.stderr and "Traceback" not in result.stderr


def test_documents_that_fio_did_not_write_are_refused(tmp_path):
    broken = document(tmp_path, "a.json", 1, 1, 1, write={"io_bytes": 5})
    empty = tmp_path / "b.json"
    empty.write_text("{}")
    assert "not as fio writes it" in sweep("--read", broken).stderr
    assert "no results" in sweep("--read", empty).stderr


@pytest.mark.parametrize(
    "results", ["5", '[{"x": 1}]', '[{"load": "a", "depth": 1, "jobs": 1, "mb_s": NaN, "iops": 1}]', "[7]", '["a"]',
                '[{"load": 1, "depth": 1, "jobs": 1, "mb_s": 1, "iops": 1}]']
)  # fmt: skip
def test_broken_documents_of_its_own_are_refused(results, tmp_path):
    (tmp_path / "a.json").write_text(f'{{"results": {results}}}')
    result = sweep("--read", tmp_path / "a.json", "--svg", tmp_path / "a.svg")
    assert result.returncode == 2 and "not as this program writes it" in result.stderr
    assert not (tmp_path / "a.svg").exists()


def test_metadata_engines_have_no_bandwidth(tmp_path):
    options = {"numjobs": "8", "ioengine": "filecreate"}
    file = document(tmp_path, "a.json", 100, 1, 1, **{"job options": options})
    (row,) = json.loads(sweep("--read", file, "--json").stdout)["results"]
    assert (row["mb_s"], row["iops"]) == (0, 100)


@needs_fio
@pytest.mark.parametrize("path", JOB_FILES, ids=lambda path: path.name)
def test_job_file_parses_runs_small_and_leaves_nothing(path, tmp_path):
    done = subprocess.run(["fio", "--parse-only", path], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = path.read_text()
    for option, value in (("size", "2m"), ("runtime", "1"), ("nrfiles", "20"), ("numjobs", "2")):
        text = re.sub(rf"^{option}=\S+", f"{option}={value}", text, flags=re.M)
    (tmp_path / "small.fio").write_text(text)
    (tmp_path / "t").mkdir()
    line = ["fio", "--output-format=json", f"--output={tmp_path / 'out.json'}", tmp_path / "small.fio"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path / "t", timeout=60)
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "t").iterdir())
    groups = re.findall(r"^\[(?!global)(.+)\]", text, re.M)
    rows = json.loads(sweep("--read", tmp_path / "out.json", "--json").stdout)["results"]
    assert [row["load"].split()[0] for row in rows] == groups


def test_there_are_job_files():
    assert len(JOB_FILES) >= 5
