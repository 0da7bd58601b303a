#!/usr/bin/env python3
"""Say which layer between a network card and a GPU is missing for RDMA, and what to do about it.

    python3 rdma_check.py                     this machine, or the container or pod in which it runs
    python3 rdma_check.py --device mlx5_0     judge these cards only (repeat it); storage cards stay out
    python3 rdma_check.py --rate 400          also name ports that came up slower than 400 Gb/s
    python3 rdma_check.py --record DIR        also keep what was read, to send to somebody
    python3 rdma_check.py --root DIR          judge such a record instead of this machine

Reads /sys, /proc and /dev/infiniband from the bottom up and changes nothing. Start it the way the ranks are started:
limits and devices of a login shell differ. As root on the host it also reads the ACS bits of the PCIe bridges.
Exit codes: 0 nothing found; 1 a layer is missing or slows; 2 misuse.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import os
import re
import sys
from pathlib import Path

GPU_CLASSES = {"0x10de": ("0x0302", "0x0300"), "0x1002": ("0x0380", "0x1200", "0x0302")}  # vendor → PCI classes
PROVIDERS = {"mlx5_core": "mlx5", "efa": "efa", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma", "ionic": "ionic"}
# folders of libraries; the last is this Python's own, as in a conda environment
FOLDERS = ("usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", f"{sys.prefix[1:]}/lib")
REDIRECT = 0x04 | 0x08 | 0x20  # ACS control: request and completion redirect, egress control (Linux, pci_regs.h)
IPC_LOCK = 14  # include/uapi/linux/capability.h
DO = {
    "card": "host: install rdma-core, load the driver (mlx5_ib, efa, …), read dmesg; cloud: is it this machine type?",
    "card in a pod": "is there one on the host? In exclusive mode it comes by SR-IOV with the rdma plugin, or DRANET",
    "port": "DOWN: cable, switch port, interface; INIT on InfiniBand: no subnet manager. Choose cards with --device",
    "rate": "other end of the cable: its speed, split ports, cable, FEC; leave storage cards out with --device",
    "rate of EFA": "an efa driver before 2.13 says 100 Gb/sec of every card: update it, or leave --rate out",
    "GID": "give the interface an IP address; container: --network=host, hostNetwork or a secondary network of its own",
    "ENOENT": "Docker --device=/dev/infiniband, enroot MELLANOX_VISIBLE_DEVICES=all, pod: request the RDMA resource",
    "EPERM": "the device cgroup forbids it: --device instead of a bind mount; pod: request the RDMA resource",
    "EACCES": "mode of the file: rdma-core's udev rules give 0666",
    "other": "restart the container after a reload of the driver; else dmesg on the host",
    "library": "in the image: apt-get install ibverbs-providers, dnf install libibverbs; EFA: the EFA installer",
    "memory": "Docker --ulimit memlock=-1; Slurm LimitMEMLOCK=infinity for slurmd; login: limits.conf",
    "memory in a pod": "capabilities.add IPC_LOCK, effective for root only; or LimitMEMLOCK=infinity for containerd",
    "nvidia": "open driver and kernel 5.12 or later; or, with the vendor's RDMA drivers, modprobe nvidia-peermem",
    "amd": "CONFIG_PCI_P2PDMA=y and CONFIG_DMABUF_MOVE_NOTIFY=y in the kernel, or the card vendor's peer memory module",
    "distance": "use the card on the GPU's PCIe switch; NCCL_NET_GDR_LEVEL=PHB only after measuring both",
    "distance in a VM": "made-up places: NCCL_TOPO_FILE from the provider",
    "distance on ARM": "with NVLink-C2C NCCL uses GPUDirect across the CPU all the same (NCCL_NET_GDR_C2C)",
    "ACS": "off in the BIOS, or pci=config_acs=, or setpci at each boot; a host of virtual machines needs it",
    "ACS in a VM": "matter of its host: ACS with direct translated P2P, ATS on in the card",
    "ACS on ARM": "Grace has a pattern of its own: rdma_topo check, of recent rdma-core",
    "IOMMU": "bare metal: boot with iommu=pt, or switch it off in the BIOS",
    "IOMMU on ARM": "Grace with data direct wants it on; else iommu.passthrough=1 on bare metal",
}


class Tree:
    """A file tree with sys, proc and dev in it: this machine's or a recorded one. Remembers what was read."""

    def __init__(self, root: Path):
        self.root, self.live = root, root == Path("/")
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}

    def data(self, path: str) -> bytes:
        """Contents of a file; b"" where there is none or it cannot be read, as a GID of another namespace."""
        with contextlib.suppress(OSError):
            self.files[path] = (self.root / path).read_bytes()
        return self.files.get(path, b"")

    def text(self, path: str) -> str:
        return self.data(path).decode(errors="replace").strip()

    def names(self, path: str) -> list[str]:
        """Names in a folder, mlx5_2 before mlx5_10; [] where there is none."""
        names: list[str] = []
        with contextlib.suppress(OSError):  # none, or closed to this user
            names = os.listdir(self.root / path)
        return sorted(names, key=lambda name: [int(x) if x.isdecimal() else x for x in re.split(r"(\d+)", name)])

    def has(self, path: str) -> bool:
        there = os.path.exists(self.root / path)
        self.files.update({path: self.files.get(path, b"")} if there else {})
        return there

    def real(self, path: str) -> str:
        """Where a link leads, relative to the root; "" where it leads nowhere."""
        if os.path.exists(self.root / path):
            self.links[path] = os.path.relpath(os.path.realpath(self.root / path), os.path.realpath(self.root))
        return self.links.get(path, "")

    def device(self, path: str) -> str:
        """Empty if the device file can be opened for writing, else the name of the error. A record holds that name."""
        if not self.has(path):
            return "ENOENT"
        if self.live:
            try:
                os.close(os.open(self.root / path, os.O_RDWR))
            except OSError as error:
                self.files[path] = errno.errorcode.get(error.errno or 0, str(error)).encode()
        return self.files[path].decode() if self.live else self.text(path)

    def save(self, target: Path) -> None:
        """Write what was read as a tree that --root takes. Raises OSError."""
        for link, leads_to in self.links.items():
            (target / leads_to).mkdir(parents=True, exist_ok=True)
            (target / link).parent.mkdir(parents=True, exist_ok=True)
            if link != leads_to and not (target / link).exists():
                start = (target / link).parent.resolve()
                (target / link).symlink_to(os.path.relpath((target / leads_to).resolve(), start))
        for path, data in self.files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            if not (target / path).is_dir():
                (target / path).write_bytes(data)


