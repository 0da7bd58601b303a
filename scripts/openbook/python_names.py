"""What the names of a Python program stand for, read from its syntax tree: nothing of it is imported or run."""

import ast
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Import:
    """One name that an import statement brings; `attribute` and `bound` are empty where there is none."""

    line: int
    module: str
    attribute: str  # of `from module import attribute`; "*" for all
    bound: str  # the program's name for it
    meant: str  # what that name stands for
    node: ast.stmt


def parsed(source: str) -> ast.Module | None:
    """The tree of a program or an indented part of one; None where it is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(textwrap.dedent(source))
        except (SyntaxError, ValueError, RecursionError):
            return None


def imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meant = alias.name if alias.asname else alias.name.partition(".")[0]
                yield Import(node.lineno, alias.name, "", alias.asname or meant, meant, node)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                bound = "" if alias.name == "*" else alias.asname or alias.name
                meant = f"{node.module}.{alias.name}" if bound else ""
                yield Import(alias.lineno, node.module, alias.name, bound, meant, node)


def assigned(tree: ast.Module) -> set[str]:
    """Names that the program binds by other means than an import."""
    return {name for node in ast.walk(tree) if (name := binding(node))}


def binding(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    return None


def tried(tree: ast.Module) -> set[ast.AST]:
    """What stands in a `try` with handlers: a program that expects it to fail."""
    return {
        below
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and node.handlers
        for statement in node.body
        for below in ast.walk(statement)
    }


def dotted_name(node: ast.expr) -> tuple[str, list[str]]:
    """`a.b.c` as its root and the rest; an empty root for an attribute of anything else."""
    found: list[str] = []
    while isinstance(node, ast.Attribute):
        found.insert(0, node.attr)
        node = node.value
    return (node.id, found) if isinstance(node, ast.Name) else ("", [])
