"""Runs a command that nobody trusts: bubblewrap, limits, and an end that comes in any case.

Inside there are /usr and Python read-only, an empty small /work and /tmp in memory, no network, no
host home, no environment, an ordinary user. Source of the options: bwrap(1), prlimit(1).
"""

import contextlib
import functools
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbook.snippets import tools

MB = 2**20
DISK = 64 * MB  # of /work, /tmp and /dev/shm, each, and of any file
MEMORY = 2048 * MB  # resident, all processes together
ADDRESSES = 16 * 1024 * MB  # of one process; torch reserves much and uses little
PROCESSES = 128  # threads count
OUTPUT = 1 * MB
# Without a second address besides 127.0.0.1 the C library finds none to listen on (AI_ADDRCONFIG in getaddrinfo(3)).
ADDRESS = """import fcntl, socket, struct
request = struct.pack("16sHH4s8x", b"lo:0", socket.AF_INET, 0, socket.inet_aton("127.0.0.2"))
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8916, request)  # SIOCSIFADDR
"""
USER = 64_000  # for when the checker runs as root: nobody's number
ETC = {
    "passwd": "reader:x:1000:1000::/work:/bin/bash\n",
    "group": "reader:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True)
class Limits:
    """What a snippet may use: seconds, bytes of memory (all processes together), processes and threads.

    `listens`: its processes find each other by name, as daemons and ranks do.
    """

    timeout: float = 20
    memory: int = MEMORY
    processes: int = PROCESSES
    listens: bool = False


@dataclass(frozen=True)
class Result:
    """`ended` says why: exit, timeout, memory or output."""

    code: int
    output: str
    ended: str = "exit"


def parents(path: Path) -> Iterator[str]:
    """Options that make the folders above a mount point, readable for everyone."""
    for parent in list(path.parents)[-2::-1]:
        yield from ("--perms", "0755", "--dir", str(parent))


def mounts() -> list[str]:
    small = ["--perms", "1777", "--size", str(DISK), "--tmpfs"]
    options = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", *small, "/dev/shm"]
    options += ["--remount-ro", "/dev", *small, "/tmp", *small, "/work"]
    for name in ("bin", "sbin", "lib", "lib64"):
        link = Path("/", name)
        options += (
            ["--symlink", f"usr/{name}", f"/{name}"] if link.is_symlink() else ["--ro-bind-try", f"/{name}", f"/{name}"]
        )
    options += ["--perms", "0755", "--dir", "/etc"]
    for name in ("alternatives", "ld.so.cache", "localtime"):
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    python = Path(sys.executable).resolve().parent.parent  # base_prefix can be a link to it
    for folder in dict.fromkeys((python, Path(sys.base_prefix), Path(sys.prefix))):
        if not folder.is_relative_to("/usr"):
            options += [*parents(folder), "--ro-bind", str(folder), str(folder)]
    return options


def environment() -> list[str]:
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    values = {"PATH": path, "HOME": "/work", "USER": "reader", "LOGNAME": "reader", "LANG": "C.UTF-8", "TERM": "dumb"}
    values |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "2", "TZ": "UTC"}
    return [word for name, value in values.items() for word in ("--setenv", name, value)]