def result(layer: str, status: str, found: str, do: str = "") -> dict:
    return {"layer": layer, "status": status, "found": found, "do": do if status != "ok" else ""}


def addresses(tree: Tree) -> set[str]:
    """IP addresses of this network namespace in the form of GIDs, in which IPv4 is the end of ::ffff:0:0/96."""
    found = {":".join(re.findall("....", line[:32])) for line in tree.text("proc/net/if_inet6").splitlines()}
    for address in re.findall(r"\|-- ((?:\d+\.){3}\d+)\s+/32 host LOCAL", tree.text("proc/net/fib_trie")):
        a, b, c, d = (int(part) for part in address.split("."))
        found.add(f"{'0000:' * 5}ffff:{a:02x}{b:02x}:{c:02x}{d:02x}")
    return found


def gids(tree: Tree, at: str, own: set[str]) -> list[dict]:
    """GIDs of a port that are not zero; `here`: their address is one of this network namespace's own.

    Names do not tell: a pod's eth0 is not the host's. They count only where /proc/net cannot be read.
    """
    found = []
    for index in filter(str.isdecimal, tree.names(f"{at}/gids")):
        gid = tree.text(f"{at}/gids/{index}")
        if gid.strip("0:"):
            kind, netdev = (tree.text(f"{at}/gid_attrs/{what}/{index}") for what in ("types", "ndevs"))
            here = gid in own if own else bool(netdev) and tree.has(f"sys/class/net/{netdev}")
            found.append({"index": int(index), "gid": gid, "type": kind, "netdev": netdev, "here": here})
    return found


