#!/usr/bin/env python3
"""A real multi-node Slurm cluster on one machine, for an ordinary user, without a trace afterwards.

    slurm_lab.py start --yes            four nodes with eight pretend GPUs each
    eval "$(slurm_lab.py env)"          this shell's sbatch, srun, squeue now talk to the lab
    slurm_lab.py stop                   ends jobs and daemons, removes the files
    slurm_lab.py run -- sbatch --test-only job.sbatch

Real: munged, slurmctld and one slurmd per node, on free ports. Pretended: CPUs, memory and GPUs, so nothing is
limited or bound. Each node has a host name of its own where the kernel allows that, or else a loopback address.
Exit codes: 0 fine, 1 no lab runs, 2 misuse or something is missing; `run` gives its command's code.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import pwd
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

CPUS, MEMORY_MB = 96, 1_000_000  # what a node with eight accelerators typically has
DEFAULT = Path(os.environ.get("TMPDIR") or "/tmp", f"slurm-lab-{os.geteuid()}")  # one per user: stop needs no --dir
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000  # linux/sched.h
MS_BIND, MS_REC_PRIVATE, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 0x1000, 0x44000, 1, 36  # mount.h, prctl.h


class LabError(Exception):
    """The lab cannot be started, or was asked for something impossible; the text names the fix."""


class MissingPackages(LabError):
    """Slurm or MUNGE is not installed."""


def daemon(name: str) -> str:
    """Path of a daemon; /usr/sbin is rarely on an ordinary user's PATH. Raises MissingPackages."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")
    if not found:
        raise MissingPackages(f"{name} is missing: sudo apt-get install slurm-wlm munge")
    return found


def free_ports(count: int) -> list[int]:
    """TCP ports that nobody listens on now, below those that Linux gives to outgoing connections."""
    ports: set[int] = set()
    while len(ports) < count:
        port = random.randrange(10000, 20000)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            ports.add(port)
    return list(ports)


def isolate(hostname: str, hosts: Path) -> None:
    """Give this process its own host name and /etc/hosts. Raises PermissionError where the kernel forbids it."""
    libc, uid, gid = ctypes.CDLL(None), os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if uid else 0)):
        raise PermissionError("no namespaces for this user")
    if uid:  # the same ids inside as outside, so that MUNGE and file owners agree
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
    if libc.mount(str(hosts).encode(), b"/etc/hosts", None, MS_BIND, None):
        raise PermissionError("no mounts for this user")
    socket.sethostname(hostname)


def become(name: str, hosts: Path | None) -> None:
    """What a child does before it turns into daemon `name`."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # should the keeper be killed
    os.setsid()
    if hosts and name.startswith("node"):
        isolate(name, hosts)


def can_isolate() -> bool:
    """Whether the kernel allows `isolate`, tried in a child."""
    code = "import runpy, sys, pathlib; runpy.run_path(sys.argv[1])['isolate']('x', pathlib.Path('/etc/hosts'))"
    return subprocess.run([sys.executable, "-c", code, __file__], stderr=subprocess.DEVNULL).returncode == 0


def node_names(nodes: int, isolated: bool) -> list[str]:
    """node1, node2 …, or loopback addresses where names of our own would not resolve."""
    return [f"node{i}" if isolated else f"127.0.1.{i}" for i in range(1, nodes + 1)]


# cred_expire: wait of a requeued job. linuxproc: no cgroup rights. config_overrides: believe these CPUs, this memory.
SLURM_CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU={mem_per_cpu}
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MailProg=/bin/true
GresTypes=gpu
PartitionName=gpu Nodes=ALL Default=YES DefaultTime=01:00:00 MaxTime=7-00:00:00
PartitionName=debug Nodes=ALL DefaultTime=00:10:00 MaxTime=00:30:00
"""


