#!/usr/bin/env python3
"""Run a command and report energy, power, clocks and throttle reasons of every GPU and CPU that can be read.

    python3 energy_meter.py --dry-run                                      what can be read here
    python3 energy_meter.py --units 4096000 --unit token -- torchrun train.py
    python3 energy_meter.py --seconds 60 --record node7.jsonl              watch a node for a minute
    python3 energy_meter.py --replay energy_meter_sample.jsonl             report on recorded samples, anywhere

Energy comes from counters where they exist (NVML, amd-smi, RAPL), else it is the integral of sampled power. Fans,
network cards and the losses of power supplies are in none of them. With --json the command's output goes to stderr.
Exit codes: 0 measured; 1 findings; 2 misuse or nothing to read; the command's own code if that is not 0.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# names of nvmlClocksEventReasons, bit 0 first
REASONS = ["gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost"]
REASONS += ["sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"]
FAULTS = re.compile("slowdown|thermal|thrm|prochot|throttled")
NVIDIA = "index name power.draw enforced.power.limit power.default_limit clocks.sm temperature.gpu temperature.memory"
NUMBERS = ["t", "energy_j", "wrap_j", "power_w", "limit_w", "default_w", "clock_mhz", "temp_c", "memory_c"]
MOST = 1e15  # of any value in a recording
TIMED = ["sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"]


def number(value) -> float | None:
    """A number out of what a tool printed: 71.5, "71.5 W", {"value": 71.5}; None for N/A."""
    match = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", str(value.get("value") if isinstance(value, dict) else value))
    return float(match.group()) if match else None


def output(*command: str) -> str:
    """What a tool prints, nothing if it fails or hangs."""
    try:
        printed = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=15)
        return printed.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


class Nvidia:
    """nvidia-smi for power, clocks and reasons, NVML's counter for energy."""

    def __init__(self, library: str) -> None:
        timed = ["clocks_event_reasons.active", *(f"clocks_event_reasons_counters.{name}" for name in TIMED)]
        for reasons in (timed, timed[:1], ["clocks_throttle_reasons.active"]):  # one unknown field fails the query
            fields = ",".join(NVIDIA.split() + reasons)
            self.query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
            if output(*self.query):
                break
        try:
            self.nvml = ctypes.CDLL(library)
            self.usable = self.nvml.nvmlInit_v2() == 0
        except (OSError, AttributeError):
            self.usable = False

    def energy(self, index: int) -> float | None:
        """Joules since the driver was loaded."""
        handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
        if not self.usable or self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            return None
        failed = self.nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
        return None if failed else millijoules.value / 1000

    def samples(self) -> list[dict]:
        rows = []
        for line in output(*self.query).splitlines():
            index, name, *values = (value.strip() for value in line.split(","))
            power, limit, default, clock, temp, memory = (number(value) for value in values[:6])
            bits = int(values[6], 16) if values[6].startswith("0x") else 0
            row = {"device": f"nvidia:{index}", "name": name, "power_w": power, "limit_w": limit, "default_w": default}
            row.update(clock_mhz=clock, temp_c=temp, memory_c=memory, energy_j=self.energy(int(index)))
            row["reasons"] = [reason for bit, reason in enumerate(REASONS) if bits >> bit & 1]
            row["reason_s"] = {key: us / 1e6 for key, us in zip(TIMED, map(number, values[7:])) if us is not None}
            rows.append(row)
        return rows


def amd_smi() -> list[dict]:
    """Samples from amd-smi, whose document is a list or has it under gpu_data."""
    gpus, rows = json.loads(output("amd-smi", "metric", "--json") or "[]"), []
    for gpu in gpus.get("gpu_data", []) if isinstance(gpus, dict) else gpus:
        parts = ("power", "temperature", "clock", "energy", "throttle")  # "N/A" where there is nothing
        power, heat, clock, energy, throttle = (gpu.get(p) if isinstance(gpu.get(p), dict) else {} for p in parts)
        ending, states = "_violation_status", {**power, **throttle}
        status = {key[: -len(ending)]: json.dumps(state) for key, state in states.items() if key.endswith(ending)}
        reasons = [key for key in status if '"ACTIVE"' in status[key]]  # one word, or words by partition
        reasons += ["throttled"] if power.get("throttle_status") == "THROTTLED" else []
        row = {"device": f"amd:{gpu.get('gpu')}", "name": "AMD GPU", "reasons": reasons}
        row.update(power_w=number(power.get("socket_power")), clock_mhz=number((clock.get("gfx_0") or {}).get("clk")))
        row.update(temp_c=number(heat.get("hotspot")), memory_c=number(heat.get("mem")))
        row["energy_j"] = number(energy.get("total_energy_consumption")) or None  # 0: a card without the counter
        rows.append(row)
    return rows


