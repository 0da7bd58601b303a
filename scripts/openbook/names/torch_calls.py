"""Names of PyTorch that it does not have, and keyword arguments that a call does not take."""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from openbook import python_names
from openbook.findings import Finding
from openbook.names.documents import SHELL, Document
from openbook.names.torch_names import Entry, Missing, Names

# What a fragment of a page may use without its import.
USUAL = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "dist": "torch.distributed"}
INLINE = re.compile(r"(?<![\w./-])(?:torch|dist)(?:\.\w+)+(?![\w*…<{\[]|\.\w|\.\.\.)")
MODULE = re.compile(r"(?<=\s)-m[ \t]+(torch(?:\.\w+)+)(?![\w.*<{$])")


@dataclass(frozen=True)
class Problem:
    line: int
    rule: str
    message: str
    hint: str = ""


class Bindings:
    """What names mean in a program: imports, less what it binds otherwise."""

    def __init__(self, tree: ast.Module, usual: dict[str, str]):
        self.tried = python_names.tried(tree)
        brought = list(python_names.imports(tree))
        self.imports = [
            (one.node.lineno, f"{one.module}.{one.attribute}" if one.attribute else one.module)
            for one in brought
            if one.attribute != "*" and one.node not in self.tried
        ]
        bound = python_names.assigned(tree)
        meant = {**usual, **{one.bound: one.meant for one in brought if one.bound}}
        self.names = {name: full for name, full in meant.items() if name not in bound}

    def full(self, node: ast.expr) -> str:
        """The dotted name that an expression means; empty for any other."""
        root, rest = python_names.dotted_name(node)
        return ".".join([self.names[root], *rest]) if root in self.names else ""


def missing(found: Missing, version: str) -> tuple[str, str]:
    hint = f"did you mean {' or '.join(found.alike)}?" if found.alike else ""
    return f"{found.where} has no {found.name!r} (PyTorch {version})", hint


def problems(tree: ast.Module, bindings: Bindings, names: Names) -> Iterator[Problem]:
    for line, full in bindings.imports:
        if full.startswith("torch."):
            yield from named(full, line, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in bindings.tried:
            full = bindings.full(node)
            if full.startswith("torch."):
                yield from named(full, node.end_lineno or node.lineno, names)
        elif isinstance(node, ast.Call):
            full = bindings.full(node.func)
            entry = names.find(full) if full.startswith("torch.") else None
            if isinstance(entry, Entry):
                yield from keywords(node, full, entry, names.version)


def named(full: str, line: int, names: Names) -> Iterator[Problem]:
    found = names.find(full)
    if isinstance(found, Missing):
        yield Problem(line, "torch-name", *missing(found, names.version))
    elif isinstance(found, Entry) and found.message:
        yield Problem(line, "torch-deprecated", f"{full} is deprecated in PyTorch {names.version}", found.message)


def keywords(node: ast.Call, full: str, entry: Entry, version: str) -> Iterator[Problem]:
    for keyword in node.keywords:
        if keyword.arg and not entry.takes(keyword.arg):
            known = [one for one in entry.parameters or () if not one.startswith("*")]
            like = difflib.get_close_matches(keyword.arg, known, 1)
            hint = f"did you mean {like[0]}?" if like else f"it takes {', '.join(known)}"
            message = f"{full} takes no argument {keyword.arg!r} (PyTorch {version})"
            yield Problem(keyword.value.lineno, "torch-argument", message, hint)


def check(document: Document, names: Names) -> Iterator[Finding]:
    told: set[tuple[int, str]] = set()
    for line, problem in every(document, names):
        if (line, problem.message) not in told:
            told.add((line, problem.message))
            yield Finding(document.path, line, 0, problem.rule, "error", problem.message, problem.hint)


def every(document: Document, names: Names) -> Iterator[tuple[int, Problem]]:
    usual = USUAL if document.prose else {}
    before: dict[str, str] = {}  # imports of the page's earlier fences
    for piece in document.pieces:
        if piece.language == "python" and (tree := python_names.parsed(piece.text)):
            bindings = Bindings(tree, {**usual, **before})
            before |= {name: full for name, full in bindings.names.items() if full.startswith("torch")}
            for problem in problems(tree, bindings, names):
                yield piece.line_of(problem.line), problem
        elif piece.language in SHELL.values():
            for number, text in enumerate(piece.text.split("\n"), 1):
                for match in MODULE.finditer(text):
                    for problem in named(match[1], number, names):
                        yield piece.line_of(number), problem
    for span in document.inline:
        for problem in in_span(span, names):
            yield next(iter(document.places(span)), 0), problem


def in_span(span: str, names: Names) -> Iterator[Problem]:
    if not INLINE.search(span):
        return
    if (tree := python_names.parsed(span)) is not None:
        usual = {"torch": "torch", "dist": "torch.distributed"}
        yield from problems(tree, Bindings(tree, usual), names)
        return
    for match in INLINE.finditer(span):
        full = match[0].replace("dist.", "torch.distributed.", 1) if match[0].startswith("dist.") else match[0]
        yield from named(full, 0, names)
