"""pair_matrix.py measures pairs, tells a slow rank from a slow path, and judges recorded files without PyTorch."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "network"
PROGRAM, EXAMPLE = FOLDER / "pair_matrix.py", FOLDER / "pair_matrix_example.json"
TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"


def run(*args, code=None, **options):
    start = ["-c", code] if code else [str(PROGRAM)]
    return subprocess.run([sys.executable, *start, *args], capture_output=True, text=True, timeout=120, **options)


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("pair_matrix", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(n, per_node=1, **slow):
    """n ranks at 40 GB/s between nodes and 400 inside; slow: sender_3=10, path_1_5=20."""
    ranks = [{"host": f"node{r // per_node}", "local": r % per_node} for r in range(n)]
    gbs = [[0.0 if i == j else 400.0 if i // per_node == j // per_node else 40.0 for j in range(n)] for i in range(n)]
    for name, rate in slow.items():
        what, *numbers = name.split("_")
        for other in range(n) if what != "path" else []:
            i, j = (int(numbers[0]), other) if what == "sender" else (other, int(numbers[0]))
            gbs[i][j] = rate if i != j else 0.0
        if what == "path":
            gbs[int(numbers[0])][int(numbers[1])] = rate
    return {"ranks": ranks, "gbs": gbs, "backend": "nccl", "size_bytes": 1}


def replay(tmp_path, data, *args):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(data))
    done = run("--replay", str(path), "--json", *args)
    return done.returncode, json.loads(done.stdout)


def test_the_recorded_example_names_receiver_and_path():
    done = run("--replay", str(EXAMPLE))
    assert done.returncode == 1
    assert "SLOW RANK 3 (node3:0): receives at 25% of the median" in done.stdout
    assert "SLOW PATH 1 -> 5: 50% of the median" in done.stdout
    assert done.stdout.count("SLOW") == 2


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("alone", [False, True])
def test_rounds_hold_each_pair_once_and_no_rank_twice(program, n, alone):
    plan = program.rounds(n, alone)
    pairs = [pair for pairs in plan for pair in pairs]
    assert sorted(pairs) == [(a, b) for a in range(n) for b in range(a + 1, n)]
    for one in plan:
        busy = [rank for pair in one for rank in pair]
        assert len(busy) == len(set(busy))
    assert len(plan) == (n * (n - 1) // 2 if alone else n - 1 + n % 2)


def test_equal_pairs_are_fine(tmp_path):
    code, found = replay(tmp_path, record(8))
    assert code == 0 and found["slow_ranks"] == found["slow_pairs"] == []


def test_slow_sender_is_a_rank_not_seven_paths(tmp_path):
    code, found = replay(tmp_path, record(8, sender_3=10.0))
    assert code == 1 and [row["rank"] for row in found["slow_ranks"]] == [3] and found["slow_pairs"] == []
    assert found["slow_ranks"][0] == {"rank": 3, "sends": 0.25, "receives": 1.0}


def test_slow_path_is_no_rank(tmp_path):
    _, found = replay(tmp_path, record(8, path_1_5=20.0))
    assert found["slow_ranks"] == [] and found["slow_pairs"] == [{"from": 1, "to": 5, "share": 0.5}]


def test_links_inside_a_node_do_not_make_the_network_slow(tmp_path):
    code, found = replay(tmp_path, record(8, per_node=4))
    assert code == 0 and found["medians_gbs"] == {"node": 400.0, "rail": 40.0, "cross": 40.0}


def test_threshold(tmp_path):
    assert replay(tmp_path, record(8, path_1_5=30.0), "--below", "0.7")[0] == 0
    assert replay(tmp_path, record(8, path_1_5=30.0), "--below", "0.76")[0] == 1


def test_two_ranks_accuse_no_rank(tmp_path):
    _, found = replay(tmp_path, record(2, path_0_1=5.0))
    assert found["slow_ranks"] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ranks": [1], "gbs": [[0]]}',
        json.dumps({**record(4), "gbs": [[0, 1], [1, 0]]}),
        json.dumps({**record(2), "gbs": [[0, float("inf")], [1, 0]]}),
        json.dumps({**record(2), "gbs": [[0, float("nan")], [1, 0]]}),
        json.dumps({**record(2), "gbs": [[0, "5"], [1, 0]]}),
        json.dumps({**record(2), "ranks": [["host", "local"]] * 2}),
    ],
)
def test_a_foreign_file_is_misuse(tmp_path, text):
    (tmp_path / "x").write_text(text)
    done = run("--replay", str(tmp_path / "x"))
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--replay", "/does/not/exist"], "No such file"),
        (["--size", "1T"], "not a size"),
        (["--below", "1.5"], "between 0 and 1"),
        (["--ranks", "1"], "two ranks"),
    ],
)
def test_misuse_is_named(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_dry_run_and_replay_need_no_torch():
    code = f"import sys; sys.modules['torch'] = None; sys.argv[0] = {str(PROGRAM)!r}; import runpy; \
runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run("--dry-run", "--ranks", "512", code=code)
    assert done.returncode == 0 and "130816 pairs in 511 rounds" in done.stdout
    assert run("--replay", str(EXAMPLE), code=code).returncode == 1
    here = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = run(code=code, env=here)
    assert done.returncode == 2 and "pip install torch" in done.stderr


def test_half_a_launch_is_misuse():
    done = run(env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"})
    assert done.returncode == 2 and "MASTER_ADDR, MASTER_PORT" in done.stderr
    here = {"RANK": "a", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    done = run(env=here)
    assert done.returncode == 2 and "RANK=a" in done.stderr and "Traceback" not in done.stderr


def test_nccl_without_a_gpu_is_misuse():
    torch = pytest.importorskip("torch", reason=TORCH)
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = run("--ranks", "2", "--backend", "nccl")
    assert done.returncode == 2 and "needs a GPU" in done.stderr and "Traceback" not in done.stderr


def test_three_ranks_measure_each_other(tmp_path):
    pytest.importorskip("torch", reason=TORCH)
    done = run("--ranks", "3", "-s", "64K", "-n", "3", "-w", "1", "--json")
    data = json.loads(done.stdout)
    assert done.returncode in (0, 1), done.stderr  # a busy machine may have slow pairs
    assert [len(row) for row in data["gbs"]] == [3, 3, 3] and data["backend"] == "gloo"
    assert all((rate > 0) is (i != j) for i, row in enumerate(data["gbs"]) for j, rate in enumerate(row))
    assert len({place["host"] for place in data["ranks"]}) == 1 and data["size_bytes"] == 65536
    assert replay(tmp_path, data)[0] == done.returncode