def cards(tree: Tree) -> list[dict]:
    """Each RDMA device with driver, PCI place, verbs file and ports."""
    verbs = "sys/class/infiniband_verbs"
    files = {tree.text(f"{verbs}/{name}/ibdev"): name for name in tree.names(verbs)}
    found, own = [], addresses(tree)
    for name in tree.names("sys/class/infiniband"):
        base = f"sys/class/infiniband/{name}"
        card = {"name": name, "pci": tree.real(f"{base}/device"), "numa": tree.text(f"{base}/device/numa_node")}
        driver = os.path.basename(tree.real(f"{base}/device/driver"))
        card.update({"driver": driver, "file": files.get(name, "uverbs?"), "ports": []})
        for port in tree.names(f"{base}/ports"):
            at = f"{base}/ports/{port}"
            keys = {key: tree.text(f"{at}/{key}") for key in ("state", "rate", "link_layer")}
            card["ports"].append({"port": port, **keys, "gids": gids(tree, at, own)})
        found.append(card)
    return found


def gpus(tree: Tree) -> list[dict]:
    """GPUs of this machine in PCI order, also those that a container may not use."""
    found = []
    for name in tree.names("sys/bus/pci/devices"):
        at = f"sys/bus/pci/devices/{name}"
        vendor = tree.text(f"{at}/vendor")
        if tree.text(f"{at}/class")[:6] in GPU_CLASSES.get(vendor, ()):
            found.append({"bus": name, "vendor": vendor, "pci": tree.real(at), "numa": tree.text(f"{at}/numa_node")})
    return found


def distance(gpu: dict, card: dict) -> str:
    """NCCL's word for the way between two PCI devices, from their places in sysfs (src/graph/topo.h, paths.cc)."""
    a, b = gpu["pci"].split("/"), card["pci"].split("/")
    common = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    if any(part.count(":") == 2 for part in a[:common]):  # a bridge above both: one switch leaves port and device
        return "PIX" if max(len(a), len(b)) - common <= 2 else "PXB"
    same_root = any(part.startswith("pci") for part in a[:common])
    return "PHB" if same_root or (gpu["numa"] == card["numa"] and gpu["numa"] not in ("", "-1")) else "SYS"


def acs_control(config: bytes) -> int | None:
    """ACS control register of a bridge's configuration space (PCI extended capability 0x000D); None without one."""
    at = 0x100
    for _ in range(64):  # more than any device has; a broken chain ends, too
        if not 0x100 <= at < len(config) - 7:  # 0 ends the chain
            break
        head = int.from_bytes(config[at : at + 4], "little")
        if head & 0xFFFF == 0x000D:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at = head >> 20
    return None


def status(bad: int, of: int) -> str:
    return "ok" if not bad else "missing" if bad == of else "slow"


