"""Tells which names the installed libraries lack: a program of its own, since it imports them.

Reads a JSON list of [module, name, name …] chains, writes {"missing": [[index, name, suggestions] …],
"versions": {…}}. It imports the pinned libraries and the standard library only, nothing else, whatever it is asked.
"""

import contextlib
import difflib
import importlib
import importlib.metadata
import io
import json
import sys
import types
import warnings

LIBRARIES = ("torch", "numpy")
# Importing these does something.
NEVER = {"antigravity", "this", "idlelib", "turtledemo", "test", "__main__", "tkinter", "turtle", "lib2to3"}
KNOWN = (sys.stdlib_module_names - NEVER) | set(LIBRARIES)


class Unknown(Exception):
    """Cannot be told here."""


def imported(name: str) -> types.ModuleType | None:
    """The module, or None when its package lacks it. Raises Unknown for whatever else goes wrong."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and (name == problem.name or name.startswith(f"{problem.name}.")):
            return None
        raise Unknown from problem
    except BaseException as problem:
        raise Unknown from problem


def lacking(chain: list[str]) -> tuple[str, list[str]] | None:
    """The first name that is not there, with the most similar ones that are. Raises Unknown."""
    module, *names = chain
    top = module.partition(".")[0]
    if top not in KNOWN or (top in LIBRARIES and imported(top) is None):
        raise Unknown
    found = imported(top)
    for name in [*module.split(".")[1:], *names]:
        if type(found) is not types.ModuleType:  # an object, or a module that makes its names up
            return None
        try:
            found = getattr(found, name)
        except AttributeError:
            below = imported(f"{found.__name__}.{name}") if hasattr(found, "__path__") else None
            if below is None:
                return name, difflib.get_close_matches(name, dir(found), 2)
            found = below
    return None


def main() -> None:
    chains = json.load(sys.stdin)
    missing, versions = [], {}
    for number, chain in enumerate(chains):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Unknown), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = lacking(chain)
            if result:
                missing.append([number, *result])
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    json.dump({"missing": missing, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