def command(argv: Sequence[str], limits: Limits, folder: Path, beside: Mapping[str, Path]) -> list[str]:
    """The whole command line. `folder` holds the snippets and etc/; `beside` are files of the page's folder."""
    bwrap = tools.find("bwrap") or "bwrap"
    spaces = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    options = [*spaces, "--hostname", "localhost", "--die-with-parent", "--new-session", "--clearenv"]
    options += [*mounts(), *environment()]
    for name in ETC:
        options += ["--ro-bind", str(folder / "etc" / name), f"/etc/{name}"]
    for name, path in beside.items():
        options += ["--ro-bind", str(path), f"/work/{name}"]
    for path in sorted(folder.iterdir()):
        if path.is_file():
            options += ["--ro-bind", str(path), f"/work/{path.name}"]
    options += ["--remount-ro", "/", "--chdir", "/work"]
    use = ["prlimit", f"--nproc={limits.processes}", f"--as={ADDRESSES}", f"--fsize={DISK}", "--nofile=1024"]
    use += ["--core=0", "--", *argv]
    alone = ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    root = os.geteuid() == 0
    if not root and not limits.listens:
        return [bwrap, *options, *alone, "--", *use]
    # Mounts and addresses need rights (root may be the only one who can read Python); then they go for good.
    if root:
        drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all"]
        drop += ["--inh-caps=-all", "--no-new-privs"]
    else:
        # As uid 0 of a namespace of its own: for any other uid bwrap makes a second one, without rights over the
        # network. The kernel asks for CAP_SETFCAP where this uid 0 is mapped again.
        options += ["--unshare-user", "--uid", "0", "--gid", "0"]
        options += ["--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_SETFCAP"]
        drop = []
    listen = ["sh", "-c", 'python3 -c "$0" && exec "$@"', ADDRESS] if limits.listens else []
    return [bwrap, *options, "--", *listen, *drop, bwrap, *alone, "--dev-bind", "/", "/", "--", *use]


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def resident(pids: Sequence[int]) -> int:
    """Bytes of memory in use."""
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


def follow(process: subprocess.Popen, limits: Limits) -> tuple[bytes, str]:
    """Read the output until the end or a limit."""
    until, kept, stream = time.monotonic() + limits.timeout, b"", process.stdout.fileno()
    while True:
        ended = process.poll() is not None
        ready, _, _ = select.select([stream], [], [], 0 if ended else 0.1)
        if ready:
            data = os.read(stream, 65536)
            kept += data
            if not data and (ended or process.wait(timeout=max(0.1, until - time.monotonic())) is not None):
                return kept, "exit"
        elif ended:
            return kept, "exit"
        if len(kept) > OUTPUT:
            return kept[:OUTPUT], "output"
        if time.monotonic() > until:
            return kept, "timeout"
        if not ended and resident(family(process.pid)) > limits.memory:
            return kept, "memory"


RUNNING: set[subprocess.Popen] = set()
STOPPED = threading.Event()


def stop_all() -> None:
    """End every sandbox of this process, those too that are about to start, for when it is interrupted."""
    STOPPED.set()
    for process in list(RUNNING):
        end(process)


def end(process: subprocess.Popen) -> None:
    """The first process of the sandbox dies with bwrap, and the kernel ends the rest with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    argv: Sequence[str], files: Mapping[str, str], limits: Limits, beside: Mapping[str, Path] | None = None
) -> Result:
    """Run `argv` with `files` and `beside` in its working directory; standard error goes with the output."""
    with tempfile.TemporaryDirectory(prefix="openbook-snippet-") as name:
        folder = Path(name)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "etc").mkdir()
        for file, text in ETC.items():
            (folder / "etc" / file).write_text(text)
        process = subprocess.Popen(
            command(argv, limits, folder, beside or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        )
        RUNNING.add(process)
        try:
            if STOPPED.is_set():
                end(process)
            output, ended = follow(process, limits)
        except subprocess.TimeoutExpired:
            output, ended = b"", "timeout"
        finally:
            end(process)
            process.wait()
            process.stdout.close()
            RUNNING.discard(process)
        return Result(process.returncode, output.decode(errors="replace"), ended)


@functools.cache
def unusable() -> str:
    """Why nothing can run here, or an empty string."""
    if tools.find("bwrap") is None:
        return "bubblewrap is missing: sudo apt-get install bubblewrap"
    try:
        result = run(["true"], {}, Limits(timeout=10))
    except OSError as problem:
        return str(problem)
    if result.code != 0:
        why = result.output.strip().split("\n")[-1]
        return f"bubblewrap does not work here ({why}): see kernel.apparmor_restrict_unprivileged_userns"
    return ""