def check_cards(tree: Tree, all_cards: list[dict], pod: bool, rate: float) -> list[dict]:
    """Layers of the card itself: device, port (slow below `rate`, Gb/s), GID, device file."""
    if not all_cards:
        known = [name for name in ("mlx5_ib", "efa", "bnxt_re", "irdma") if tree.has(f"sys/module/{name}")]
        found = f"/sys/class/infiniband is empty; RDMA driver loaded: {', '.join(known) or 'none'}"
        return [result("card", "missing", found, DO["card in a pod" if pod else "card"])]
    ports = [(card["name"], port) for card in all_cards for port in card["ports"]]
    down = [name for name, port in ports if "ACTIVE" not in port["state"]]
    # a port that is down has no rate, whatever sysfs says
    up = [(card["driver"], port["rate"]) for card in all_cards for port in card["ports"] if "ACTIVE" in port["state"]]
    under = {driver for driver, at in up if float((re.findall(r"^\d+\.?\d*", at) or [0])[0]) < rate}
    standing = "missing" if not ports else "slow" if under and not down else status(len(down), len(ports))
    do = [DO["port"]] * bool(down) + [DO["rate"]] * bool(under - {"efa"}) + [DO["rate of EFA"]] * ("efa" in under)
    shown = [f"{name} {port['state'] or '?'} {port['rate']} {port['link_layer']}" for name, port in ports]
    answers = [
        result("card", "ok", ", ".join(f"{card['name']} ({card['driver'] or '?'})" for card in all_cards)),
        result("port", standing, ", ".join(shown) or "none", "; ".join(do) or DO["other"]),
    ]
    roce = [(name, port["gids"]) for name, port in ports if port["link_layer"] == "Ethernet" and name not in down]
    bad = []
    for name, table in roce:
        table = [gid for gid in table if not gid["gid"].startswith("fe80")]  # link-local: no address was given
        foreign = sorted({gid["netdev"] for gid in table if not gid["here"]})
        if not any("v2" in gid["type"] and gid["here"] for gid in table):
            why = "no RoCE v2 GID with an address"
            if foreign:
                why = f"the address of {foreign[0] or 'its interface'} is in another network namespace"
            bad.append(f"{name}: {why}")
    if roce:
        found = [f"RoCE v2 with an address on {len(roce) - len(bad)} of {len(roce)} ports", *bad]
        answers.append(result("GID", status(len(bad), len(roce)), "; ".join(found), DO["GID"]))
    tried = {f"{card['file']} ({card['name']})": tree.device(f"dev/infiniband/{card['file']}") for card in all_cards}
    shut = [f"/dev/infiniband/{name}: {why}" for name, why in tried.items() if why]
    do = DO.get(next(filter(None, tried.values()), ""), DO["other"])
    found = ", ".join(shut) or f"{len(tried)} open for writing"
    return [*answers, result("device file", status(len(shut), len(tried)), found, do)]


def check_library(tree: Tree, all_cards: list[dict]) -> dict:
    """libibverbs and the part of it that knows this card."""
    core = [folder for folder in FOLDERS if tree.has(f"{folder}/libibverbs.so.1")]
    found = [(at, name) for at in FOLDERS for name in tree.names(f"{at}/libibverbs") if "-rdmav" in name]
    plugins = [name for at, name in found if tree.has(f"{at}/libibverbs/{name}")]
    with contextlib.suppress(OSError):  # elsewhere on the loader's path, as in a conda environment
        core = core or (tree.live and [str(ctypes.CDLL("libibverbs.so.1"))])
    wanted = sorted({PROVIDERS[card["driver"]] for card in all_cards if card["driver"] in PROVIDERS})
    lacking = [name for name in wanted if not any(plugin.startswith(f"lib{name}-") for plugin in plugins)]
    if not core or lacking:
        found = f"libibverbs without its part for {', '.join(lacking)}" if core else "libibverbs.so.1 is not here"
        return result("library", "missing", found, DO["library"])
    return result("library", "ok", f"libibverbs with {', '.join(wanted) or 'nothing that a card asks for'}")


def check_memory(tree: Tree, pod: bool) -> dict:
    """Limit of locked memory of this process, and CAP_IPC_LOCK, which lifts it in the first user namespace only."""
    line = re.search(r"Max locked memory\s+(unlimited|\d+)", tree.text("proc/self/limits"))
    caps = re.search(r"CapEff:\s+([0-9a-f]+)", tree.text("proc/self/status"))
    if not line or line[1] == "unlimited":
        return result("locked memory", "ok" if line else "unknown", "unlimited" if line else "/proc is not readable")
    size = f"limit {int(line[1]) // 1024} KiB"
    capable = bool(caps and int(caps[1], 16) >> IPC_LOCK & 1)
    if capable and tree.text("proc/self/uid_map").split() in ([], ["0", "0", "4294967295"]):  # first user namespace
        return result("locked memory", "ok", f"{size}, lifted by CAP_IPC_LOCK")
    why = "CAP_IPC_LOCK does not count in a user namespace" if capable else "no effective CAP_IPC_LOCK"
    return result("locked memory", "missing", f"{size}, {why}", DO["memory in a pod" if pod else "memory"])


