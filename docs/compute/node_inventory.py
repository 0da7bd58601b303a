#!/usr/bin/env python3
"""Take the inventory of a GPU node: CPUs, NUMA, memory, PCIe links, GPUs, network cards, drives, drivers, errors.

    python3 node_inventory.py                    a summary
    python3 node_inventory.py --json             one JSON document, for node_acceptance.py and for keeping
    python3 node_inventory.py --root /host       in a container that has the host's file system at /host

Reads /sys, /proc and dmesg and, where present, asks nvidia-smi, amd-smi or rocm-smi; writes and loads nothing.
Root sees more: the kernel log, serial numbers. Exit codes: 0 done; 2 misuse.
"""

from __future__ import annotations

import argparse
import collections
import json
import platform
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CLASSES = {"0x0300": "gpu", "0x0302": "gpu", "0x0380": "gpu", "0x1200": "accelerator"}
CLASSES.update({"0x0200": "network", "0x0207": "network", "0x0108": "nvme"})
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # GT/s → PCIe generation
# of the kernel's command line only what changes speed: the rest may hold secrets
KERNEL_WORDS = r"\b(iommu|intel_iommu|amd_iommu|pci|numa_balancing|mitigations|hugepages|hugepagesz|isolcpus)=\S+"
PERSONAL = ("hostname", "serial", "uuid")


def read(path: Path) -> str:
    """Contents of a small file without surrounding space; "" where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(text: str | None) -> float | int | None:
    """The first number of `81559 MiB` or `16x`; None for N/A."""
    found = re.search(r"-?\d+(\.\d+)?", text or "")
    return (float(found[0]) if found[1] else int(found[0])) if found else None


def tool(*command: str) -> str:
    """Standard output of a vendor's tool; "" where it is missing, fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def match(pattern: str, text: str, default: str = "") -> str:
    """The first group of a pattern in a text."""
    found = re.search(pattern, text, re.M)
    return found[1].strip() if found else default


