"""Runs inside the sandbox: several snippets in one process, a mark with the exit code after each.

driver.py python MARK FILE …     share one namespace, as in a notebook
driver.py pycon MARK FILE …      doctest: what is printed must be what is shown
"""

import doctest
import sys
import traceback


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


def main() -> None:
    kind, mark, *paths = sys.argv[1:]
    sys.argv = sys.argv[:1]
    names = {"__name__": "__main__"}
    for path in paths:
        code = {"python": run_python, "pycon": run_pycon}[kind](path, names)
        sys.stdout.flush()
        sys.stderr.flush()
        print(f"\n{mark} {code}", flush=True)


main()
