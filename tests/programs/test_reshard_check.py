"""reshard_check.py: real checkpoints of 4 and 2 processes, damaged ones, and pickles that would run code."""

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "storage" / "reshard_check.py"
RUNS = Path(__file__).with_name("dcp_runs.py")
NEEDS_TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"


def run(*args, isolated=False):
    """Run the program; `isolated` without site-packages, so that only the standard library is there."""
    command = [sys.executable, *(["-I", "-S"] if isolated else []), str(PROGRAM), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    directory = tmp_path_factory.mktemp("dcp")
    result = subprocess.run([sys.executable, "-W", "ignore", str(RUNS), directory], capture_output=True, timeout=240)
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    return directory


@pytest.fixture
def four(saved, tmp_path):
    """A copy of the checkpoint of four ranks, to be damaged."""
    return Path(shutil.copytree(saved / "four", tmp_path / "four"))


def inspected(*args):
    result = run("inspect", *args, "--json", isolated=True)
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


def test_inspect_shows_what_four_ranks_wrote_without_pytorch(saved):
    body = inspected(saved / "four", "--crc")
    assert body["problems"] == [] and body["unused"] == []
    assert sorted(body["files"]) == [f"__{rank}_0.distcp" for rank in range(4)]
    tensors = {row["name"]: row for row in body["tensors"]}
    weight = tensors["model.1.0.weight"]
    assert (weight["dtype"], weight["shape"], weight["split"]) == ("float32", [256, 64], "4x1")
    assert weight["bytes"] == 256 * 64 * 4 and len(weight["files"]) == 4
    assert tensors["optim.state.1.0.weight.exp_avg"]["split"] == "4x1"
    assert tensors["model.3.running_mean"]["shards"] == 1  # a buffer: each rank has it, one writes it
    assert tensors["optim.state.1.0.weight.step"]["shape"] == [] and {"step", "who"} <= set(body["others"])


def test_predicted_reads_are_those_of_a_real_load(saved):
    predicted = inspected(saved / "four", "--ranks", "2")["ranks"]
    real = [json.loads((saved / f"read-{rank}.json").read_text()) for rank in range(2)]
    assert [row["reads"] for row in predicted] == [one["read"] for one in real]
    assert len({one["who"] for one in real}) == 1  # one key, one writer: the others' values are gone
    eight = inspected(saved / "four", "--ranks", "8")["ranks"]
    assert all(row["reads"] > 1.8 * row["needs"] for row in eight)  # a shard is read whole for half of it


def test_compare_finds_two_layouts_and_a_converted_file_equal(saved):
    result = run("compare", saved / "four", saved / "two")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "values compared: no differences" in result.stdout
    columns = inspected(saved / "columns")["tensors"]
    assert columns[0]["split"] == "1x2"
    assert run("compare", saved / "four.pt", saved / "columns", "--only", "model.1.0.weight").returncode == 0


def test_compare_names_the_first_difference(saved, tmp_path):
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    state = torch.load(saved / "four.pt", weights_only=True)
    state["model"]["1.0.weight"][3, 5] += 1
    state["model"]["1.2.bias"] = state["model"]["1.2.bias"].bfloat16()
    state["step"] = 3
    del state["model"]["0.weight"]
    torch.save(state, tmp_path / "other.pt")
    result = run("compare", saved / "four", tmp_path / "other.pt", "--json")
    assert result.returncode == 1
    found = json.loads(result.stdout)["differences"]
    assert set(found) == {"model.1.0.weight", "model.1.2.bias", "model.0.weight", "step"}
    assert found["model.1.0.weight"].startswith("1 of 16384 elements differ, first at [3, 5]:")
    assert found["model.1.2.bias"] == "float32 [64] against bfloat16 [64]"
    assert found["model.0.weight"] == "only in A" and found["step"] == "2 against 3"


def test_dry_run_compares_names_and_shapes_without_pytorch(saved):
    same = run("compare", saved / "four", saved / "two", "--dry-run", isolated=True)
    assert same.returncode == 0 and "names, types and shapes compared: no differences" in same.stdout
    fewer = run("compare", saved / "four", saved / "columns", "--dry-run", isolated=True)
    assert fewer.returncode == 1 and "only in A" in fewer.stdout
    values = run("compare", saved / "four", saved / "two", isolated=True)
    assert values.returncode == 2 and "pip install torch" in values.stderr


def test_safetensors_export_is_compared(saved, tmp_path):
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    weights = torch.load(saved / "four.pt", weights_only=True)["model"]
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in ("1.0.weight", "1.2.bias"):
        raw = weights[name].numpy().tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(weights[name].shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    result = run("compare", saved / "four", tmp_path, "--strip", "model.", "--only", "1.2.bias")
    assert result.returncode == 0, result.stdout + result.stderr


def test_missing_short_and_left_over_files_are_found(four):
    (four / "__3_0.distcp").unlink()
    os.truncate(four / "__2_0.distcp", 200_000)
    (four / "__4_0.distcp").write_bytes(b"from an earlier save")
    result = run("inspect", four, isolated=True)
    assert result.returncode == 1
    assert "PROBLEM: __3_0.distcp is missing:" in result.stdout
    assert "PROBLEM: __2_0.distcp is short, 200000 of" in result.stdout
    assert "note: __4_0.distcp is not in .metadata" in result.stdout


def test_one_flipped_bit_is_found_with_crc_only(four):
    file = four / "__1_0.distcp"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert run("inspect", four, isolated=True).returncode == 0
    result = run("inspect", four, "--crc", isolated=True)
    assert result.returncode == 1 and result.stdout.count("PROBLEM:") == 1 and "__1_0.distcp" in result.stdout


def test_unfinished_and_foreign_metadata_are_refused(four, tmp_path):
    (four / ".metadata").write_bytes((four / ".metadata").read_bytes()[:1000])
    assert "cannot be read" in run("inspect", four, isolated=True).stderr
    (four / ".metadata").unlink()
    result = run("inspect", four, isolated=True)
    assert result.returncode == 2 and "never finished" in result.stderr
    (four / "__0.metadata").write_bytes(b"")
    assert "use_collectives=False" in run("inspect", four, isolated=True).stderr


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04Nr\x00\x00\x00\x7f.",  # keeps None in place 2**31 of the memo, 34 GB
        b"\x80\x05\x96" + (1 << 46).to_bytes(8, "little") + b".",  # an array of 64 TiB
        b"\x80\x04}N" + b"\x85" * 10 + b"s.",  # ends too early
        b"\x80\x09N.",  # a protocol that does not exist
        b"\x80\x04N.",  # None
        b"",
    ],
)
def test_damaged_and_greedy_metadata_is_refused_in_little_memory(content, tmp_path):
    (tmp_path / ".metadata").write_bytes(content)
    result = run("inspect", tmp_path, isolated=True)
    assert result.returncode == 2 and "cannot be read" in result.stderr and "Traceback" not in result.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4_000_000  # kB


