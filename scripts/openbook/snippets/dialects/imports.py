"""Python: names that the pinned libraries do not have, in imports and in `torch.cuda.…`.

Nothing of a page runs: the names are read from its syntax tree, and another process looks them up.
"""

import ast
import importlib.metadata
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbook import python_names
from openbook.snippets import names, tools
from openbook.snippets.cache import Cache, key_of
from openbook.snippets.dialects.base import Problem, Snippet

USUAL = {"torch": "torch", "np": "numpy"}  # what a fragment may use without its import
WORKER = Path(names.__file__)
# Theirs depends on how PyTorch was built, or is made when asked for.
VAGUE = ("torch._C", "torch.ops", "torch.classes", "torch.version")


@dataclass(frozen=True)
class Use:
    """A dotted name that must exist: a module, then what is looked up in it."""

    line: int
    chain: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join(self.chain)


def uses(tree: ast.Module) -> Iterator[Use]:
    """The names that a program takes from modules, but for imports that it expects to fail."""
    tried = python_names.tried(tree)
    bound: dict[str, tuple[str, ...]] = {}
    rebound = python_names.assigned(tree)
    for one in python_names.imports(tree):
        chain = (one.module, one.attribute) if one.attribute not in ("", "*") else (one.module,)
        if one.node not in tried:
            yield Use(one.line, chain)
        if one.bound:
            stands = chain if one.attribute else (one.meant,)
            if one.bound in bound and (one.attribute or bound[one.bound] != stands):
                rebound.add(one.bound)
            bound[one.bound] = stands
    bound = {**{name: (module,) for name, module in USUAL.items() if name not in bound}, **bound}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in tried:
            root, dotted = python_names.dotted_name(node)
            if root in bound and root not in rebound:
                yield Use(node.lineno, (*bound[root], *dotted))


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    """Problems of snippets that parse."""
    wanted: dict[tuple[str, ...], list[tuple[Snippet, int]]] = {}
    for snippet in snippets:
        before = snippet.before + "\n" if snippet.before else ""
        offset = before.count("\n")
        tree = python_names.parsed(before + textwrap.dedent(snippet.source))
        if tree is None:
            continue  # an earlier fence of the session, which is told there
        for use in uses(tree):
            known = use.chain[0].partition(".")[0] in names.KNOWN
            if known and use.line > offset and not f"{use.text}.".startswith(tuple(f"{name}." for name in VAGUE)):
                wanted.setdefault(use.chain, []).append((snippet, use.line - offset))
    told = set()
    for chain, name, like in missing(sorted(wanted)):
        parts = ".".join(chain).split(".")
        where = ".".join(parts[: parts.index(name, 1)])
        for snippet, line in wanted[chain]:
            if (snippet, line, where, name) not in told:
                told.add((snippet, line, where, name))
                hint = f"did you mean {' or '.join(like)}?" if like else ""
                yield snippet, Problem(line, "python-name", f"{called(where)} has no {name!r}", hint)


def called(module: str) -> str:
    """A module with the version that was asked."""
    top = module.partition(".")[0]
    if top in names.LIBRARIES:
        return f"{module} (version {importlib.metadata.version(top)})"
    return f"{module} (Python {sys.version_info.major}.{sys.version_info.minor})"


def missing(chains: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """The chains that lead nowhere. What was found once, with the same versions, is not asked again."""
    cache = Cache()
    versions = [sys.version, WORKER.read_text(encoding="utf-8")]
    versions += [
        f"{one.name} {one.version}" for name in names.LIBRARIES for one in importlib.metadata.distributions(name=name)
    ]
    key = key_of(names=chains, versions=versions)
    if not chains or cache.passed(key):
        return
    done = tools.call([sys.executable, "-I", str(WORKER)], json.dumps(chains), limit=300)
    try:
        answer = json.loads(done.stdout)
    except ValueError:  # the process was ended from outside
        tools.missed.add("names")
        return
    if not answer["missing"]:
        cache.keep(key)
    for number, name, like in answer["missing"]:
        yield chains[number], name, like