def check_gpudirect(tree: Tree, all_gpus: list[dict]) -> dict:
    """A way for the card's driver to reach GPU memory: a peer memory module, or DMA-BUF as far as it can be seen."""
    if not all_gpus:
        return result("GPUDirect", "unknown", "no NVIDIA or AMD GPU on the PCI bus")
    ways = [name for name in ("nvidia_peermem", "nv_peer_mem", "amdgpu_peermem") if tree.has(f"sys/module/{name}")]
    for at in ("sys/kernel/mm/memory_peers", "sys/kernel/memory_peers", "sys/memory_peers"):
        ways += [f"/{at}/{name}" for name in tree.names(at) if tree.has(f"{at}/{name}/version")]
    release = tree.text("proc/sys/kernel/osrelease")
    maker = "nvidia" if all_gpus[0]["vendor"] == "0x10de" else "amd"
    if maker == "nvidia":
        is_open = "Open Kernel Module" in tree.text("proc/driver/nvidia/version")
        dmabuf = is_open and [int(part) for part in re.findall(r"\d+", release)[:2]] >= [5, 12]
        seen = f"kernel {release}, NVIDIA driver {'open' if is_open else 'closed or not loaded'}"
    else:
        config = tree.text(f"boot/config-{release}")
        dmabuf = all(f"CONFIG_{option}=y" in config for option in ("PCI_P2PDMA", "DMABUF_MOVE_NOTIFY"))
        seen = f"kernel {release}, its config {'has' if dmabuf else 'lacks' if config else 'is not readable:'} P2PDMA"
    if not ways and not dmabuf:
        unsure = maker == "amd" and not config
        return result("GPUDirect", "unknown" if unsure else "slow", f"no peer memory module; {seen}", DO[maker])
    return result("GPUDirect", "ok", f"{', '.join(ways + ['DMA-BUF possible'] * dmabuf)} ({seen})")


def check_topology(tree: Tree, all_gpus: list[dict], all_cards: list[dict], virtual: bool) -> dict:
    """Nearest card of each GPU; there is at least one of both."""
    for gpu in all_gpus:
        ways = {card["name"]: distance(gpu, card) for card in all_cards}
        gpu["distance"] = min(ways.values(), key=("PIX", "PXB", "PHB", "SYS").index)
        gpu["cards"] = [name for name, way in ways.items() if way == gpu["distance"]]
    said = ", ".join(f"{gpu['bus']} {gpu['distance']} {'/'.join(gpu['cards'])}" for gpu in all_gpus)
    far = any(gpu["distance"] in ("PHB", "SYS") for gpu in all_gpus)  # beyond PXB: no GPUDirect by default
    if far and "CPU implementer" in tree.text("proc/cpuinfo"):
        return result("distance", "unknown", said, DO["distance on ARM"])
    return result("distance", "slow" if far else "ok", said, DO["distance in a VM" if virtual else "distance"])


