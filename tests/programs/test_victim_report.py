"""docs/network/victim_report.py: reads both formats, compares medians and tails, says what is slower."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NETWORK = Path(__file__).parents[2] / "docs" / "network"
PROGRAM = NETWORK / "victim_report.py"
NCCL_TESTS = """# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576
#  Rank  0 Group  0 Pid     85 on      node1 device  0 [0000:cc:00] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        131072     float    none      -1    {first}   17.11    8.55       0    99.00   18.29    9.15       0
     1048576        131072     float    none      -1    {second}   17.11    8.55       0    99.00   18.29    9.15     N/A
# Avg bus bandwidth    : 15.0709
"""


def report(*arguments, code=0):
    done = subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def runs(path, times, size=65536):
    rows = [{"op": "all_reduce", "bytes": size, "time_us": time} for time in times]
    path.write_text("".join(json.dumps({"rows": [row]}) + "\n" for row in rows))
    return path


def test_rows_of_nccl_tests_are_read_out_of_place(tmp_path):
    for name, first, second in (("alone", 60.0, 62.0), ("loaded", 61.0, 63.0)):
        (tmp_path / name).write_text(NCCL_TESTS.format(first=first, second=second))
    out = json.loads(report("--alone", tmp_path / "alone", "--loaded", tmp_path / "loaded", "--json"))
    (row,) = out["rows"]
    assert (row["op"], row["bytes"], row["runs"]) == ("all_gather", 1048576, [2, 2])
    assert row["alone_us"] == {"median": 61.0, "p99": 62.0} and row["loaded_us"]["median"] == 62.0


def test_p99_of_many_runs_is_not_the_slowest(tmp_path):
    alone = runs(tmp_path / "alone", [100] * 200)
    loaded = runs(tmp_path / "loaded", [100] * 197 + [180, 190, 5000])
    (row,) = json.loads(report("--alone", alone, "--loaded", loaded, "--json"))["rows"]
    assert row["loaded_us"]["p99"] == 180 and row["tail"] == 1.8


@pytest.mark.parametrize(
    ("times", "words", "code"),
    [([110] * 5, "", 0), ([150] * 5, "SLOWER", 1), ([100] * 4 + [900], "TAIL", 1), ([300] * 5, "SLOWER TAIL", 1)],
)
def test_the_verdict_and_the_exit_code(tmp_path, times, words, code):
    alone, loaded = runs(tmp_path / "alone", [100] * 5), runs(tmp_path / "loaded", times)
    out = report("--alone", alone, "--loaded", loaded, code=code)
    row = next(line for line in out.splitlines() if "all_reduce" in line)
    assert row.partition("64 KiB")[2].split()[6:] == words.split()
    assert "too few for a 99th percentile" in out


def test_a_limit_can_be_moved(tmp_path):
    alone, loaded = runs(tmp_path / "alone", [100] * 3), runs(tmp_path / "loaded", [150] * 3)
    report("--alone", alone, "--loaded", loaded, "--limit", "1.6")


def test_what_cannot_be_compared_is_misuse(tmp_path):
    alone, other = runs(tmp_path / "alone", [100]), runs(tmp_path / "other", [100], size=1024)
    assert "same command" in report("--alone", alone, "--loaded", other, code=2)
    (tmp_path / "broken").write_text('{"rows": 3}\n')
    assert "broken:1: not a result" in report("--alone", tmp_path / "broken", "--loaded", alone, code=2)
    assert "No such file" in report("--alone", tmp_path / "none", "--loaded", alone, code=2)
    assert "not a ratio" in report("--alone", alone, "--loaded", alone, "--limit", "0.5", code=2)


@pytest.mark.parametrize(
    "row",
    [
        '{"op": "a", "bytes": 8, "time_us": NaN}',
        '{"op": "a", "bytes": 1e400, "time_us": 1}',
        '{"op": "a", "bytes": 8, "time_us": 1e300}',
        '{"op": "a", "bytes": 8, "time_us": -1}',
        '{"op": "a", "bytes": 1' + "0" * 400 + ', "time_us": 1}',
        "[" * 100000,
    ],
)
def test_what_is_no_time_is_misuse(tmp_path, row):
    (tmp_path / "odd").write_text(f'  {{"rows": [{row}]}}\n')
    out = report("--alone", tmp_path / "odd", "--loaded", tmp_path / "odd", code=2)
    assert "odd:1: " in out and "Traceback" not in out


@pytest.mark.parametrize(("size", "time_us"), [("1024", "1.0.0"), ("1024", "1e999"), ("1" + "0" * 400, "10.0")])
def test_a_row_of_nccl_tests_that_is_no_measurement(tmp_path, size, time_us):
    (tmp_path / "odd").write_text(f"# nThread 1\n  {size}  256  float  sum  -1  {time_us}  0.1  0.1  0\n")
    out = report("--alone", tmp_path / "odd", "--loaded", tmp_path / "odd", code=2)
    assert "odd:2: " in out and "Traceback" not in out


def test_what_only_one_file_has_is_named(tmp_path):
    both = {"op": "a", "bytes": 8, "time_us": 1}
    (tmp_path / "alone").write_text(json.dumps({"rows": [both, {"op": "b", "bytes": 2048, "time_us": 1}]}))
    (tmp_path / "loaded").write_text("[node1:17] a line of MPI\n" + json.dumps({"rows": [both]}))
    files = "--alone", tmp_path / "alone", "--loaded", tmp_path / "loaded"
    assert "not compared, as only one has a time above 0: b 2 KiB\n" in report(*files)
    assert json.loads(report(*files, "--json"))["not_compared"] == [["b", 2048]]


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written():
    files = ["--alone", NETWORK / "victim_alone.jsonl", "--loaded", NETWORK / "victim_loaded.jsonl"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, PROGRAM, *files], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_odd_names_and_a_byte_order_mark_are_shown(tmp_path):
    lines = '\ufeff{"rows": [{"op": null, "bytes": 8, "time_us": 1}, {"op": "\\ud800", "bytes": 8, "time_us": 1}]}\n'
    (tmp_path / "odd").write_text(lines, encoding="utf-8")
    out = report("--alone", tmp_path / "odd", "--loaded", tmp_path / "odd")
    assert "None" in out and "\\ud800" in out


def test_a_reader_that_leaves_is_no_traceback(tmp_path):
    rows = [{"op": "a", "bytes": size, "time_us": 1} for size in range(3000)]
    (tmp_path / "many").write_text(json.dumps({"rows": rows}) + "\n")
    command = f"'{sys.executable}' '{PROGRAM}' --alone '{tmp_path}/many' --loaded '{tmp_path}/many' | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "alone, us" in done.stdout and not done.stderr


def test_the_recorded_example_shows_a_neighbour():
    out = report("--alone", NETWORK / "victim_alone.jsonl", "--loaded", NETWORK / "victim_loaded.jsonl", code=1)
    assert "SLOWER" in out
