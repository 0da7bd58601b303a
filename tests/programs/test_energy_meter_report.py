"""docs/compute/energy_meter.py: reports on recorded samples, and what is kept when something fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import energy_meter_runs
from energy_meter_runs import GPUS, PROGRAM, SAMPLE, nvidia_smi, samples, zones


@pytest.fixture
def meter(tmp_path):
    return energy_meter_runs.runner(tmp_path)


def test_recorded_samples_give_the_same_report(meter, tmp_path):
    tools = {"nvidia-smi": nvidia_smi(GPUS[:1])}
    options = ["--json", "--record", tmp_path / "r", "--seconds", "0.3", "--interval", "0.1"]
    live = json.loads(meter(*options, tools=tools).stdout)
    assert json.loads(meter("--json", "--replay", tmp_path / "r").stdout) == live
    assert meter("--replay", tmp_path / "r", "--devices", "nvidia:5", code=2).stdout == ""


def test_integral_is_the_trapezium_and_skips_no_gap(meter, tmp_path):
    file = samples(tmp_path / "r", {"t": 0, "power_w": 100}, {"t": 1, "power_w": None}, {"t": 2, "power_w": 300})
    report = json.loads(meter("--json", "--replay", file).stdout)
    assert (report["energy_j"], report["mean_w"]) == (400, 200)


def test_a_counter_that_falls_is_a_reloaded_driver(meter, tmp_path):
    rows = [{"t": t, "power_w": 100, "energy_j": joules} for t, joules in [(0, 900), (1, 1000), (2, 50)]]
    device = json.loads(meter("--json", "--replay", samples(tmp_path / "r", *rows)).stdout)["devices"][0]
    assert (device["energy_j"], device["method"]) == (200, "integral of samples")


def test_the_time_that_the_driver_counts_beats_samples(meter, tmp_path):
    rows = [
        {"t": t, "power_w": 1, "reasons": ["sw_power_cap"], "reason_s": {"sw_power_cap": s}}
        for t, s in [(0, 7), (10, 9)]
    ]
    device = json.loads(meter("--json", "--replay", samples(tmp_path / "r", *rows)).stdout)["devices"][0]
    assert device["reasons"] == {"sw_power_cap": 0.2}


def test_a_device_that_falls_silent_is_a_finding(meter, tmp_path):
    rows = [
        {"t": t, "power_w": 1, "device": device}
        for t in (0, 5, 100)
        for device in ("a", "b")
        if (t, device) != (100, "b")
    ]
    assert "b: no sample after 5 s of 100 s" in meter("--replay", samples(tmp_path / "r", *rows), code=1).stdout


def test_a_part_of_a_recording_has_its_own_length(meter, tmp_path):
    file = samples(tmp_path / "r", {"t": 100, "power_w": 500}, {"t": 110, "power_w": 500})
    report = json.loads(meter("--json", "--replay", file).stdout)
    assert (report["seconds"], report["mean_w"], report["energy_j"]) == (10, 500, 5000)


def test_nulls_beside_a_counter_that_falls(meter, tmp_path):
    rows = [{"t": t, "energy_j": 9 - t, "wrap_j": None, "power_w": 2, "reason_s": {"a": t or None}} for t in (0, 1, 2)]
    rows[2]["reason_s"] = rows[0]["reason_s"] = {"a": 1}
    rows.append({"t": 3, "energy_j": 1, "power_w": 2, "reason_s": {"a": None}})
    assert json.loads(meter("--json", "--replay", samples(tmp_path / "r", *rows)).stdout)["energy_j"] == 6


def test_a_device_without_energy_and_power_is_not_0_joules(meter, tmp_path):
    rows = [{"t": t, "power_w": power, "device": name} for t in (0, 10) for name, power in (("a", 100), ("vgpu", None))]
    result = meter("--replay", samples(tmp_path / "r", *rows), code=1)
    assert result.stdout.splitlines()[2].split() == ["vgpu", "-", "-", "-", "-", "-", "-"]
    assert "vgpu: neither energy nor power can be read: it is missing in the total" in result.stdout


def test_all_devices_fall_silent(meter):
    tool = 'n=$(cat "$0.n" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$0.n"; [ $n -lt 5 ] || exit 1\n'
    result = meter(
        "--json",
        "--seconds",
        "1.5",
        "--interval",
        "0.1",
        tools={"nvidia-smi": tool + f'echo "{GPUS[0]}, 0, 0, 0, 0"'},
        code=1,
    )
    report = json.loads(result.stdout)
    assert report["seconds"] >= 1.5 and "nvidia:0: no sample after 0 s of 2 s" in report["findings"]


def test_microjoules_with_an_exponent(meter):
    card = {"card0": {"Accumulated Energy (uJ)": "1.25e+16", "Average Graphics Package Power (W)": "100.0"}}
    report = json.loads(
        meter("--json", "--dry-run", "--record", "/dev/stderr", tools={"rocm-smi": f"echo '{json.dumps(card)}'"}).stderr
    )
    assert report["energy_j"] == 1.25e10


def test_a_full_disk_costs_neither_the_report_nor_the_lines_before(meter, tmp_path):
    command = ["bash", "-c", 'ulimit -f 1; exec "$@"', "-", sys.executable, PROGRAM, "--powercap"]
    command += [zones(tmp_path / "p", 5, name="package-" + "x" * 300), "--nvml", "none", "--json", "--seconds", "0.6"]
    command += ["--interval", "0.1", "--record", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
    report = json.loads(done.stdout)
    assert done.returncode == 1 and "lacks the samples from" in report["findings"][0]
    kept = len((tmp_path / "r").read_text().splitlines())
    assert 0 < kept < report["devices"][0]["samples"]
    assert json.loads(meter("--json", "--replay", tmp_path / "r").stdout)["devices"][0]["samples"] == kept


def test_samples_are_kept_when_the_machine_dies(meter, tmp_path):
    process = meter(
        "--seconds",
        "30",
        "--interval",
        "0.1",
        "--record",
        tmp_path / "r",
        powercap=zones(tmp_path / "p", 5),
        wait=False,
    )
    end = time.monotonic() + 20
    while time.monotonic() < end and not ((tmp_path / "r").exists() and (tmp_path / "r").read_text().count("\n") > 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert json.loads(meter("--json", "--replay", tmp_path / "r").stdout)["devices"][0]["samples"] >= 3


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, PROGRAM, "--replay", SAMPLE], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_ctrl_c_before_the_command(meter, tmp_path):
    process = meter("--dry-run", tools={"nvidia-smi": "touch $0.on; sleep 5"}, wait=False)
    while not (tmp_path / "bin/nvidia-smi.on").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in errors


def test_the_sample_that_readers_get(meter):
    result = meter("--replay", SAMPLE, "--units", "640000", "--unit", "token", code=1)
    assert "J per token" in result.stdout
    assert "finding: nvidia:3: sw_thermal_slowdown" in result.stdout