def config_files(folder: Path, nodes: int, gpus: int, isolated: bool) -> dict[str, str]:
    """Text of each configuration file by name, with ports that are free now."""
    if not (1 <= nodes <= 64 and 0 <= gpus <= 64):
        raise LabError("from 1 to 64 nodes and from 0 to 64 GPUs per node")
    try:
        host, user = socket.gethostname(), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise LabError(f"user id {os.geteuid()} has no name in /etc/passwd: Slurm needs one") from None
    names, ports = node_names(nodes, isolated), free_ports(nodes + 1)
    text = SLURM_CONF.format(host=host, port=ports[0], user=user, folder=folder, mem_per_cpu=MEMORY_MB // CPUS)
    shape = f"CPUs={CPUS} RealMemory={MEMORY_MB}" + (f" Gres=gpu:{gpus}" if gpus else "")
    for name, port in zip(names, ports[1:]):
        place = f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={name if isolated else host} Port={port}"
        text += f"{place} {shape} State=UNKNOWN\n"
    version = subprocess.run([daemon("slurmctld"), "-V"], stdout=subprocess.PIPE, text=True).stdout.split()[-1]
    known = Path("/etc/hosts").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    return {
        "slurm.conf": text,
        "gres.conf": "AutoDetect=off\n" + (f"Name=gpu File={folder}/gpu[0-{gpus - 1}]\n" if gpus else ""),
        "cgroup.conf": f"CgroupPlugin={'disabled' if version >= '24.05' else 'cgroup/v1'}\n",  # new in 24.05
        "hosts": known + "".join(f"\n127.0.0.1 {name}" for name in names if isolated) + "\n",
    }


def started_at(pid: int) -> str:
    """Start time of a process in clock ticks, which tells a reused process id apart; '' if it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[19] if fields[0] != "Z" else ""
    return ""


def state_of(folder: Path) -> dict:
    """The state file of a lab with "state": 'running', 'stale' (its keeper was killed) or 'none'."""
    try:
        stored = json.loads((folder / "lab.json").read_text())
        return {**stored, "state": "running" if started_at(stored["keeper"]) == stored["started"] else "stale"}
    except (OSError, ValueError, KeyError, TypeError):
        return {"state": "none", "nodes": 0, "gpus": 0, "keeper": 0}


def members(folder: Path, root: int = 0) -> set[int]:
    """Process ids of the lab: daemons and tasks by both marks (clients have one), children of `root`, descendants."""
    marks, parents, found = {f"SLURM_CONF={folder}/slurm.conf".encode(), b"SLURM_CLUSTER_NAME=lab"}, {}, set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
            if marks <= set((entry / "environ").read_bytes().split(b"\0")):
                found.add(int(entry.name))
    more = {pid for pid, parent in parents.items() if root and parent == root}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found} - found
    return found - {os.getpid(), root}


def end_all(folder: Path, root: int = 0) -> None:
    """Ask every process of the lab to end, kill what remains after two seconds, remove the files."""
    deadline = time.monotonic() + 2
    while left := members(folder, root) or members(folder, root):  # a fork can escape one look at /proc, not two
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(0.1)
    with contextlib.suppress(ChildProcessError):
        while root:
            os.wait()  # all are dead: leave no zombies to a container whose first process collects none
    shutil.rmtree(folder, ignore_errors=True)


def leave(*_: object) -> None:
    """Handler of SIGTERM: unwind once, whatever else arrives meanwhile."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def keep(folder: Path, nodes: int, gpus: int, until_eof: bool) -> int:
    """Start the daemons as children, say "ready", hold them until told to stop, then leave no trace."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # job processes that outlive slurmd become ours
    os.umask(0o022)
    signal.signal(signal.SIGTERM, leave)
    try:
        write_files(folder, nodes, gpus)
        start_daemons(folder, nodes)
        print("ready", flush=True)
        while not select.select([0] if until_eof else [], [], [], 1.0)[0] or os.read(0, 1):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)  # adopted job processes end here
    except (LabError, OSError) as error:
        with contextlib.suppress(OSError):  # nobody may be left to read it
            print(error, flush=True)
        return 2
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all(folder, os.getpid())
    return 0


def write_files(folder: Path, nodes: int, gpus: int) -> None:
    """State file, configuration, MUNGE key and pretended devices of a new lab."""
    isolated = can_isolate()
    state = {"keeper": os.getpid(), "started": started_at(os.getpid()), "nodes": nodes, "gpus": gpus}
    (folder / "lab.json").write_text(json.dumps({**state, "isolated": isolated}))  # first: stop can clean up from here
    folder.chmod(0o755)  # other users may submit to a lab of root
    for name, text in config_files(folder, nodes, gpus, isolated).items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("munge", "state", *(f"spool-{name}" for name in node_names(nodes, isolated))):
        (folder / name).mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    for index in range(gpus):  # slurmd wants character devices and follows links
        (folder / f"gpu{index}").symlink_to("/dev/null")


def start_daemons(folder: Path, nodes: int) -> None:
    """munged, slurmctld and the slurmds; returns when every node is idle. Raises LabError with a log's end."""
    isolated = state_of(folder)["isolated"]
    own = ("key-file", "pid-file", "seed-file", "log-file", "socket")
    munge = ["--force", "--foreground", *(f"--{name}={folder}/munge/{name.split('-')[0]}" for name in own)]
    commands = {"munged": [daemon("munged"), *munge], "slurmctld": [daemon("slurmctld"), "-D"]}
    commands.update({name: [daemon("slurmd"), "-D", "-N", name] for name in node_names(nodes, isolated)})
    environment = {**client_environment(folder), "SLURM_CLUSTER_NAME": "lab"}
    running: dict[str, subprocess.Popen] = {}
    for name, command in commands.items():
        with open(folder / f"{name}.out", "wb") as out:
            files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
            start = partial(become, name, folder / "hosts" if isolated else None)
            running[name] = subprocess.Popen(command, env=environment, preexec_fn=start, **files)
        while name == "munged" and not (folder / "munge" / "socket").exists() and running[name].poll() is None:
            time.sleep(0.02)
    deadline = time.monotonic() + 60
    query = [daemon("sinfo"), "--noheader", "--Node", "--partition=gpu", "--states=idle", "--format=%N"]
    while True:
        for name, process in running.items():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (folder / f"{name}.out").read_text(errors="replace")[-1500:]
                raise LabError(f"{name} did not come up:\n{tail}")
        answer = subprocess.run(query, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if len(set(answer.stdout.split())) == nodes:
            return
        time.sleep(0.1)


def client_environment(folder: Path) -> dict[str, str]:
    """This environment without the traces of another Slurm, pointed at the lab."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SRUN"))}
    return {**clean, "SLURM_CONF": str(folder / "slurm.conf")}


def launch(folder: Path, nodes: int, gpus: int, until_eof: bool) -> subprocess.Popen:
    """Start a keeper for a lab in `folder` and wait until it is ready. Raises LabError."""
    for name in ("munged", "slurmctld", "slurmd", "sinfo", "sbatch"):
        daemon(name)
    if len(str(folder)) > 70 or re.search(r"[^\w./+@-]", str(folder)):
        raise LabError(f"choose a shorter and plainer --dir than {folder}: sockets in it have 107 characters at most")
    if state_of(folder)["state"] == "stale":
        end_all(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) or folder.stat().st_uid != os.geteuid():
        raise LabError(f"{folder} is in use (lab: {state_of(folder)['state']}): stop that, or choose another --dir")
    (folder / "lab.json").touch(exist_ok=False)  # of several at a time only one can, and goes on
    command = [sys.executable, os.path.abspath(__file__), "_keep", *map(str, (folder, nodes, gpus, int(until_eof)))]
    rest = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE if until_eof else subprocess.DEVNULL, **rest)
    try:
        first = keeper.stdout.readline()
        if first != "ready\n":
            raise LabError((first + keeper.stdout.read()).strip() or "the lab did not start")
    except BaseException:
        keeper.terminate()
        keeper.communicate()
        if folder.exists():  # the keeper was killed
            end_all(folder)
        raise
    return keeper


@contextlib.contextmanager
def lab(nodes: int = 4, gpus: int = 8, folder: Path | None = None) -> Iterator[dict[str, str]]:
    """A lab until the with block ends or this process dies; yields the clients' environment. Raises LabError."""
    folder = (folder or DEFAULT.with_name(f"slurm-lab-{os.getpid()}-{time.monotonic_ns()}")).absolute()
    keeper = launch(folder, nodes, gpus, until_eof=True)
    try:
        yield client_environment(folder)
    finally:
        keeper.communicate()  # closes its standard input
        if folder.exists():
            end_all(folder)


def start(folder: Path, nodes: int, gpus: int, yes: bool) -> int:
    """A lab that stays until `stop`; without --yes the configuration is only shown."""
    if not yes:
        print(f"Would start munged, slurmctld and {nodes} slurmd in {folder} with these files (add --yes to do it):")
        for name, text in config_files(folder, nodes, gpus, can_isolate()).items():
            print(f"\n# ---- {name}\n{text}", end="")
        return 0
    launch(folder, nodes, gpus, until_eof=False)
    print(f"{nodes} idle nodes with {gpus} GPUs each. Now: export SLURM_CONF={folder}/slurm.conf")
    return 0


def stop(folder: Path) -> int:
    """End a lab, or clean up what a killed one left; exit code 1 if there is none."""
    found = state_of(folder)
    if found["state"] == "none":
        print(f"no lab in {folder}")
        return 1
    if found["state"] == "running":
        with contextlib.suppress(ProcessLookupError):
            os.kill(found["keeper"], signal.SIGTERM)
        while started_at(found["keeper"]) == found["started"]:
            time.sleep(0.05)
    end_all(folder)
    print(f"stopped, {folder} removed")
    return 0


def status(folder: Path, as_json: bool) -> int:
    """Say whether a lab runs; exit code 1 unless it does."""
    found = state_of(folder)
    running = found["state"] == "running"
    processes = sorted(members(folder, found["keeper"] if running else 0))
    if as_json:
        print(json.dumps({**found, "folder": str(folder), "processes": processes}))
        return 0 if running else 1
    print(f"{found['state']}: {folder}, {len(processes)} processes", flush=True)
    if running:
        subprocess.run([daemon("sinfo"), "--format=%12P %10T %6D %10G %N"], env=client_environment(folder))
    return 0 if running else 1


def main(argv: list[str]) -> int:
    """Entry point; gives the exit code."""
    if argv[:1] == ["_keep"]:
        return keep(Path(argv[1]), int(argv[2]), int(argv[3]), argv[4] == "1")
    own, command = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("start", "status", "stop", "env", "run"), help="run: followed by -- CMD")
    parser.add_argument("--dir", type=Path, help=f"folder of the lab (default {DEFAULT}; run: a new one)")
    parser.add_argument("--nodes", type=int, default=4, help="start, run: nodes (default 4)")
    parser.add_argument("--gpus", type=int, default=8, help="start, run: pretended GPUs per node (default 8)")
    parser.add_argument("--yes", action="store_true", help="start: do it; without, only show the configuration")
    parser.add_argument("--json", action="store_true", help="status: one JSON document on standard output")
    options = parser.parse_args(own)
    if bool(command) != (options.verb == "run"):
        parser.error("a command goes with run, and run needs one: slurm_lab.py run -- CMD")
    folder = (options.dir or DEFAULT).absolute()
    try:
        if options.verb == "run":
            signal.signal(signal.SIGTERM, leave)  # ends the command and the lab
            with lab(options.nodes, options.gpus, options.dir and folder) as environment:
                code = subprocess.run(command, env=environment).returncode
            return code if code >= 0 else 128 - code
        if options.verb == "start":
            return start(folder, options.nodes, options.gpus, options.yes)
        if options.verb in ("stop", "status"):
            return stop(folder) if options.verb == "stop" else status(folder, options.json)
        if state_of(folder)["state"] != "running":
            raise LabError(f"no lab runs in {folder}: slurm_lab.py start --yes")
        print(f"export SLURM_CONF={folder}/slurm.conf")
        return 0
    except (LabError, OSError) as error:
        print(f"slurm_lab.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
