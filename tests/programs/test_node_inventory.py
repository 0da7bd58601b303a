"""docs/compute/node_inventory.py: this machine for real, an NVIDIA and an AMD node from what their tools print."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import nvidia_smi

PROGRAM = Path(__file__).parents[2] / "docs/compute/node_inventory.py"


def take(*options: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, PROGRAM, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env})


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a stand-in for a tool on PATH: it prints what stands after the options that it is called with."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(name: str, **answers: str) -> None:
        cases = ""
        for number, (option, text) in enumerate(answers.items()):
            (folder / f"{name}.{number}").write_text(text)
            cases += f'*"{option}"*) cat "{folder}/{name}.{number}";;\n'
        path = folder / name
        path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 9;;\nesac\n')
        path.chmod(0o755)

    return install


def files(root: Path, **contents: str) -> None:
    """Write files below a made-up root; `__` stands for `/`."""
    for name, text in contents.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_this_machine():
    result = take("--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["cpu"]["threads"] == os.cpu_count() or found["cpu"]["threads"] >= 1
    assert found["memory_gb"] > 0.1
    assert found["host"]["kernel"] == os.uname().release
    assert {"gpus", "nics", "disks", "pcie", "kernel_log"} <= set(found)
    text = take().stdout
    assert os.uname().nodename in text
    assert f"{found['memory_gb']} GB" in text


def test_anonymous_leaves_out_the_name(tmp_path, tool):
    tool("nvidia-smi", **{"-q -x": nvidia_smi.xml(1), "--status": ""})
    found = json.loads(take("--json", "--anonymous").stdout)
    assert found["host"]["hostname"] == ""
    assert found["gpus"][0]["serial"] == found["gpus"][0]["uuid"] == ""
    assert found["gpus"][0]["vbios"] == "96.00.61.00.01"


def test_nvidia(tool):
    spoilt = {"gpu2": {"width": 8, "dram": 3}, "gpu5": {"pending": "Yes", "hot": "Active"}}
    tool("nvidia-smi", **{"-q -x": nvidia_smi.xml(8, **spoilt), "--status": nvidia_smi.nvlink(8, down=(6, 4))})
    gpus = json.loads(take("--json").stdout)["gpus"]
    assert [gpu["bus"] for gpu in gpus][:2] == ["0000:1b:00.0", "0000:1c:00.0"]
    assert {gpu["memory_gb"] for gpu in gpus} == {85.5}  # 81,559 MiB
    assert [gpu["pcie_width"] for gpu in gpus] == [16, 16, 8, 16, 16, 16, 16, 16]
    assert [gpu["uncorrectable"] for gpu in gpus] == [0, 0, 3, 0, 0, 0, 0, 0]  # N/A is none, correctable ones are not
    assert [gpu["remap_pending"] for gpu in gpus].index(True) == 5
    assert gpus[5]["slowdowns"] == ["hw_thermal_slowdown"]
    assert gpus[0]["slowdowns"] == []  # a power cap is normal
    assert gpus[0]["idle"] is True
    assert (gpus[6]["links_up"], gpus[6]["links_down"]) == (17, 1)
    assert gpus[0]["power_limit_w"] == 700


def test_an_old_driver_writes_inactive_in_another_way(tool):
    links = nvidia_smi.nvlink(8, down=(6, 4)).replace("<inactive>", "inActive")
    tool("nvidia-smi", **{"-q -x": nvidia_smi.xml(8), "--status": links})
    assert json.loads(take("--json").stdout)["gpus"][6]["links_down"] == 1


@pytest.mark.parametrize("broken", ["", "<nvidia_smi_log><gpu>", "NVIDIA-SMI has failed"])
def test_a_broken_tool_is_no_gpu(tool, broken):
    tool("nvidia-smi", **{"-q -x": broken})
    result = take("--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["gpus"] == []


def test_amd(tmp_path, tool):
    root = tmp_path / "host"
    (root / "proc").mkdir(parents=True)
    for bus in ("0000:0c:00.0", "0000:22:00.0"):
        files(root / "sys/bus/pci/devices" / bus, **{
            "mem_info_vram_total": "206141652992\n", "class": "0x120000\n", "vendor": "0x1002\n", "device": "0x74a1\n",
            "unique_id": f"ab{bus[5:7]}\n", "vbios_version": "113-M3000100-102\n", "numa_node": "0\n",
            "current_link_speed": "32.0 GT/s PCIe\n", "max_link_speed": "32.0 GT/s PCIe\n",
            "current_link_width": "16\n", "max_link_width": "16\n", "ras__umc_err_count": "ue: 0\nce: 4\n",
            "ras__gfx_err_count": "ue: 1\nce: 0\n" if bus[5] == "2" else "ue: 0\nce: 0\n",
            "ras__gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n" if bus[5] == "2" else "",
        })  # fmt: skip
    files(root, **{"opt__rocm__.info__version": "6.4.1-83\n", "sys__module__amdgpu__version": "6.12.12\n"})
    market = [{"gpu": n, "asic": {"market_name": "AMD Instinct MI300X"}} for n in (0, 1)]
    tool("amd-smi", **{"--asic": json.dumps(market, indent=4)})
    found = json.loads(take("--json", "--root", str(root)).stdout)
    first, second = found["gpus"]
    assert first["name"] == "AMD Instinct MI300X"
    assert first["memory_gb"] == 206.1
    assert (first["pcie_gen"], first["pcie_width"]) == (5, 16)
    assert (first["uncorrectable"], first["bad_pages"], first["remap_pending"]) == (0, 0, False)
    assert (second["uncorrectable"], second["bad_pages"], second["remap_pending"]) == (1, 2, True)
    assert found["software"] == {"amdgpu": "6.12.12", "rocm": "6.4.1-83", "python": found["software"]["python"]}
    assert [device["kind"] for device in found["pcie"]] == ["accelerator", "accelerator"]


def test_network_drives_and_log(tmp_path, tool):
    root = tmp_path / "host"
    files(root, **{
        "proc__cmdline": "root=/dev/sda token=secret iommu=pt pci=realloc=off\n",
        "proc__meminfo": "MemTotal:       2113390000 kB\n",
        "sys__devices__system__node__node0__meminfo": "Node 0 MemTotal:       1056695000 kB\n",
        "sys__devices__system__node__node0__cpulist": "0-47\n",
        "sys__class__infiniband__mlx5_0__ports__1__state": "4: ACTIVE\n",
        "sys__class__infiniband__mlx5_0__ports__1__rate": "400 Gb/sec (4X NDR)\n",
        "sys__class__infiniband__mlx5_0__ports__1__link_layer": "InfiniBand\n",
        "sys__class__infiniband__mlx5_0__fw_ver": "28.39.1002\n",
        "sys__block__nvme0n1__size": "7501476528\n", "sys__block__nvme0n1__device__model": "Drive\n",
        "sys__block__loop0__size": "1000\n",
        "proc__driver__nvidia__version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release\n",
    })  # fmt: skip
    log = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n" * 2
    log += "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up\n"
    log += "amdgpu 0000:0c:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block\n"
    tool("dmesg", **{"": log})
    found = json.loads(take("--json", "--root", str(root)).stdout)
    assert found["host"]["kernel_options"] == ["iommu=pt", "pci=realloc=off"]  # nothing else of the command line
    assert found["memory_gb"] == 2164.1
    assert found["numa"] == [{"node": 0, "cpus": "0-47", "memory_gb": 1082.1}]
    assert [(nic["name"], nic["state"], nic["rate_gbps"]) for nic in found["nics"]] == [("mlx5_0:1", "ACTIVE", 400)]
    assert [(disk["name"], disk["size_gb"]) for disk in found["disks"]] == [("nvme0n1", 3840.8)]
    assert found["software"]["nvidia"] == "555.42.06"
    assert found["kernel_log"] == {
        "readable": True,
        "xid": {"79": 2},
        "sxid": {"20034": 1},
        "amdgpu": 1,
        "pcie_fatal": 0,
    }


def test_misuse(tmp_path):
    result = take("--root", str(tmp_path / "nowhere"))
    assert result.returncode == 2
    assert "--root is where /proc and /sys are" in result.stderr