def check_pci(tree: Tree, ends: list[dict], virtual: bool) -> list[dict]:
    """ACS on the bridges above GPUs and cards; mode of the IOMMU. Not judged on ARM: Grace needs both in part."""
    arm = "CPU implementer" in tree.text("proc/cpuinfo")
    above = {part for end in ends for part in end["pci"].split("/")[:-1] if part.count(":") == 2}
    read = {name: tree.data(f"sys/bus/pci/devices/{name}/config") for name in sorted(above)}
    readable = sum(len(config) > 0x100 for config in read.values())
    on = [name for name, config in read.items() if (acs_control(config) or 0) & REDIRECT]
    if virtual:
        answers = [result("ACS", "unknown", "virtual machine", DO["ACS in a VM"])]
    elif not readable:
        answers = [result("ACS", "unknown", "bridges not readable", "run as root on the host")]
    else:
        found = f"redirects on {', '.join(on)}" if on else f"{readable} of {len(above)} bridges read, none redirects"
        worse = "unknown" if arm else "slow"
        answers = [result("ACS", worse if on else "ok", found, DO["ACS on ARM" if arm else "ACS"])]
    groups = tree.names("sys/kernel/iommu_groups")
    kinds = {tree.text(f"sys/kernel/iommu_groups/{group}/type") for group in groups} - {""}
    words = " ".join(word for word in tree.text("proc/cmdline").split() if "iommu" in word)
    found = f"{len(groups)} groups, type {', '.join(sorted(kinds)) or 'none'}; command line: {words or 'nothing'}"
    translated = not virtual and any(kind.startswith("DMA") for kind in kinds)
    worse = "unknown" if arm else "slow"
    return [*answers, result("IOMMU", worse if translated else "ok", found, DO["IOMMU on ARM" if arm else "IOMMU"])]


def examine(tree: Tree, only: list[str], rate: float) -> dict:
    """All layers from the bottom up. Raises ValueError for a card that is not there."""
    all_cards, all_gpus = cards(tree), gpus(tree)
    if all_cards and not set(only) <= {card["name"] for card in all_cards}:
        raise ValueError(f"--device {', '.join(only)}: no such card; {', '.join(card['name'] for card in all_cards)}")
    all_cards = [card for card in all_cards if not only or card["name"] in only]
    virtual = bool(re.search(r"^flags\s*:.*\bhypervisor\b", tree.text("proc/cpuinfo"), re.M))
    token = "run/secrets/kubernetes.io"
    if tree.live and "KUBERNETES_SERVICE_HOST" in os.environ:  # a pod may be without the token
        tree.files.setdefault(token, b"")
    pod = tree.has(token) or tree.has(f"var/{token}") or token in tree.files
    layers = check_cards(tree, all_cards, pod, rate)
    layers += [check_library(tree, all_cards), check_memory(tree, pod), check_gpudirect(tree, all_gpus)]
    layers += [check_topology(tree, all_gpus, all_cards, virtual)] if all_gpus and all_cards else []
    layers += check_pci(tree, [end for end in all_gpus + all_cards if end["pci"]], virtual)
    bad = [layer["layer"] for kind in ("missing", "slow") for layer in layers if layer["status"] == kind]
    first = bad[0] if bad else None
    return {"first": first, "virtual": virtual, "pod": pod, "layers": layers, "cards": all_cards, "gpus": all_gpus}


def gigabits(text: str) -> float:
    """A rate from the command line, Gb/s. Raises ValueError for one that no port has, such as nan or 0."""
    if 0 < float(text) < float("inf"):
        return float(text)
    raise ValueError(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="a recorded tree (default: /)")
    parser.add_argument("--device", action="append", default=[], metavar="NAME", help="judge this card only; repeat it")
    parser.add_argument("--rate", type=gigabits, default=0, metavar="GBPS", help="what each port should run at, Gb/s")
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep what was read in this new folder")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args()
    if not options.root.is_dir() or (options.record and options.record.exists()):
        parser.error("--root must be a folder, and --record a new one")
    tree = Tree(options.root.resolve())
    try:
        report = examine(tree, options.device, options.rate)
        if options.record:
            tree.save(options.record)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    sys.stdout.reconfigure(errors="replace")  # a locale without arrows
    if options.json:
        print(json.dumps(report, indent=2))
        return 1 if report["first"] else 0
    for layer in report["layers"]:
        print(f"{layer['status'].upper():8}{layer['layer']:14}{layer['found']}")
        if layer["do"]:
            print(f"{'':22}→ {layer['do']}")
    print("\nfirst to repair:", report["first"] or "nothing in the layers that can be seen")
    return 1 if report["first"] else 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe left
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except OSError as error:  # standard output is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"rdma_check.py: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)
