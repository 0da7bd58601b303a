"""The book's own virtual environment, made from hashed pins with the standard library alone.

Imported by `scripts/serve` and `scripts/test` before anything is installed.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PINS = ROOT / "scripts" / "pins"
OLDEST = (3, 11)


def stop(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def python_of(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def digest_of(pins: Path) -> str:
    """What an environment depends on: the pins, the interpreter, and where it stands."""
    made_of = f"{sys.version} {ROOT} ".encode() + pins.read_bytes()
    return hashlib.sha256(made_of).hexdigest()


def surroundings() -> "dict[str, str]":
    """This process's variables, less those that would mix other packages into the environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}


@contextlib.contextmanager
def only_one() -> "Iterator[dict]":
    """Let a second command wait while the first makes the environment.

    Yields what a child is started with: it holds the lock, too, so that nothing is removed under
    an installer that outlives a killed command.
    """
    with open(ROOT / ".venv.lock", "w") as lock:
        if os.name == "nt":
            import msvcrt

            lock_it = lambda: msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # noqa: E731
        else:
            import fcntl

            lock_it = lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # noqa: E731
        told = False
        while True:
            try:
                lock_it()
                break
            except OSError:
                if not told:
                    print("waiting for another command that is making the environment …", flush=True)
                told = True
                time.sleep(0.5)
        yield {"env": surroundings(), **({} if os.name == "nt" else {"pass_fds": [lock.fileno()]})}


def create(venv: Path, child: dict) -> None:
    try:
        import ensurepip  # noqa: F401  (Debian and Ubuntu leave it out)
        import venv as _  # noqa: F401
    except ImportError:
        version = "{}.{}".format(*sys.version_info[:2])
        stop(
            f"this Python has no venv module. Install it (Debian, Ubuntu: sudo apt-get install python{version}-venv), "
            "then run the command again."
        )
    print(f"making the environment in {venv.name} (Python {sys.version.split()[0]}) …", flush=True)
    if venv.is_symlink() or venv.is_file():
        stop(f"{venv} is not a directory: move it away, then run the command again.")
    if venv.exists():
        shutil.rmtree(venv)
    if subprocess.run([sys.executable, "-m", "venv", str(venv)], **child).returncode:
        stop("the environment could not be made (see above; is the disk full?). Mend that, then run the command again.")


def install(venv: Path, pins: Path, child: dict) -> None:
    print(f"installing the packages of {pins.relative_to(ROOT)} …", flush=True)
    command = [str(python_of(venv)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--only-binary", ":all:", "-r", str(pins)]
    child = {**child, "env": {**child["env"], "PYTHONNOUSERSITE": "1", "PIP_USER": "0"}}
    if subprocess.run(command, **child).returncode:
        stop(
            "the packages could not be installed (see above; the network, a full disk?). "
            "Nothing is left half-made: mend that, then run the command again."
        )
    # The machinery is imported from the checkout, so an edit needs no reinstall. The path is relative:
    # in a C locale Python 3.11 cannot read one with an umlaut.
    where = subprocess.run(
        [str(python_of(venv)), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True, encoding="utf-8", **child,
    )  # fmt: skip
    packages = Path(where.stdout.strip())
    (packages / "openbook.pth").write_text(os.path.relpath(ROOT / "scripts", packages) + "\n")


def has(venv: Path, module: str) -> bool:
    """Whether the environment's Python starts and finds this module."""
    command = [str(python_of(venv)), "-c", f"import {module}"]
    try:
        return subprocess.run(command, cwd=venv, capture_output=True, env=surroundings()).returncode == 0
    except OSError:
        return False


def ensure(kind: str) -> Path:
    """Make or complete the environment for `kind` ("site" or "test"); return its Python.

    A stamp is written last: an environment without it was interrupted, and is made anew.
    """
    if sys.version_info < OLDEST:
        stop("this needs Python {}.{} or newer; this is {}.".format(*OLDEST, sys.version.split()[0]))
    pins = PINS / f"{kind}.txt"
    digest, begun, stamp = digest_of(pins).encode(), VENV / ".begun", VENV / f".{kind}.done"

    def ready() -> bool:
        return not begun.exists() and stamp.is_file() and stamp.read_bytes() == digest and has(VENV, "openbook")

    try:
        if ready():  # before the lock: a checkout that is only read needs none
            return python_of(VENV)
        with only_one() as child:
            if ready():
                return python_of(VENV)
            if begun.exists() or not list(VENV.glob(".*.done")) or not has(VENV, "pip"):
                create(VENV, child)
            begun.touch()
            install(VENV, pins, child)
            stamp.write_bytes(digest)
            begun.unlink()
    except OSError as problem:
        stop(f"the environment cannot be made: {problem}. It needs a checkout that you may write, and 600 MB.")
    return python_of(VENV)


def become(command: "list[str]", env: "dict[str, str]") -> int:
    """Go on as this command, in the root of the repository: signals reach it, and nothing outlives it."""
    os.chdir(ROOT)
    env = {**surroundings(), "NO_MKDOCS_2_WARNING": "1", **env}
    if os.name == "nt":  # has no exec
        return subprocess.run(command, env=env).returncode
    sys.stdout.flush()
    os.execve(command[0], command, env)
