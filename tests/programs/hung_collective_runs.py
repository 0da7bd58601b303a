"""Run hung_collective.py for several argument lists, side by side, with one import of PyTorch.

Reads a JSON list of argument lists from standard input and writes the list of
`{"code": …, "out": …, "err": …}`. Importing PyTorch is nearly all the CPU time of a rank, so launchers and
ranks are forked from this process. Everything else is the program's own.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "docs" / "debugging" / "hung_collective.py"


class ForkedRank:
    """Stands for subprocess.Popen in the launcher: the rank is forked, and runs the program as __main__."""

    def __init__(self, command, env, **_):
        read_end, write_end = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update(env)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the launcher has its own handler
            run_program(command[2:], write_end, write_end)
        os.close(write_end)
        self.stdout = lines_of(read_end)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def lines_of(descriptor):
    """Lines of a pipe, without a lock that a fork could copy in the locked state."""
    rest = b""
    while chunk := os.read(descriptor, 65536):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace") + "\n"


def run_program(args, out, err):
    """Become the program with these arguments and outputs; exceptions end the process as they end Python."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = [str(PROGRAM), *args]
    runpy.run_path(str(PROGRAM), run_name="__main__")
    raise AssertionError("the program calls sys.exit")


def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch.distributed  # noqa: F401  (here, so that nobody below needs to)

    gc.freeze()  # else every collection in a fork copies the pages of all modules
    subprocess.Popen = ForkedRank
    started = []
    for args in json.load(sys.stdin):
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  (read below)
        pid = os.fork()
        if pid == 0:
            run_program(args, out.fileno(), err.fileno())
        started.append((pid, out, err))
    results = []
    for pid, *files in started:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [os.pread(file.fileno(), 10**7, 0).decode(errors="replace") for file in files]
        results.append({"code": code, "out": texts[0], "err": texts[1]})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
