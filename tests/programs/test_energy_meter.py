"""docs/compute/energy_meter.py: stand-in tools, a stand-in NVML, made-up RAPL zones and recorded samples."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import energy_meter_runs
from energy_meter_runs import GPUS, PROGRAM, SAMPLE, nvidia_smi, samples, zones

NVML = """
static unsigned long long millijoules;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)index; return index == 1 ? 3 : 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *energy)
{ if (handle) return 3; *energy = millijoules += 500000; return 0; }
"""


@pytest.fixture
def meter(tmp_path):
    return energy_meter_runs.runner(tmp_path)


def test_help_needs_nothing():
    result = subprocess.run([sys.executable, "-S", PROGRAM, "--help"], capture_output=True, text=True, check=True)
    assert "--replay" in result.stdout


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "give one of"),
        (["--seconds", "1", "--dry-run"], "give one of"),
        (["--seconds", "nan"], "above 0"),
        (["--units", "-3", "--dry-run"], "above 0"),
        (["--interval", "0", "--seconds", "1"], "above 0"),
        (["--", "no-such-command"], "command not found: no-such-command"),
        (["--replay", "/nonexistent"], "No such file"),
        (["--record", "/nonexistent/x", "--seconds", "1"], "/nonexistent/x"),
        (["--seconds", "1"], "nothing to read"),
    ],
)
def test_misuse_is_explained(meter, options, message):
    result = meter(*options, code=2)
    assert message in result.stderr and "Traceback" not in result.stderr


def test_nothing_runs_where_nothing_can_be_read(meter, tmp_path):
    meter("--", "touch", tmp_path / "ran", code=2)
    assert not (tmp_path / "ran").exists()


BROKEN = ['"t": "x"', '"t": NaN', '"t": null', '"t": 1e999', '"t": 0, "power_w": "many"', '"t": 0, "device": ["a"]']
BROKEN += ['"t": 1e16', '"t": 0, "clock_mhz": 1.7e308', '"t": 0, "energy_j": 1' + "0" * 400]
BROKEN += ['"t": 0, "reasons": [1]', '"t": 0, "reason_s": [1]', '"t": 0, "reason_s": {"a": "b"}']


@pytest.mark.parametrize("text", ["not json", "[1]", '{"t": 1}', "[" * 9999, "\0\xff"])
def test_a_file_that_is_no_recording(meter, tmp_path, text):
    (tmp_path / "x").write_bytes(text.encode("latin-1"))
    assert "line 1 is not a sample" in meter("--replay", tmp_path / "x", code=2).stderr


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_is_named(meter, tmp_path, broken):
    good = '{"t": 0, "device": "a", "name": "b", "power_w": 1}'
    (tmp_path / "x").write_text(f'{good}\n\n{{"device": "a", "name": "b", {broken}}}\n')
    result = meter("--replay", tmp_path / "x", code=2)
    assert "line 3 is not a sample" in result.stderr and "Traceback" not in result.stderr


def test_an_empty_file_and_an_endless_one(meter, tmp_path):
    (tmp_path / "x").touch()
    assert "no samples in it" in meter("--replay", tmp_path / "x", code=2).stderr
    assert "no samples in it" in meter("--replay", "/dev/zero", code=2).stderr
    (tmp_path / "x").write_text("\n \n")
    assert "no samples in it" in meter("--replay", tmp_path / "x", code=2).stderr


def test_mark_of_byte_order_nulls_and_disorder_are_read(meter, tmp_path):
    rows = ['{"t": 2, "device": "a", "name": "b", "power_w": 300, "reasons": null, "reason_s": null}']
    rows += ['{"t": 0, "device": "a", "name": "b", "power_w": 100}']
    (tmp_path / "x").write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
    assert json.loads(meter("--json", "--replay", tmp_path / "x").stdout)["energy_j"] == 400


def test_no_file_is_overwritten(meter, tmp_path):
    file = samples(tmp_path / "r", {"t": 0, "power_w": 100})
    before = file.read_text()
    assert "not overwritten" in meter("--replay", file, "--record", file, code=2).stderr
    assert file.read_text() == before


def test_a_device_that_is_not_there(meter, tmp_path):
    message = meter("--devices", "nvidia:7", "--dry-run", powercap=zones(tmp_path / "p", 5), code=2).stderr
    assert "no such device: nvidia:7; there are rapl:package-0" in message
    message = meter(
        "--devices", "rapl:package-0,nvidia:7", "--", "touch", tmp_path / "ran", powercap=tmp_path / "p", code=2
    ).stderr
    assert "no such device: nvidia:7" in message and not (tmp_path / "ran").exists()


def test_devices_with_a_space_after_the_comma(meter):
    report = json.loads(meter("--json", "--replay", SAMPLE, "--devices", "nvidia:0, nvidia:3", code=1).stdout)
    assert [device["device"] for device in report["devices"]] == ["nvidia:0", "nvidia:3"]


def test_a_terminal_without_the_degree_sign():
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, PROGRAM, "--replay", SAMPLE], capture_output=True, text=True, env=env)
    assert (result.returncode, result.stderr) == (1, "")


def test_a_file_that_cannot_be_run(meter, tmp_path):
    (tmp_path / "x").write_text("text")
    (tmp_path / "x").chmod(0o755)
    assert "error: [Errno 8]" in meter("--", tmp_path / "x", powercap=zones(tmp_path / "p", 5), code=2).stderr


def test_reads_nvidia_smi(meter):
    result = meter("--json", "--seconds", "0.3", "--interval", "0.1", tools={"nvidia-smi": nvidia_smi()}, code=1)
    report = json.loads(result.stdout)
    first, second = report["devices"]
    assert (first["device"], first["peak_w"], first["limit_w"]) == ("nvidia:0", 650.25, 700)
    assert (first["clock_mhz"]["mean"], first["temp_c"], first["memory_c"]) == (1410, 61, 78)
    assert first["method"] == "integral of samples"
    assert first["energy_j"] == pytest.approx(650.25 * first["seconds"], rel=1e-2)  # seconds are rounded
    assert first["reasons"] == {"sw_power_cap": 1}  # the counter rises faster than time: cut at 100 %
    assert second["peak_w"] is None and second["memory_c"] is None
    assert report["findings"] == [
        "nvidia:1: hw_thermal_slowdown 100% of the time, hottest 88.0 °C",
        "nvidia:1: power limit 500 W, default 700 W",
        "nvidia:1: neither energy nor power can be read: it is missing in the total",
    ]
    assert second["energy_j"] is None and report["energy_j"] == first["energy_j"]


@pytest.mark.parametrize("field", ["clocks_event_reasons.active", "clocks_throttle_reasons.active"])
def test_older_drivers(meter, field):
    tools = {"nvidia-smi": nvidia_smi(GPUS[:1], counters=False, field=field)}
    assert "sw_power_cap 100%" in meter("--dry-run", tools=tools).stdout


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a C compiler: apt-get install gcc")
def test_the_energy_counter_beats_sampled_power(meter, tmp_path):
    (tmp_path / "nvml.c").write_text(NVML)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "nvml.so", tmp_path / "nvml.c"], check=True)
    cool = GPUS[1].replace("500.00", "700.00").replace("0x0000000000000044", "0x0")
    tools = {"nvidia-smi": nvidia_smi([GPUS[0], cool, cool.replace("1, NVIDIA", "2, NVIDIA")])}
    result = meter(
        "--json",
        "--units",
        "100",
        "--unit",
        "token",
        "--",
        "echo",
        "hello",
        tools=tools,
        nvml=tmp_path / "nvml.so",
        code=1,
    )
    report = json.loads(result.stdout)
    assert result.stderr == "hello\n"  # the command's output does not disturb the document
    assert (report["devices"][0]["energy_j"], report["devices"][0]["method"]) == (500, "counter")
    # NVML knows the second GPU not at all and the third without a counter
    assert [device["method"] for device in report["devices"][1:]] == ["integral of samples"] * 2
    assert report["energy_per_unit_j"] == 5


def test_reads_rapl_once_and_over_its_wrap(meter, tmp_path):
    folder = zones(tmp_path / "powercap", 9_000_000)
    zones(folder, 0, name="core", zone="intel-rapl:0:0")
    zones(folder, 1_000_000, name="dram", zone="intel-rapl:0:1")
    zones(folder, 5_000_000, name="psys", zone="intel-rapl:1")
    zones(folder, 9_000_000, zone="intel-rapl-mmio:0")
    write = "; ".join(
        f"echo {value} >{folder}/{zone}/energy_uj"
        for zone, value in [("intel-rapl:0", 2_000_000), ("intel-rapl:0:1", 1_500_000), ("intel-rapl:1", 9_000_000)]
    )
    report = json.loads(meter("--json", "--", "sh", "-c", write, powercap=folder).stdout)
    assert {device["device"]: device["energy_j"] for device in report["devices"]} == {
        "rapl:package-0": 3, "rapl:package-0/dram": 0.5, "rapl:psys": 4,
    }  # fmt: skip
    assert report["energy_j"] == 3.5  # psys contains the others


def test_says_that_rapl_needs_root(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("energy_meter", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder, notes, read = zones(tmp_path, 1), set(), Path.read_text

    def read_text(path, *args):
        if path.name == "energy_uj":
            raise PermissionError
        return read(path, *args)

    monkeypatch.setattr(Path, "read_text", read_text)  # root may read everything
    assert module.rapl(folder, notes) == [] and "root only" in notes.pop()


AMD = {"gpu": 3, "temperature": {"hotspot": {"value": 71, "unit": "C"}, "mem": {"value": 58, "unit": "C"}}, "clock": {
    "gfx_0": {"clk": {"value": 1850, "unit": "MHz"}}}, "energy": {"total_energy_consumption": {"value": 250.5, "unit": "J"}}}  # fmt: skip
AMD["power"] = {"socket_power": {"value": 640, "unit": "W"}, "throttle_status": "N/A"}
AMD["throttle"] = {"ppt_violation_status": "NOT ACTIVE", "hbm_thermal_violation_status": "ACTIVE"}


@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}])
def test_reads_amd_smi_of_either_form(meter, wrap):
    tools = {"amd-smi": f"echo '{json.dumps(wrap([AMD]))}'"}
    device = json.loads(meter("--json", "--dry-run", tools=tools, code=1).stdout)["devices"][0]
    assert (device["device"], device["peak_w"], device["clock_mhz"]["mean"]) == ("amd:3", 640, 1850)
    assert (device["temp_c"], device["memory_c"], device["method"]) == (71, 58, "counter")
    assert device["reasons"] == {"hbm_thermal": 1}


def test_reads_amd_smi_by_partition(meter):
    """Since ROCm 7 some states are lists by partition."""
    states = {
        "gfx_clk_below_host_limit_thermal_violation_status": {"xcp_0": ["NOT ACTIVE", "ACTIVE"], "xcp_1": ["N/A"]}
    }
    states["low_utilization_violation_status"] = {"xcp_0": ["NOT ACTIVE", "N/A"]}
    tools = {"amd-smi": f"echo '{json.dumps([dict(AMD, throttle=states)])}'"}
    device = json.loads(meter("--json", "--dry-run", tools=tools, code=1).stdout)["devices"][0]
    assert device["reasons"] == {"gfx_clk_below_host_limit_thermal": 1}


def test_a_radeon_without_the_counter(meter):
    gpu = dict(AMD, energy={"total_energy_consumption": {"value": 0.0, "unit": "J"}}, clock="N/A", throttle="N/A")
    device = json.loads(meter("--json", "--dry-run", tools={"amd-smi": f"echo '{json.dumps([gpu])}'"}).stdout)[
        "devices"
    ][0]
    assert device["method"] == "integral of samples" and device["clock_mhz"] is None


def test_reads_rocm_smi_where_amd_smi_is_missing(meter):
    card = {"Current Socket Graphics Package Power (W)": "140.0", "Accumulated Energy (uJ)": "7000000.0"}
    tools = {"rocm-smi": f"echo '{json.dumps({'card0': card, 'system': {}})}'"}
    device = json.loads(meter("--json", "--dry-run", tools=tools).stdout)["devices"][0]
    assert (device["device"], device["peak_w"], device["method"]) == ("amd:0", 140, "counter")


def test_a_tool_that_prints_nonsense_is_a_note(meter, tmp_path):
    tools = {"amd-smi": "echo 'AMD-SMI is not installed'"}
    result = meter("--seconds", "0.1", tools=tools, powercap=zones(tmp_path / "p", 5))
    assert "note: a tool printed what this program cannot read" in result.stdout


def test_a_tool_that_prints_no_utf8_is_a_note(meter, tmp_path):
    tools = {"nvidia-smi": r"printf '\377\376'", "amd-smi": r"printf '\377\376'"}
    assert "note: a tool" in meter("--dry-run", tools=tools, powercap=zones(tmp_path / "p", 5)).stdout


def test_a_slow_tool_is_no_silence_of_the_others(meter, tmp_path):
    tools = {"nvidia-smi": "sleep 0.3\n" + nvidia_smi(GPUS[:1])}
    meter("--dry-run", tools=tools, powercap=zones(tmp_path / "p", 5))  # no finding


def test_the_code_of_the_command_is_kept(meter, tmp_path):
    folder = zones(tmp_path / "p", 5)
    meter("--", "sh", "-c", "exit 7", powercap=folder, code=7)
    meter("--", "sh", "-c", "kill -9 $$", powercap=folder, code=137)


@pytest.mark.parametrize("tool", ["exit 2", "sleep 0.4; exit 2"])
def test_ctrl_c_still_reports(meter, tmp_path, tool):
    """Also while a slow tool is asked, which the signal ends, too."""
    process = meter("--interval", "0.01", "--", "sh", "-c", "trap 'exit 3' INT; echo ready; while :; do sleep 0.1; done",
                    tools={"rocm-smi": tool}, powercap=zones(tmp_path / "p", 5), wait=False)  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, error = process.communicate(timeout=20)
    assert process.returncode == 3 and "total 0.0 J" in out and "Traceback" not in error


def test_a_time_limit_ends_the_command_and_still_reports(meter, tmp_path):
    process = meter("--", "sh", "-c", "echo ready; exec sleep 60", powercap=zones(tmp_path / "p", 5), wait=False)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.terminate()  # the meter alone: nobody else would end the command
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 143 and "total 0.0 J" in out
