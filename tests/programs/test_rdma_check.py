"""docs/network/rdma_check.py: recorded machines, pods and hosts, each with one layer missing."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/network/rdma_check.py"
LIBRARIES = ("libibverbs.so.1", "libibverbs/libmlx5-rdmav34.so")
OTHER = "libibverbs/libefa-rdmav34.so"
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         {0}  {0}  bytes\n"
NO_CAPS, DOCKER_ROOT = "00000000a80425fb", "00000000a80465fb"  # the second has CAP_IPC_LOCK, bit 14
SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0"
FIB_TRIE = """Main:
  +-- 10.1.0.0/16 2 0 2
     |-- 10.1.0.0
        /16 link UNICAST
     |-- {}
        /32 host LOCAL
"""
ZERO = ":".join(["0000"] * 8)
IPV4 = "0000:0000:0000:0000:0000:ffff:0a01:0105"


def run(*options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-S", PROGRAM, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


class Machine:
    """A recorded tree: two GPUs and two cards below one PCIe switch each pair, as in sysfs."""

    def __init__(self, root: Path, link: str = "Ethernet"):
        self.root = root
        for n in range(2):
            self.pci(f"{SWITCH}/0000:02:0{2 * n}.0/0000:0{3 + n}:00.0", vendor="0x10de", **{"class": "0x030200"})
            card = self.pci(f"{SWITCH}/0000:02:0{2 * n + 1}.0/0000:1{n}:00.0", vendor="0x15b3", **{"class": "0x020700"})
            self.link(f"{card}/driver", "sys/bus/pci/drivers/mlx5_core")
            name = f"mlx5_{n}"
            self.link(f"sys/class/infiniband/{name}/device", card)
            self.write(f"sys/class/infiniband_verbs/uverbs{n}/ibdev", name)
            self.write(f"dev/infiniband/uverbs{n}", "")
            port = f"sys/class/infiniband/{name}/ports/1"
            self.write(f"{port}/state", "4: ACTIVE")
            self.write(f"{port}/rate", "400 Gb/sec (4X NDR)")
            self.write(f"{port}/link_layer", link)
            for index, gid in enumerate((f"fe80{IPV4[4:]}", IPV4, ZERO)):
                self.write(f"{port}/gids/{index}", gid)
                if gid != ZERO:
                    self.write(f"{port}/gid_attrs/types/{index}", "RoCE v2" if link == "Ethernet" else "IB/RoCE v1")
                    self.write(f"{port}/gid_attrs/ndevs/{index}", f"eth{n + 1}")
            self.write(f"sys/class/net/eth{n + 1}", "")
        self.addresses("10.1.1.5")
        self.root_port(0)
        self.write("sys/kernel/iommu_groups/0/type", "identity")
        self.write("sys/module/nvidia_peermem", "")
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz intel_iommu=on iommu=pt")
        self.write("proc/cpuinfo", "flags\t\t: fpu vme avx512f\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-90-generic")
        self.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06")
        self.memory("unlimited")
        for name in (*LIBRARIES, OTHER):
            self.write(f"usr/lib/x86_64-linux-gnu/{name}", "")

    def write(self, path: str, text: str | bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, path: str, target: str) -> None:
        (self.root / target).mkdir(parents=True, exist_ok=True)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).unlink(missing_ok=True)
        os.symlink(os.path.relpath(self.root / target, (self.root / path).parent), self.root / path)

    def pci(self, place: str, numa: str = "0", **files: str) -> str:
        path = f"sys/devices/{place}"
        for name, text in {**files, "numa_node": numa}.items():
            self.write(f"{path}/{name}", text)
        self.link(f"sys/bus/pci/devices/{os.path.basename(place)}", path)
        return path

    def root_port(self, control: int) -> None:
        """Configuration space: an AER capability at 0x100 that leads to ACS at 0x148, with this control register."""
        config = bytearray(4096)
        config[0x100:0x104] = (0x14810001).to_bytes(4, "little")
        config[0x148:0x14C] = (0x0001000D).to_bytes(4, "little")
        config[0x14E:0x150] = control.to_bytes(2, "little")
        self.pci("pci0000:00/0000:00:01.0")
        self.write("sys/bus/pci/devices/0000:00:01.0/config", bytes(config))

    def memory(self, limit: str, caps: str = NO_CAPS, uid_map: str = "0 0 4294967295") -> None:
        self.write("proc/self/limits", LIMITS.format(limit))
        self.write("proc/self/status", f"Name:\tpython3\nCapEff:\t{caps}\n")
        self.write("proc/self/uid_map", uid_map)

    def addresses(self, v4: str, v6: str = "00000000000000000000000000000001") -> None:
        """What /proc/net shows in a network namespace with these two addresses."""
        self.write("proc/net/fib_trie", FIB_TRIE.format(v4))
        self.write("proc/net/if_inet6", f"{v6} 01 80 10 80       lo\n")

    def remove(self, path: str) -> None:
        full = self.root / path
        shutil.rmtree(full) if full.is_dir() else full.unlink()

    def report(self, code: int, *options: str) -> dict:
        done = run("--root", self.root, "--json", *options)
        assert done.returncode == code, done.stdout + done.stderr
        found = json.loads(done.stdout)
        return found | {layer["layer"]: layer for layer in found["layers"]}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "tree")


def test_healthy_roce_pod(machine):
    machine.write("run/secrets/kubernetes.io", "")
    machine.memory("8388608", DOCKER_ROOT)
    report = machine.report(0)
    assert report["first"] is None and report["pod"]
    assert [layer["layer"] for layer in report["layers"]] == [
        "card", "port", "GID", "device file", "library", "locked memory", "GPUDirect", "distance", "ACS", "IOMMU",
    ]  # fmt: skip
    assert {layer["status"] for layer in report["layers"]} == {"ok"}
    assert "lifted by CAP_IPC_LOCK" in report["locked memory"]["found"]
    assert report["gpus"][0]["distance"] == "PIX" and report["gpus"][0]["cards"] == ["mlx5_0", "mlx5_1"]


def test_infiniband_host_needs_no_gid(tmp_path):
    report = Machine(tmp_path, link="InfiniBand").report(0)
    assert "GID" not in report and "InfiniBand" in report["port"]["found"]


def test_pod_without_devices_names_the_resource(machine):
    machine.remove("dev")
    report = machine.report(1)
    assert report["first"] == "device file" and report["device file"]["status"] == "missing"
    assert "ENOENT" in report["device file"]["found"] and "RDMA resource" in report["device file"]["do"]


def test_bind_mount_without_device_rule(machine):
    machine.write("dev/infiniband/uverbs1", "EPERM")
    report = machine.report(1)
    assert report["device file"]["status"] == "slow" and "cgroup" in report["device file"]["do"]
    assert "mlx5_1" in report["device file"]["found"] and "mlx5_0" not in report["device file"]["found"]


@pytest.mark.parametrize(
    ("caps", "uid_map", "pod", "says"),
    [
        (NO_CAPS, "0 0 4294967295", False, "--ulimit memlock=-1"),
        (NO_CAPS, "0 0 4294967295", True, "effective for root only"),
        (DOCKER_ROOT, "0 1000 1", False, "does not count in a user namespace"),
    ],
)
def test_64_kib_of_locked_memory(machine, caps, uid_map, pod, says):
    machine.memory("65536", caps, uid_map)
    if pod:
        machine.write("run/secrets/kubernetes.io", "")
    layer = machine.report(1)["locked memory"]
    assert layer["status"] == "missing" and "limit 64 KiB" in layer["found"] and says in layer["found"] + layer["do"]


def test_no_card(machine):
    machine.remove("sys/class/infiniband")
    machine.write("sys/module/mlx5_ib", "")
    report = machine.report(1)
    assert report["first"] == "card" and "loaded: mlx5_ib" in report["card"]["found"]
    assert "distance" not in report


def test_ports_down_and_choice_of_cards(machine):
    machine.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN")
    report = machine.report(1)
    assert report["first"] == "port" and report["port"]["status"] == "slow"
    assert machine.report(0, "--device", "mlx5_0")["first"] is None
    assert machine.report(1, "--device", "mlx5_1")["port"]["status"] == "missing"
    done = run("--root", machine.root, "--device", "mlx5_7")
    assert done.returncode == 2 and "no such card" in done.stderr and "Traceback" not in done.stderr


def test_a_port_slower_than_its_card(machine):
    machine.write("sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (2X NDR)")
    assert machine.report(0)["port"]["do"] == ""
    report = machine.report(1, "--rate", "400")
    assert report["first"] == "port" and report["port"]["status"] == "slow" and "split ports" in report["port"]["do"]
    machine.report(0, "--rate", "200")
    machine.report(0, "--rate", "400", "--device", "mlx5_0")
    machine.write("sys/class/infiniband/mlx5_1/ports/1/rate", "?")  # not readable is not full rate
    assert machine.report(1, "--rate", "200")["port"]["status"] == "slow"
    machine.write("sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT")
    do = machine.report(1, "--rate", "400")["port"]["do"]
    assert "no subnet manager" in do and "split ports" in do  # one is down, the other slow
    machine.write("sys/class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)")
    machine.write("sys/class/infiniband/mlx5_0/ports/1/rate", "40 Gb/sec (4X QDR)")  # mlx5, of a port that is down
    assert "split ports" not in machine.report(1, "--rate", "400")["port"]["do"]
    for n in range(2):
        machine.write(f"sys/class/infiniband/mlx5_{n}/ports/1/state", "1: DOWN")
        machine.write(f"sys/class/infiniband/mlx5_{n}/ports/1/rate", "?")
    assert machine.report(1, "--rate", "400")["port"]["status"] == "missing"


def test_old_efa_drivers_say_100_of_every_card(machine):
    for n in range(2):
        machine.write(f"sys/class/infiniband/mlx5_{n}/ports/1/rate", "100 Gb/sec (4X EDR)")
        card = (machine.root / f"sys/class/infiniband/mlx5_{n}/device").resolve().relative_to(machine.root.resolve())
        machine.link(f"{card}/driver", "sys/bus/pci/drivers/efa")
    do = machine.report(1, "--rate", "400")["port"]["do"]
    assert "2.13" in do and "split ports" not in do


@pytest.mark.parametrize("rate", ["nan", "inf", "-400", "0", "400Gb"])
def test_a_rate_that_no_port_can_have_is_misuse(machine, rate):
    done = run("--root", machine.root, f"--rate={rate}")
    assert done.returncode == 2 and "--rate" in done.stderr and "Traceback" not in done.stderr


def test_address_of_another_namespace_behind_the_same_name(machine):
    machine.addresses("172.17.0.2")  # the container's own eth1; that of the GIDs is the host's
    layer = machine.report(1)["GID"]
    assert layer["status"] == "missing" and "the address of eth1 is in another network namespace" in layer["found"]
    for n in range(2):
        machine.write(f"sys/class/infiniband/mlx5_{n}/ports/1/gids/1", "2001:0db8:0000:0000:0000:0000:0000:0007")
    machine.addresses("172.17.0.2", "20010db8000000000000000000000007")
    assert machine.report(0)["GID"]["status"] == "ok"


def test_without_proc_net_the_interface_counts(machine):
    machine.remove("proc/net")
    assert machine.report(0)["GID"]["status"] == "ok"
    machine.remove("sys/class/net")
    assert machine.report(1)["GID"]["status"] == "missing"


def test_no_address_leaves_only_link_local_gids(machine):
    machine.write("sys/class/infiniband/mlx5_0/ports/1/gids/1", ZERO)
    layer = machine.report(1)["GID"]
    assert layer["status"] == "slow" and "mlx5_0: no RoCE v2 GID with an address" in layer["found"]


@pytest.mark.parametrize("gone", LIBRARIES)
def test_library_or_its_provider_is_missing(machine, gone):
    machine.remove(f"usr/lib/x86_64-linux-gnu/{gone}")
    layer = machine.report(1)["library"]
    assert layer["status"] == "missing" and "ibverbs-providers" in layer["do"]


def test_libraries_of_a_conda_environment(machine):
    (machine.root / "opt/conda").mkdir(parents=True)
    shutil.move(machine.root / "usr/lib/x86_64-linux-gnu", machine.root / "opt/conda/lib")
    code = "import runpy, sys; sys.prefix = '/opt/conda'; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-c", code, PROGRAM, "--root", machine.root]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert "OK      library       libibverbs with mlx5" in done.stdout, done.stdout + done.stderr


def test_gpudirect_ways(machine):
    machine.remove("sys/module/nvidia_peermem")
    assert "DMA-BUF possible" in machine.report(0)["GPUDirect"]["found"]
    machine.write("proc/sys/kernel/osrelease", "5.4.0-200-generic")
    assert machine.report(1)["GPUDirect"]["status"] == "slow"
    machine.write("sys/kernel/mm/memory_peers/nv_mem/version", "1.2")
    assert "memory_peers/nv_mem" in machine.report(0)["GPUDirect"]["found"]


def test_gpudirect_on_amd(machine):
    for bus in ("0000:03:00.0", "0000:04:00.0"):
        machine.write(f"sys/bus/pci/devices/{bus}/vendor", "0x1002")
        machine.write(f"sys/bus/pci/devices/{bus}/class", "0x120000")
    machine.remove("sys/module/nvidia_peermem")
    assert machine.report(0)["GPUDirect"]["status"] == "unknown"  # as in a container without /boot
    machine.write("boot/config-6.8.0-90-generic", "CONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n")
    assert machine.report(1)["GPUDirect"]["status"] == "slow"
    machine.write("boot/config-6.8.0-90-generic", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n")
    assert machine.report(0)["GPUDirect"]["status"] == "ok"


@pytest.mark.parametrize(
    ("place", "numa", "expected"),
    [
        ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:20:00.0/0000:21:00.0/0000:22:00.0", "0", "PXB"),
        ("pci0000:00/0000:00:02.0/0000:22:00.0", "0", "PHB"),
        ("pci0000:60/0000:60:01.0/0000:22:00.0", "0", "PHB"),
        ("pci0000:80/0000:80:01.0/0000:22:00.0", "1", "SYS"),
    ],
)
def test_distance(machine, place, numa, expected):
    card = machine.pci(place, numa)
    machine.link(f"{card}/driver", "sys/bus/pci/drivers/mlx5_core")
    machine.link("sys/class/infiniband/mlx5_0/device", card)
    report = machine.report(1 if expected in ("PHB", "SYS") else 0, "--device", "mlx5_0")
    assert {gpu["distance"] for gpu in report["gpus"]} == {expected}


def test_distance_in_a_virtual_machine_and_on_grace(machine):
    machine.link("sys/class/infiniband/mlx5_0/device", machine.pci("pci0000:00/0000:00:05.0"))
    machine.write("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
    report = machine.report(1, "--device", "mlx5_0")
    assert "NCCL_TOPO_FILE" in report["distance"]["do"] and report["ACS"]["status"] == "unknown"
    machine.write("proc/cpuinfo", "CPU implementer\t: 0x41\n")
    assert machine.report(0, "--device", "mlx5_0")["distance"]["status"] == "unknown"


def test_acs_and_iommu(machine):
    machine.root_port(0x1D)  # what Linux sets: source validation, both redirects, upstream forwarding
    machine.write("sys/kernel/iommu_groups/0/type", "DMA-FQ")
    report = machine.report(1)
    assert report["ACS"]["status"] == "slow" and "0000:00:01.0" in report["ACS"]["found"]
    assert report["IOMMU"]["status"] == "slow" and "DMA-FQ" in report["IOMMU"]["found"]
    machine.root_port(0x01)  # source validation alone redirects nothing
    machine.remove("sys/kernel/iommu_groups/0/type")
    assert machine.report(0)["ACS"]["status"] == "ok"
    machine.write("sys/bus/pci/devices/0000:00:01.0/config", bytes(64))  # what a user may read
    assert machine.report(0)["ACS"]["status"] == "unknown"


def test_a_bridge_without_acs_is_not_read_beyond_its_last_capability(machine):
    config = bytearray(4096)
    for at, word in ((0x0, 0x23400000), (0x100, 0x00010001), (0x234, 0x0001000D), (0x238, 0x005C0000)):
        config[at : at + 4] = word.to_bytes(4, "little")  # the device's number 0x2340 is no pointer to 0x234
    machine.write("sys/bus/pci/devices/0000:00:01.0/config", bytes(config))
    assert machine.report(0)["ACS"]["status"] == "ok"


def test_cards_without_ports_are_not_fine(machine):
    for n in range(2):
        machine.remove(f"sys/class/infiniband/mlx5_{n}/ports")
    report = machine.report(1)
    assert (report["first"], report["port"]["found"]) == ("port", "none") and report["port"]["do"]


def test_folders_closed_to_this_user_are_read_as_empty(machine, monkeypatch):
    program = runpy.run_path(str(PROGRAM))
    monkeypatch.setattr(os, "listdir", lambda path: os.open(path / "ports/closed", os.O_RDONLY))  # raises OSError
    assert program["Tree"](machine.root).names("sys/class/infiniband/mlx5_0") == []


def test_acs_and_iommu_are_not_judged_on_grace(machine):
    machine.write("proc/cpuinfo", "CPU implementer\t: 0x41\n")
    machine.root_port(0x1D)
    machine.write("sys/kernel/iommu_groups/0/type", "DMA-FQ")
    report = machine.report(0)
    assert report["ACS"]["status"] == report["IOMMU"]["status"] == "unknown" and "rdma_topo" in report["ACS"]["do"]


def test_broken_record(machine):
    machine.write("sys/class/infiniband/mlx5_0/ports/1/gids/²", IPV4)
    machine.write("sys/class/infiniband/mlx5_0/ports/1/gids/x", IPV4)
    machine.write("proc/self/limits", "Max locked memory  much  much  bytes\n")
    assert machine.report(0)["locked memory"]["status"] == "unknown"


def test_record_is_judged_like_the_machine(machine, tmp_path):
    machine.remove("dev/infiniband/uverbs1")
    machine.report(1, "--record", tmp_path / "kept")
    kept = json.loads(run("--root", tmp_path / "kept", "--json").stdout)
    assert kept == json.loads(run("--root", machine.root, "--json").stdout)
    assert run("--root", machine.root, "--record", tmp_path / "kept").returncode == 2


def test_this_machine_and_text(machine):
    assert run().returncode in (0, 1)
    done = run("--root", machine.root)
    assert done.returncode == 0 and done.stdout.endswith("first to repair: nothing in the layers that can be seen\n")
    assert run("--root", "/no/such/folder").returncode == 2


def test_pod_without_a_token():
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--json"]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, timeout=60
    )
    assert json.loads(done.stdout)["pod"] is True


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_locale_without_arrows(machine, encoding):
    machine.memory("65536")
    command = [sys.executable, "-S", str(PROGRAM), "--root", str(machine.root)]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=env, timeout=60)
    assert done.returncode == 1 and b"first to repair: locked memory" in done.stdout, done.stderr


def test_output_that_cannot_be_written(machine):
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--root", str(machine.root), "--json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert done.returncode == 1 and done.stderr == ""