def inventory(root: Path) -> dict:
    """Everything that is known of this machine without loading it."""
    proc, sys_ = root / "proc", root / "sys"
    cpuinfo, dmi = read(proc / "cpuinfo"), sys_ / "class/dmi/id"
    pcie = pci_devices(sys_)
    return {
        "host": {
            "hostname": platform.node(),
            "os": match(r'^PRETTY_NAME="?([^"\n]+)', read(root / "etc/os-release")),
            "kernel": read(proc / "sys/kernel/osrelease") or platform.release(),
            "kernel_options": sorted(m[0] for m in re.finditer(KERNEL_WORDS, read(proc / "cmdline"))),
            "product": " ".join(filter(None, (read(dmi / "sys_vendor"), read(dmi / "product_name")))),
            "bios": read(dmi / "bios_version"),
        },
        "cpu": {
            "model": match(r"^(?:model name|CPU part)\s*:(.*)", cpuinfo, platform.machine()),
            "sockets": len(set(re.findall(r"^physical id\s*:(.*)", cpuinfo, re.M))) or 1,
            "threads": len(re.findall(r"^processor\s*:", cpuinfo, re.M)),
            "microcode": match(r"^microcode\s*:(.*)", cpuinfo),
            "governor": read(sys_ / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        },
        "numa": [
            {"node": int(node.name[4:]), "cpus": read(node / "cpulist"), "memory_gb": meminfo(read(node / "meminfo"))}
            for node in sorted((sys_ / "devices/system/node").glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
        ],
        "memory_gb": meminfo(read(proc / "meminfo")),
        "gpus": nvidia_gpus(sys_) + amd_gpus(sys_),
        "nics": nics(sys_),
        "disks": disks(sys_),
        "pcie": pcie,
        "software": software(root),
        "kernel_log": kernel_log(tool("dmesg")),
    }


def meminfo(text: str) -> float:
    """MemTotal of a meminfo file in GB (10^9 bytes)."""
    return round(float(match(r"MemTotal:\s*(\d+) kB", text, "0")) * 1024 / 1e9, 1)


def pci_devices(sys_: Path) -> list[dict]:
    """GPUs, other accelerators, network cards and NVMe drives with their PCIe links."""
    found = []
    for device in sorted((sys_ / "bus/pci/devices").glob("*")):
        kind = CLASSES.get(read(device / "class")[:6])
        if kind:
            speeds = [read(device / f"{which}_link_speed").split(" ")[0] for which in ("current", "max")]
            widths = [number(read(device / f"{which}_link_width")) for which in ("current", "max")]
            link = {"gen": GENERATIONS.get(speeds[0]), "gen_max": GENERATIONS.get(speeds[1])}
            link.update(width=widths[0], width_max=widths[1], numa=number(read(device / "numa_node")))
            identity = f"{read(device / 'vendor')[2:]}:{read(device / 'device')[2:]}"
            found.append({"bus": device.name, "kind": kind, "id": identity, **link})
    return found


def nvidia_gpus(sys_: Path) -> list[dict]:
    """What `nvidia-smi -q -x` says of each GPU."""
    text = tool("nvidia-smi", "-q", "-x")
    try:
        described = ElementTree.fromstring(text).findall("gpu") if text else []
    except ElementTree.ParseError:  # cut short, or a warning stands before it
        return []
    links = re.split(r"^GPU (?=\d+:)", tool("nvidia-smi", "nvlink", "--status"), flags=re.M)[1:] if text else []
    gpus = []
    for index, gpu in enumerate(described):

        def get(*paths: str, gpu=gpu) -> str:
            values = (gpu.findtext(path) for path in paths)
            return next((value.strip() for value in values if value and value.strip() not in ("N/A", "[N/A]")), "")

        volatile = gpu.find("ecc_errors/volatile")
        uncorrectable = [number(e.text) for e in (volatile if volatile is not None else ()) if "uncorrect" in e.tag]
        slow = "clocks_event_reasons", "clocks_throttle_reasons"
        reasons = [
            e.tag.partition("_reason_")[2] for tag in slow for e in gpu.findall(f"{tag}/*") if e.text == "Active"
        ]
        power, info = "gpu_power_readings", "pci/pci_gpu_link_info"
        bus = get("pci/pci_bus_id").lower()[-12:]
        ports = re.findall(r"link \d+: (\S+)", links[index].lower()) if index < len(links) else []  # older: inActive
        gpus.append(
            {
                "index": index,
                "bus": bus,
                "name": get("product_name"),
                "serial": get("serial"),
                "uuid": get("uuid"),
                "vbios": get("vbios_version"),
                "memory_gb": round((number(get("fb_memory_usage/total")) or 0) * 2**20 / 1e9, 1),
                "numa": number(read(sys_ / "bus/pci/devices" / bus / "numa_node")),
                "pcie_gen": number(get(f"{info}/pcie_gen/current_link_gen")),
                "pcie_gen_max": number(get(f"{info}/pcie_gen/max_link_gen")),
                "pcie_width": number(get(f"{info}/link_widths/current_link_width")),
                "pcie_width_max": number(get(f"{info}/link_widths/max_link_width")),
                "replays": number(get("pci/replay_counter")),
                "ecc": get("ecc_mode/current_ecc"),
                "uncorrectable": sum(filter(None, uncorrectable)),
                "remap_pending": get("remapped_rows/remapped_row_pending") == "Yes",
                "remap_failure": get("remapped_rows/remapped_row_failure") == "Yes",
                "sram_threshold": get("ecc_errors/aggregate/sram_threshold_exceeded") == "Yes",
                "power_limit_w": number(get(f"{power}/current_power_limit", "power_readings/power_limit")),
                "power_default_w": number(get(f"{power}/default_power_limit", "power_readings/default_power_limit")),
                "slowdowns": [reason for reason in reasons if re.search("thermal|hw_", reason)],
                "idle": "gpu_idle" in reasons,
                "persistence": get("persistence_mode"),
                "mig": get("mig_mode/current_mig"),
                "fabric": get("fabric/state"),
                "links_up": sum("inactive" not in port for port in ports),
                "links_down": sum("inactive" in port for port in ports),
            }
        )
    return gpus


def amd_gpus(sys_: Path) -> list[dict]:
    """What the amdgpu driver says in sysfs of each GPU; names from amd-smi or rocm-smi."""
    gpus: list[dict] = []
    for device in sorted((sys_ / "bus/pci/devices").glob("*/mem_info_vram_total")):
        device = device.parent
        pages = re.findall(r": ([RPF])$", read(device / "ras/gpu_vram_bad_pages"), re.M)
        counts = [read(path) for path in sorted((device / "ras").glob("*_err_count"))]
        gpus.append(
            {
                "index": len(gpus),
                "bus": device.name,
                "name": read(device / "product_name"),
                "serial": read(device / "unique_id"),
                "vbios": read(device / "vbios_version"),
                "memory_gb": round((number(read(device / "mem_info_vram_total")) or 0) / 1e9, 1),
                "numa": number(read(device / "numa_node")),
                "pcie_gen": GENERATIONS.get(read(device / "current_link_speed").split(" ")[0]),
                "pcie_gen_max": GENERATIONS.get(read(device / "max_link_speed").split(" ")[0]),
                "pcie_width": number(read(device / "current_link_width")),
                "pcie_width_max": number(read(device / "max_link_width")),
                "uncorrectable": sum(int(n) for text in counts for n in re.findall(r"^ue: (\d+)", text, re.M)),
                "remap_pending": "P" in pages,
                "remap_failure": "F" in pages,
                "bad_pages": len(pages),
            }
        )
    if gpus and not all(gpu["name"] for gpu in gpus):
        static = tool("amd-smi", "static", "--asic", "--json") or tool("rocm-smi", "--showproductname", "--json")
        names = re.findall(r'"(?:market_name|MARKET_NAME|Card [Ss]eries)": "([^"]+)"', static)
        for gpu, name in zip(gpus, names if len(names) == len(gpus) else []):
            gpu["name"] = name
    return gpus


def nics(sys_: Path) -> list[dict]:
    """RDMA ports and Ethernet interfaces of real devices."""
    found = []
    for port in sorted((sys_ / "class/infiniband").glob("*/ports/*")):
        device = port.parent.parent
        found.append(
            {
                "name": f"{device.name}:{port.name}",
                "bus": (device / "device").resolve().name,
                "state": read(port / "state").split(": ")[-1],
                "rate_gbps": number(read(port / "rate")),
                "layer": read(port / "link_layer"),
                "firmware": read(device / "fw_ver"),
                "link_downed": number(read(port / "counters/link_downed")),
            }
        )
    for device in sorted((sys_ / "class/net").glob("*/device")):
        card, speed = device.parent, number(read(device.parent / "speed"))
        rate = speed / 1000 if speed and speed > 0 else None
        state = {"name": card.name, "bus": device.resolve().name, "state": read(card / "operstate"), "rate_gbps": rate}
        found.append({**state, "mtu": number(read(card / "mtu"))})
    return found


def disks(sys_: Path) -> list[dict]:
    """Local drives, without loop, RAM and mapped devices."""
    found = []
    for disk in sorted((sys_ / "block").glob("*")):
        size = (number(read(disk / "size")) or 0) * 512 / 1e9
        if size and not re.match(r"(loop|ram|zram|dm-|md|sr)\d", disk.name):
            model, firmware = read(disk / "device/model"), read(disk / "device/firmware_rev")
            found.append({"name": disk.name, "model": model, "size_gb": round(size, 1), "firmware": firmware})
    return found


def software(root: Path) -> dict[str, str]:
    """Versions of drivers and stacks that are there."""
    versions = {
        "nvidia": match(r"Kernel Module(?: for \S+)?\s+([\d.]+)", read(root / "proc/driver/nvidia/version")),
        "amdgpu": read(root / "sys/module/amdgpu/version"),
        "rocm": read(root / "opt/rocm/.info/version"),
        "mlx5_core": read(root / "sys/module/mlx5_core/version"),
        "nvidia_peermem": read(root / "sys/module/nvidia_peermem/version"),
        "python": platform.python_version(),
    }
    return {name: version for name, version in versions.items() if version}


def kernel_log(text: str) -> dict:
    """How often each Xid and SXid, uncorrectable errors of amdgpu and fatal PCIe errors were logged since boot."""

    def count(pattern: str) -> dict[str, int]:
        return dict(collections.Counter(re.findall(pattern, text)))

    return {
        "readable": bool(text),
        "xid": count(r"NVRM: Xid \([^)]*\): (\d+)"),
        "sxid": count(r"SXid \([^)]*\): (\d+)"),
        "amdgpu": len(re.findall(r"amdgpu.*(?:uncorrectable|poison|bad page)", text)),
        "pcie_fatal": len(re.findall(r"AER: .*(?:Uncorrect\w+ \(Fatal\)|Fatal error)", text)),
    }


# --- command line -----------------------------------------------------------------------------


def without_names(value):
    """The inventory without host names, serial numbers and UUIDs."""
    if isinstance(value, dict):
        return {key: "" if key in PERSONAL else without_names(inner) for key, inner in value.items()}
    return [without_names(inner) for inner in value] if isinstance(value, list) else value


def summary(found: dict) -> str:
    """A few lines for people."""
    host, cpu, lines = found["host"], found["cpu"], []
    lines.append(
        f"{host['hostname'] or 'a node'}: {host['product'] or 'unknown product'}, {host['os']}, {host['kernel']}"
    )
    lines.append(
        f"CPU     {cpu['sockets']} x {cpu['model']}, {cpu['threads']} threads, {len(found['numa'])} NUMA nodes"
    )
    lines.append(f"memory  {found['memory_gb']} GB")
    for gpu in found["gpus"]:
        link = f"Gen {gpu['pcie_gen'] or '?'} x{gpu['pcie_width'] or '?'}"
        lines.append(f"GPU {gpu['index']}   {gpu['name']}, {gpu['memory_gb']} GB, PCIe {link}, {gpu['bus']}")
    lines += [f"NIC     {nic['name']}, {nic['rate_gbps']} Gb/s, {nic['state']}" for nic in found["nics"]]
    lines += [f"drive   {disk['name']}, {disk['model']}, {disk['size_gb']} GB" for disk in found["disks"]]
    lines += [f"version {name} {version}" for name, version in found["software"].items()]
    log = found["kernel_log"]
    errors = {name: value for name, value in log.items() if value and name != "readable"}
    lines.append(
        f"errors  {errors or 'none logged'}" if log["readable"] else "errors  dmesg cannot be read: run as root"
    )
    return "\n".join(lines)


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="where /sys, /proc, /etc and /opt are (default: /)"
    )
    parser.add_argument("--anonymous", action="store_true", help="leave out host name, serial numbers and UUIDs")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    args = parser.parse_args()
    if not (args.root / "proc").is_dir():
        parser.error(f"{args.root / 'proc'} is no directory: --root is where /proc and /sys are, on Linux")
    found = inventory(args.root)
    found = without_names(found) if args.anonymous else found
    print(json.dumps(found, indent=1) if args.json else summary(found))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a traceback
    sys.exit(main())
