"""Run energy_meter.py with stand-in tools, made-up RAPL zones and recorded samples."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "docs/compute/energy_meter.py"
SAMPLE = PROGRAM.with_name("energy_meter_sample.jsonl")
GPUS = [
    "0, NVIDIA H100 80GB HBM3, 650.25, 700.00, 700.00, 1410, 61, 78, 0x0000000000000004",
    "1, NVIDIA H100 80GB HBM3, [N/A], 500.00, 700.00, 1200, 88, N/A, 0x0000000000000044",
]


def runner(tmp_path):
    """Run the program with stand-in tools first in PATH and no other meter; returns what it did."""

    def run(*options, tools=None, nvml="/nonexistent.so", powercap=None, code=0, wait=True):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in (tools or {}).items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        env = {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        command = [sys.executable, PROGRAM, "--nvml", nvml, "--powercap", powercap or tmp_path / "none", *options]
        if not wait:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
            )
        result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
        assert result.returncode == code, result.stdout + result.stderr
        return result

    return run


def nvidia_smi(rows=GPUS, counters=True, field="clocks_event_reasons.active"):
    """A driver that knows `field` and, if it has them, counters that rise by a second a call."""
    lines = "\n".join(f'echo "{row}{", $((n * 1000000)), 0, 0, 0" if counters else ""}"' for row in rows)
    unknown = "" if counters else '*counters*) echo "not a valid field to query"; exit 2;;'
    return f"""n=$(cat "$0.n" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$0.n"
case "$1" in {unknown} *{field}*) ;; *) exit 2;; esac
{lines}"""


def zones(folder, microjoules, name="package-0", wrap=10_000_000, zone="intel-rapl:0"):
    (folder / zone).mkdir(parents=True, exist_ok=True)
    for file, value in {"name": name, "energy_uj": microjoules, "max_energy_range_uj": wrap}.items():
        (folder / zone / file).write_text(f"{value}\n")
    return folder


def samples(path, *rows):
    path.write_text("".join(json.dumps({"device": "nvidia:0", "name": "GPU", **row}) + "\n" for row in rows))
    return path