def rocm_smi() -> list[dict]:
    """Samples from rocm-smi, for machines without amd-smi."""
    cards, rows = json.loads(output("rocm-smi", "--showpower", "--showenergycounter", "--json") or "{}"), []
    for card in filter(re.compile("card").match, cards):
        power = [number(cards[card][key]) for key in cards[card] if key.endswith("Power (W)") and "Max" not in key]
        row = {"device": f"amd:{card[4:]}", "name": "AMD GPU", "power_w": power[0] if power else None}
        energy = number(cards[card].get("Accumulated Energy (uJ)"))
        rows.append({**row, "energy_j": energy / 1e6 if energy else None})
    return rows


def rapl(folder: Path, notes: set[str]) -> list[dict]:
    """Packages, DRAM and the platform (psys) of /sys/class/powercap; core and uncore are inside the package."""
    rows = []
    for zone in sorted(folder.glob("intel-rapl:*")):  # intel-rapl-mmio would count a package twice
        try:
            name = (zone / "name").read_text().strip()
            if name == "dram":
                name = f"{(folder / zone.name.rsplit(':', 1)[0] / 'name').read_text().strip()}/dram"
            elif not name.startswith(("package", "psys")):
                continue
            energy, wrap = (int((zone / file).read_text()) / 1e6 for file in ("energy_uj", "max_energy_range_uj"))
            rows.append({"device": f"rapl:{name}", "name": "CPU meter", "energy_j": energy, "wrap_j": wrap})
        except PermissionError:
            notes.add("RAPL is readable by root only: run with sudo, or do without the CPUs")
        except (OSError, ValueError):
            continue
    return rows


