"""docs/compute/matmul_sweep.py: plans without PyTorch, measures with it, refuses long loads."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/compute/matmul_sweep.py"
NO_TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"


def sweep(*options: str, python_options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *python_options, PROGRAM, *options], capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def program():
    """The program as a module, for what only a GPU node would run."""
    spec = importlib.util.spec_from_file_location("matmul_sweep", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules["matmul_sweep"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["matmul_sweep"]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a stand-in for a vendor's tool on PATH."""

    def install(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def test_dry_run_lists_flops_and_bytes_with_the_standard_library_only():
    # -I -S: neither site-packages nor the environment, so PyTorch cannot be there
    result = sweep("--dry-run", "--json", "--m", "4096", "--n", "50304", "--k", "768", "--dtype", "bf16,fp8",
                   python_options=("-I", "-S"))  # fmt: skip
    assert result.returncode == 0, result.stderr
    bf16, fp8 = json.loads(result.stdout)["results"]
    assert bf16["flops"] == 2 * 4096 * 50304 * 768
    assert bf16["bytes"] == 2 * (4096 * 768 + 768 * 50304 + 4096 * 50304)
    assert fp8["bytes"] == (4096 * 768 + 768 * 50304) + 2 * 4096 * 50304  # the product is bf16
    assert bf16["flops_per_byte"] == round(bf16["flops"] / bf16["bytes"], 1)


def test_ranges_include_their_end_and_omitted_sizes_follow_m():
    result = sweep("--dry-run", "--json", "--m", "64,128:256:64", "--k", "32")
    shapes = [(row["m"], row["n"], row["k"]) for row in json.loads(result.stdout)["results"]]
    assert shapes == [(64, 64, 32), (128, 128, 32), (192, 192, 32), (256, 256, 32)]


def test_dry_run_for_people_has_a_line_per_shape():
    result = sweep("--dry-run", "--device", "cuda")
    lines = result.stdout.splitlines()
    assert "FLOP/B" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [["bfloat16", size] for size in ("1024", "2048", "4096", "8192")]


def test_the_page_shows_what_the_dry_run_prints():
    page = PROGRAM.with_name("matmul-throughput.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("$ python3 matmul_sweep.py --dry-run"))
    assert f"{command}\n{sweep(*command.split()[3:]).stdout}" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--m", "0"), "neither a size"),
        (("--m", "512:256:64"), "neither a size"),
        (("--dtype", "fp3"), "unknown format 'fp3'"),
        (("--peak", "fast"), "neither TFLOP/s"),
        (("--iterations", "0"), "--iterations must be at least 1"),
        (("--m", "99999999999"), "neither a size"),
        (("--m", "1:1000000000:1"), "neither a size"),
        (("--m", "1:1000:1", "--n", "1:1000:1"), "more than 100000 shapes"),
        (("--peak", "1e400"), "neither TFLOP/s"),
        (("--soak", "nan"), "--soak"),
        (("--at-least", "nan", "--peak", "989"), "--at-least at least 0"),
        (("--cold-mib", "99999999"), "--cold-mib 0 to 65536"),
        (("--dtype", "fp32,bf16", "--peak", "989"), "several formats"),
        (("--at-least", "70"), "needs --peak"),
    ],
)
def test_misuse_names_the_fix(options, message):
    result = sweep("--dry-run", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_without_pytorch_the_error_names_the_install_line():
    result = sweep(python_options=("-I", "-S"))
    assert result.returncode == 2
    assert "PyTorch is missing: pip install torch" in result.stderr


def test_measures_on_the_cpu():
    pytest.importorskip("torch", reason=NO_TORCH)
    result = sweep("--device", "cpu", "--m", "64,128", "--warmup", "1", "--iterations", "3", "--cold-mib", "1",
                   "--soak", "0.1", "--dtype", "fp32", "--peak", "1000", "--json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["findings"] == [] and report["clock_and_power"] is None
    assert [row["m"] for row in report["results"]] == [64, 128]
    for row in report["results"]:
        assert 0 < row["median"] <= row["best"] < 1000


def test_failed_shapes_and_results_off_the_peak_are_findings():
    pytest.importorskip("torch", reason=NO_TORCH)
    # a product of 36 TB cannot be allocated; the soak and the other shape do without it
    result = sweep("--device", "cpu", "--m", "3000000,48", "--k", "1", "--warmup", "0", "--iterations", "2", "--yes",
                   "--soak", "0.1", "--cold-mib", "0", "--dtype", "fp32,bf16", "--peak", "fp32=1e-9,bf16=1000", "--at-least", "50")  # fmt: skip
    assert result.returncode == 1, result.stderr
    assert "% of the peak given" in result.stdout
    assert "LOOK: float32 3000000x3000000x1: " in result.stdout
    assert "LOOK: bfloat16: the best median is 0.0 % of peak, below 50 %" in result.stdout


def test_a_long_run_needs_yes_and_a_missing_device_is_misuse():
    pytest.importorskip("torch", reason=NO_TORCH)
    result = sweep("--device", "cpu", "--m", "100000", "--iterations", "1000")
    assert result.returncode == 2 and "add --yes" in result.stderr
    result = sweep("--device", "xpu:7")
    assert result.returncode == 2 and "sees no xpu:7" in result.stderr


def test_ctrl_c_ends_it_without_a_traceback():
    pytest.importorskip("torch", reason=NO_TORCH)
    command = [sys.executable, PROGRAM, "--device", "cpu", "--m", "256", "--soak", "90", "--cold-mib", "0", "--yes"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        started = time.monotonic()
        assert "PyTorch" in process.stdout.readline()
        assert time.monotonic() - started < 60  # seen before the soak ends, so it was flushed
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in errors


def test_nvidia_reading_decodes_slowdowns(program, tool):
    # a driver that knows the old name only
    tool("nvidia-smi", 'case "$*" in *event_reasons*) exit 2;; *) echo "1365, 698.51, 0x0000000000000024";; esac')
    assert program.read_nvidia("0") == {
        "mhz": 1365.0,
        "watt": 698.51,
        "slowdowns": ["software power cap", "software thermal slowdown"],
    }
    tool("nvidia-smi", 'echo "[N/A], [N/A], [N/A]"')
    assert program.read_nvidia("0") is None


def test_amd_reading_takes_the_busiest_card(program, tool):
    card = '"sclk clock speed:": "(%sMhz)", "Max Graphics Package Power (W)": "750.0", "%s Graphics Package Power (W)": "%s"'
    idle, busy = card % ("132", "Average", "140.0"), card % ("1207", "Current Socket", "749.0")
    cards = f'{{"card0": {{{idle}}}, "card1": {{{busy}}}, "system": {{}}}}'
    tool("rocm-smi", f"echo 'WARNING: {{low-power'; echo '{cards}'")
    assert program.read_amd() == {"mhz": 1207.0, "watt": 749.0, "slowdowns": []}
    tool("rocm-smi", "echo no GPU here")
    assert program.read_amd() is None


def test_monitor_summarises_and_survives_a_missing_tool(program):
    readings = iter([{"mhz": 1980.0, "watt": 300.0, "slowdowns": []},
                     {"mhz": 1400.0, "watt": 700.0, "slowdowns": ["software power cap"]}, None])  # fmt: skip
    monitor = program.Monitor(lambda: next(readings))
    monitor.done.wait = lambda seconds: False  # no pause between readings
    monitor.thread.start()
    monitor.thread.join()
    assert monitor.summary() == {
        "readings": 2,
        "median_mhz": 1690.0,
        "lowest_mhz": 1400.0,
        "highest_watt": 700.0,
        "slowdowns": ["software power cap"],
    }
    missing = program.Monitor(lambda: None)
    missing.thread.start()
    assert missing.summary() is None


def test_gpu_calls_are_timed_by_events_and_watched_by_uuid(program, tool):
    """The CUDA path against a stand-in for torch: each call between its own pair of events, one wait at the end."""
    log: list = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            log.append("event")

        def elapsed_time(self, end):
            return 2.0  # milliseconds

    cuda = SimpleNamespace(
        Event=Event,
        synchronize=lambda device: log.append("wait"),
        get_device_properties=lambda device: SimpleNamespace(uuid="abc-1"),
    )
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None))
    bench = program.Bench(torch, SimpleNamespace(type="cuda", index=3), "normal", 0)
    calls = iter([lambda: log.append("a"), lambda: log.append("b")])
    assert bench.seconds(calls, 2) == [0.002, 0.002]
    assert log == ["event", "a", "event", "event", "b", "event", "wait"]

    tool("nvidia-smi", '[ "$1 $2" = "-i GPU-abc-1" ] && echo "1830, 650.00, 0x0000000000000000"')
    monitor = bench.monitor()
    while not monitor.readings and monitor.thread.is_alive():
        time.sleep(0.01)
    assert monitor.summary()["lowest_mhz"] == 1830.0
