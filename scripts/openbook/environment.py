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


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Let a second command wait while the first makes the environment."""
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
        yield


def create(venv: Path) -> None:
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
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)


def install(venv: Path, pins: Path) -> None:
    print(f"installing the packages of {pins.relative_to(ROOT)} …", flush=True)
    command = [str(python_of(venv)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--only-binary", ":all:", "-r", str(pins)]
    done = subprocess.run(command, env={**os.environ, "PYTHONNOUSERSITE": "1"})
    if done.returncode:
        stop("the packages could not be installed (see above). Nothing is left half-made: run the command again.")
    # The machinery is imported from the checkout, so an edit needs no reinstall.
    where = subprocess.run(
        [str(python_of(venv)), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    Path(where.stdout.strip(), "openbook.pth").write_text(f"{ROOT / 'scripts'}\n", encoding="utf-8")


def runs(venv: Path) -> bool:
    try:
        return subprocess.run([str(python_of(venv)), "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def ensure(kind: str) -> Path:
    """Make or complete the environment for `kind` ("site" or "test"); return its Python.

    A stamp is written last: an environment without it was interrupted, and is made anew.
    """
    if sys.version_info < OLDEST:
        stop("this needs Python {}.{} or newer; this is {}.".format(*OLDEST, sys.version.split()[0]))
    pins = PINS / f"{kind}.txt"
    digest, begun = digest_of(pins), VENV / ".begun"
    stamp = VENV / f".{kind}.done"
    with only_one():
        if stamp.is_file() and stamp.read_text() == digest and runs(VENV):
            return python_of(VENV)
        if begun.exists() or not VENV.exists() or not list(VENV.glob(".*.done")) or not runs(VENV):
            create(VENV)
        begun.touch()
        install(VENV, pins)
        stamp.write_text(digest)
        begun.unlink()
    return python_of(VENV)