class Meter:
    """All sources of this machine."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.start, self.notes, self.failed = args, 0.0, set(), []
        self.rounds, self.ended, self.file = 0, 0.0, None
        if args.record and not args.replay:  # fails now rather than after the run
            self.file = args.record.open("ab", buffering=0)
        self.sources = [lambda: rapl(args.powercap, self.notes)]
        if shutil.which("nvidia-smi") and not args.replay:
            self.sources.append(Nvidia(args.nvml).samples)
        self.sources += [amd_smi] if shutil.which("amd-smi") else [rocm_smi] if shutil.which("rocm-smi") else []

    def take(self) -> list[dict]:
        """One sample of every device, stamped with seconds since the first."""
        rows = []
        for source in self.sources:
            try:
                found = source()
            except (ValueError, LookupError, TypeError, AttributeError) as error:  # a tool printed something else
                self.notes.add(f"a tool printed what this program cannot read: {error}")
                continue
            now = time.monotonic()
            self.start = self.start or now
            rows += [{"t": round(now - self.start, 4), **row} for row in found]
        self.rounds += 1
        self.keep(rows)
        return rows

    def keep(self, rows: list[dict]) -> None:
        """Add samples to --record at once: a machine that dies leaves those it took. Full disks end with whole lines."""
        if not self.file:
            return
        lines, good = "".join(json.dumps(row) + "\n" for row in rows).encode(), 0
        try:
            good = self.file.seek(0, os.SEEK_END) if self.file.seekable() else 0
            if self.file.write(lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.failed.append(f"{self.args.record} lacks the samples from {rows[0]['t']:.0f} s on: {error.strerror}")
            with contextlib.suppress(OSError):
                self.file.truncate(good)
            self.file = None

    def watch(self) -> tuple[list[dict], int]:
        """Samples from just before the command starts to just after it ends, and its exit code."""
        rows, code = self.take(), None
        if not rows or absent(rows, self.args):
            return rows, 0
        command, out = self.args.command or ["sleep", str(self.args.seconds)], sys.stderr if self.args.json else None
        child = subprocess.Popen(command, stdout=out)
        signal.signal(signal.SIGINT, lambda *_: None)  # the command got it, too, and its end is reported
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())  # a batch system's time limit
        while code is None:
            try:
                code = child.wait(self.args.interval)
            except subprocess.TimeoutExpired:
                rows += self.take()
        self.ended = time.monotonic() - self.start
        return rows + self.take(), code if code >= 0 else 128 - code


def chosen(rows: list[dict], args: argparse.Namespace) -> list[dict]:
    """The samples of the devices that are asked for."""
    return [row for row in rows if not args.devices or row["device"] in args.devices]


def absent(rows: list[dict], args: argparse.Namespace) -> list[str]:
    """The devices that are asked for and have no sample."""
    return [name for name in args.devices if all(row["device"] != name for row in rows)]


def recorded(path: Path) -> list[dict]:
    """The samples of a file in order of time; ValueError names the first line that is none."""
    if not path.stat().st_size and not path.is_fifo():  # before an endless device is read
        raise ValueError(f"{path}: no samples in it")
    rows = []
    for count, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            values = [row.get(key) for key in NUMBERS] + list((row.get("reason_s") or {}).values())
            texts = [row["device"], row["name"], *(row.get("reasons") or [])]
            good = all(value is None or -MOST < value < MOST for value in values) and row["t"] is not None  # no nan
            if not good or not all(isinstance(text, str) for text in texts):
                raise ValueError
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise ValueError(f"{path}: line {count} is not a sample of this program") from None
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: no samples in it")
    return sorted(rows, key=lambda row: row["t"])


def summary(rows: list[dict]) -> dict:
    """Energy (J), power (W), clock (MHz), temperatures (°C) and reasons (share of time) of one device's samples."""
    first, last = rows[0], rows[-1]
    seconds = last["t"] - first["t"]
    keys = ("energy_j", "power_w", "clock_mhz", "temp_c", "memory_c")
    counter, watts, clocks, heat, memory = ([row[key] for row in rows if row.get(key) is not None] for key in keys)
    steps = [after - before for before, after in zip(counter, counter[1:])]
    steps = [step if step >= 0 else step + (first.get("wrap_j") or math.nan) for step in steps]  # nan: driver reloaded
    counted = len(counter) == len(rows) and not math.isnan(sum(steps))
    powered = [row for row in rows if row.get("power_w") is not None]
    integral = sum((b["t"] - a["t"]) * (a["power_w"] + b["power_w"]) / 2 for a, b in zip(powered, powered[1:]))
    if counted and not watts:
        watts = [step / (b["t"] - a["t"]) for step, a, b in zip(steps, rows, rows[1:]) if b["t"] > a["t"]]
    energy = round(sum(steps) if counted else integral, 3) if counted or powered else None
    report = {"device": first["device"], "name": first["name"], "samples": len(rows), "seconds": round(seconds, 3)}
    report.update(energy_j=energy, method="counter" if counted else "integral of samples", last_t=last["t"])
    report["integral_j"] = round(integral, 3) or None
    report["mean_w"] = round(energy / seconds, 2) if seconds and energy is not None else None
    report.update(peak_w=max(watts, default=None), limit_w=first.get("limit_w"), default_w=first.get("default_w"))
    report["clock_mhz"] = {"mean": round(sum(clocks) / len(clocks)), "min": round(min(clocks))} if clocks else None
    report.update(temp_c=max(heat, default=None), memory_c=max(memory, default=None))
    active = [reason for row in rows for reason in row.get("reasons") or []]
    shares = {reason: active.count(reason) / len(rows) for reason in active}
    for reason, value in (last.get("reason_s") or {}).items():  # the driver's own clock beats the samples
        before = (first.get("reason_s") or {}).get(reason)
        if seconds and before is not None and value is not None and value > before:
            shares[reason] = min((value - before) / seconds, 1)
    report["reasons"] = {reason: round(share, 3) for reason, share in sorted(shares.items()) if share > 0}
    return report


def analyse(rows: list[dict], args: argparse.Namespace, rounds: int = 0, ended: float = 0.0) -> dict:
    """The whole report of samples, with what somebody should look at; `rounds` were taken until `ended`, if known."""
    names = dict.fromkeys(row["device"] for row in rows)
    devices = [summary([row for row in rows if row["device"] == name]) for name in names]
    times, most = [ended or rows[0]["t"], *(row["t"] for row in rows)], max(device["samples"] for device in devices)
    start, end, found, most = min(times), max(times) - min(times), [], max(most, rounds)  # a part may begin at any time
    total = sum(device["energy_j"] or 0 for device in devices if not device["device"].startswith("rapl:psys"))
    report = {"program": "energy_meter", "seconds": round(end, 3), "devices": devices, "energy_j": round(total, 3)}
    report["mean_w"] = round(total / end, 2) if end else 0
    if args.units:
        report.update(units=args.units, unit=args.unit, energy_per_unit_j=total / args.units)
    for device in devices:
        name, limit, default = device["device"], device["limit_w"], device["default_w"]
        for reason, share in device["reasons"].items():
            if FAULTS.search(reason):
                found.append(f"{name}: {reason} {share:.0%} of the time, hottest {device['temp_c']} °C")
        if limit and default and limit < default - 1:
            found.append(f"{name}: power limit {limit:g} W, default {default:g} W")
        last = device["last_t"] - start
        if last < end * 0.9 and device["samples"] < most:
            found.append(f"{name}: no sample after {last:.0f} s of {end:.0f} s")
        if device["energy_j"] is None:
            found.append(f"{name}: neither energy nor power can be read: it is missing in the total")
    return dict(report, findings=found)