def rewritten(four, *pairs):
    """Change bytes of `.metadata` for others of the same length."""
    data = (four / ".metadata").read_bytes()
    for old, new in pairs:
        assert old in data and len(old) == len(new)
        data = data.replace(old, new)
    (four / ".metadata").write_bytes(data)


def test_metadata_cannot_point_outside_the_checkpoint(four):
    rewritten(four, (b"__3_0.distcp", b"../../secret"))
    result = run("inspect", four, "--crc", isolated=True)
    assert result.returncode == 2 and "../../secret" in result.stderr


def test_names_of_other_versions_and_of_megatron_are_stand_ins(four):
    rewritten(four, (b"torch.distributed.checkpoint.filesystem", b"megatron.core.dist_checkpointing.x.abcd"))
    assert run("inspect", four, isolated=True).returncode == 0


def test_names_cannot_write_to_the_terminal(four):
    rewritten(four, (b"model.1.0.weight", b"model.\x1b[2Jweight"))
    result = run("inspect", four, "--show", "100", isolated=True)
    assert result.returncode == 0 and "model.\\x1b[2Jweight" in result.stdout


def test_compare_tells_what_it_cannot_read(saved, four, tmp_path):
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    os.truncate(four / "__2_0.distcp", 200_000)
    result = run("compare", saved / "four", four, "--json")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert any("__2_0.distcp is missing or short" in what for what in json.loads(result.stdout)["differences"].values())
    torch.save({"x": Path("nothing"), "step": 2}, tmp_path / "custom.pt")
    result = run("compare", saved / "four", tmp_path / "custom.pt")
    assert result.returncode == 2 and "custom.pt cannot be read: UnpicklingError" in result.stderr


def safetensors(path, header):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))


def test_shards_of_an_export_and_names_stripped_to_one_are_refused(saved, tmp_path):
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for name in ("shard-1", "shard-2"):
        safetensors(tmp_path / f"{name}.safetensors", {"step": one})
    result = run("compare", saved / "four", tmp_path, "--dry-run", isolated=True)
    assert result.returncode == 2 and "shard-2.safetensors has step again" in result.stderr
    (tmp_path / "shard-2.safetensors").unlink()
    safetensors(tmp_path / "shard-1.safetensors", {"step": one, "model.step": one})
    result = run("compare", saved / "four", tmp_path, "--dry-run", "--strip", "model.", isolated=True)
    assert result.returncode == 2 and "makes one name of two" in result.stderr
    (tmp_path / "shard-1.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + b"[]")
    result = run("compare", saved / "four", tmp_path, "--dry-run", isolated=True)
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_a_rank_with_nothing_to_write_is_no_left_over(four):
    (four / "__9_0.distcp").touch()
    assert "note:" not in run("inspect", four, isolated=True).stdout


def test_an_extra_argument_is_refused_on_a_good_checkpoint(four):
    result = run("inspect", four, four, isolated=True)
    assert result.returncode == 2 and "inspect takes one directory" in result.stderr


def test_a_reader_that_leaves_gets_no_traceback(four):
    command = f"{sys.executable} -I -S {PROGRAM} inspect {four} --show 500 | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stdout.count("\n") == 1 and result.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("option", ["--json", "--crc"])
def test_output_that_cannot_be_written(four, option):
    command = [sys.executable, "-I", "-S", PROGRAM, "inspect", four, option]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left" in done.stderr and "Exception" not in done.stderr


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_code_does_not(tmp_path):
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    result = run("inspect", tmp_path, isolated=True)
    assert result.returncode == 2 and "mkdir, which DCP does not write: refused" in result.stderr
    assert not (tmp_path / "ran").exists()
    attribute = b"\x80\x04cbuiltins\ngetattr\ncbuiltins\neval\nX\x08\x00\x00\x00__call__\x86R."
    (tmp_path / ".metadata").write_bytes(attribute)
    assert "builtins.eval" in run("inspect", tmp_path, isolated=True).stderr


@pytest.mark.parametrize(
    "args",
    [
        ("inspect", "nowhere"),
        ("inspect", ".", "extra"),
        ("compare", "."),
        ("inspect", ".", "--ranks", "-1"),
        ("inspect", ".", "--ranks", "1000000000"),
        ("mend", "."),
    ],
)
def test_misuse_gets_exit_code_2_and_no_traceback(args, tmp_path):
    result = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), *args], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2 and "Traceback" not in result.stderr and result.stderr
