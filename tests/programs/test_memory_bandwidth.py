"""docs/compute/memory_bandwidth.py: plans without PyTorch, measures with NumPy and PyTorch, judges against a peak."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/compute/memory_bandwidth.py"
NO_TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"

NUMPY_GPU = ["--device", "cuda", "--library", "numpy"]


def bandwidth(*options: str, python_options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *python_options, PROGRAM, *options], capture_output=True, text=True, timeout=120
    )


def report_of(*options: str, code: int = 0) -> dict:
    result = bandwidth("--json", *options)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("memory_bandwidth", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_dry_run_needs_the_standard_library_only():
    result = bandwidth("--dry-run", "--json", "--mib", "64", python_options=("-I", "-S"))
    assert result.returncode == 0, result.stderr
    kernels = {row["kernel"]: row["bytes"] for row in json.loads(result.stdout)["kernels"]}
    assert kernels == {"read": 64 << 20, "write": 64 << 20, "copy": 128 << 20, "triad": 192 << 20}


def test_without_libraries_the_fix_is_named():
    result = bandwidth(python_options=("-I", "-S"))
    assert result.returncode == 2 and "pip install numpy" in result.stderr
    result = bandwidth("--device", "cuda", python_options=("-I", "-S"))
    assert result.returncode == 2 and "pip install torch" in result.stderr


def test_numpy_measures_and_counts_the_second_pass_of_triad():
    pytest.importorskip("numpy", reason="needs NumPy: pip install numpy")
    report = report_of("--library", "numpy", "--mib", "8", "--repeats", "3", "--threads", "2")
    rows = {row["kernel"]: row for row in report["kernels"]}
    assert rows["triad"]["bytes"] == 5 * 8 << 20
    assert all(row["best_gb_s"] >= row["median_gb_s"] > 0 for row in rows.values())


def test_kernels_compute_what_their_names_say(program):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    calls = program.torch_kernels(torch, 10, "cpu", ["triad", "copy", "write", "read"])
    target = calls["write"].__closure__[0].cell_contents
    for kernel, value in (("triad", 17.0), ("copy", 2.0), ("write", 4.0)):
        calls[kernel]()
        assert target.tolist() == [value] * 10
    assert calls["read"]().item() == 40.0


def test_torch_run_is_judged_against_the_peak():
    pytest.importorskip("torch", reason=NO_TORCH)
    report = report_of("--mib", "4", "--repeats", "3", "--kernels", "copy", "--peak", "0.001", code=1)
    assert report["library"] == "torch" and "above the peak" in report["findings"][0]
    report = report_of("--mib", "4", "--repeats", "3", "--kernels", "copy", "--peak", "1e9", "--at-least", "50", code=1)
    assert "below 50 %" in report["findings"][0]


def test_arrays_that_fit_the_caches_are_warned_of(program, monkeypatch, capsys):
    monkeypatch.setattr(program, "cache_mib", lambda: 1000.0)
    monkeypatch.setattr(sys, "argv", ["memory_bandwidth.py", "--dry-run", "--mib", "64"])
    assert program.main() == 0 and "caches will help" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["memory_bandwidth.py", "--dry-run"])
    assert program.main() == 0 and "3 arrays of 4000 MiB" in capsys.readouterr().out


def test_caches_are_added_once_each(program, tmp_path):
    for cpu, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, (level, size) in enumerate(((2, "1024K"), (3, "32768K"))):
            folder = tmp_path / f"devices/system/cpu/cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{text}\n")
    assert program.cache_mib(tmp_path) == 64


@pytest.mark.parametrize(
    "options",
    [["--kernels", "scale"], ["--device", "gpu"], ["--at-least", "80"], ["--mib", "0"], ["--peak", "nan"], NUMPY_GPU],
)
def test_misuse_is_explained(options):
    result = bandwidth(*options)
    assert result.returncode == 2 and "error:" in result.stderr and "Traceback" not in result.stderr
