"""Runs inside the sandbox: several snippets in one process, a mark with the exit code after each.

driver.py python MARK FILE …     share one namespace, as in a notebook
driver.py pycon MARK FILE …      doctest: what is printed must be what is shown
driver.py ranks=N MARK FILE      N processes at once, as torchrun starts them; their outputs in order of rank
"""

import doctest
import os
import subprocess
import sys
import time
import traceback

GRACE = 3  # seconds that the others get after one rank has failed


def run_python(path: str, names: dict) -> int:
    with open(path, encoding="utf-8") as file:
        source = file.read()
    try:
        exec(compile(source, path, "exec"), names)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run_pycon(path: str, names: dict) -> int:
    with open(path, encoding="utf-8") as file:
        source = file.read()
    test = doctest.DocTestParser().get_doctest(source, names, "snippet", path, 0)
    test.globs = names
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    return int(runner.run(test, clear_globs=False).failed > 0)


def run_ranks(path: str, ranks: int) -> int:
    """The exit code of the first rank that failed, or 0."""
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "lo"}
    processes, outputs = [], [f"/tmp/rank{rank}" for rank in range(ranks)]
    for rank, output in enumerate(outputs):
        env = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with open(output, "wb") as file:
            processes.append(subprocess.Popen([sys.executable, path], env=env, stdout=file, stderr=subprocess.STDOUT))
    failed, until = 0, None
    while any(process.poll() is None for process in processes):
        failed = failed or next((process.returncode for process in processes if process.poll()), 0)
        until = until or (time.monotonic() + GRACE if failed else None)
        if until and time.monotonic() > until:
            for process in processes:
                process.kill()
        time.sleep(0.02)
    for output in outputs:
        with open(output, "rb") as file:
            sys.stdout.buffer.write(file.read())
    failed = failed or next((process.returncode for process in processes if process.returncode), 0)
    return failed if failed >= 0 else 128 - failed


def main() -> None:
    kind, mark, *paths = sys.argv[1:]
    if kind.startswith("ranks="):
        code = run_ranks(paths[0], int(kind.partition("=")[2]))
        sys.stdout.flush()
        print(f"\n{mark} {code}", flush=True)
        return
    sys.argv = sys.argv[:1]
    names = {"__name__": "__main__"}
    for path in paths:
        code = {"python": run_python, "pycon": run_pycon}[kind](path, names)
        sys.stdout.flush()
        sys.stderr.flush()
        print(f"\n{mark} {code}", flush=True)


main()