def show(report: dict) -> None:
    """The report for people."""
    print(f"{'device':20} {'energy J':>10} {'mean W':>7} {'peak W':>7} {'MHz':>5} {'°C':>4} {'mem':>4}  reasons")
    for device in report["devices"]:
        cells = [device["mean_w"], device["peak_w"], (device["clock_mhz"] or {}).get("mean"), device["temp_c"]]
        mean, peak, clock, *heat = ("-" if cell is None else f"{cell:.0f}" for cell in [*cells, device["memory_c"]])
        energy = ("" if device["method"] == "counter" else "~") + format(device["energy_j"] or 0, ".1f")
        energy = "-" if device["energy_j"] is None else energy
        why = ", ".join(f"{reason} {share:.0%}" for reason, share in device["reasons"].items())
        line = f"{device['device']:20} {energy:>10} {mean:>7} {peak:>7} {clock:>5} {heat[0]:>4} {heat[1]:>4}  {why}"
        print(line.rstrip())
    print(f"total {report['energy_j']:.1f} J in {report['seconds']:.1f} s, mean {report['mean_w']:.0f} W")
    if "units" in report:
        print(f"{report['energy_per_unit_j']:.6g} J per {report['unit']}")
    for line in [f"note: {note}" for note in report["notes"]] + [f"finding: {found}" for found in report["findings"]]:
        print(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.usage = "energy_meter.py [options] -- COMMAND"
    option = parser.add_argument
    option("--units", type=float, help="tokens, steps or samples that the command processes")
    option("--unit", default="unit", help="what one of them is called")
    option("--interval", type=float, default=1.0, help="seconds between samples (default: 1)")
    option("--seconds", type=float, help="watch for so long instead of running a command")
    option(
        "--devices",
        type=lambda text: text.replace(" ", "").split(","),
        default=[],
        help="only these: nvidia:0,rapl:package-0",
    )
    option("--record", type=Path, help="write the samples here, one JSON object a line")
    option("--replay", type=Path, help="report on such a file; measure nothing")
    option("--powercap", type=Path, default=Path("/sys/class/powercap"), help="folder of RAPL's zones")
    option("--nvml", default="libnvidia-ml.so.1", help="NVML's library")
    option("--dry-run", action="store_true", help="take one sample, run nothing")
    option("--json", action="store_true", help="one JSON document on standard output")
    option("command", nargs=argparse.REMAINDER, help="-- command and its arguments")
    args = parser.parse_args()
    args.command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if sum(map(bool, (args.command, args.seconds, args.replay, args.dry_run))) != 1:
        parser.error("give one of: -- COMMAND, --seconds, --replay, --dry-run")
    if not all(0 < value < math.inf for value in (args.units, args.interval, args.seconds) if value is not None):
        parser.error("--units, --interval and --seconds must be numbers above 0")
    if args.command and not shutil.which(args.command[0]):
        parser.error(f"command not found: {args.command[0]}")
    if args.record and args.record.is_file() and args.record.stat().st_size:
        parser.error(f"{args.record} exists and is not overwritten: give another name")
    try:
        meter, code = Meter(args), 0
        if args.replay:
            rows = recorded(args.replay)
            if args.record:
                args.record.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            rows, code = (meter.take(), 0) if args.dry_run else meter.watch()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    names, unknown, rows = dict.fromkeys(row["device"] for row in rows), absent(rows, args), chosen(rows, args)
    if names and unknown:
        parser.error(f"no such device: {', '.join(unknown)}; there are {', '.join(names)}")
    if not rows:
        missing = "no nvidia-smi, amd-smi or rocm-smi that answers, and no RAPL zone"
        parser.error(f"nothing to read: {'; '.join(meter.notes) or missing}. --replay works anywhere")
    report = dict(analyse(rows, args, meter.rounds, meter.ended), notes=sorted(meter.notes), command_exit=code)
    report["findings"] += meter.failed
    print(json.dumps(report, indent=1)) if args.json else show(report)
    return code or (1 if report["findings"] else 0)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal without the degree sign
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the command began
        code = 130
    except OSError as problem:  # standard output is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"energy_meter.py: {problem}", file=sys.stderr)
        code = 2
    sys.exit(code)
