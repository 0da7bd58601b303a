"""Python: it parses, the libraries have its names; with check=lint and above, ruff finds no undefined name."""

import ast
import json
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from openbook.snippets import tools
from openbook.snippets.dialects import imports
from openbook.snippets.dialects.base import Dialect, Problem, Snippet

LINTED = ("lint", "run", "gpu")
# Syntax, comparisons that cannot be meant, misplaced statements, undefined names.
RULES = "E9,F63,F7,F82"


def syntax(snippet: Snippet) -> Problem | None:
    source = textwrap.dedent(snippet.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if snippet.level == "compile":
                compile(source, "<snippet>", "exec")
            else:
                ast.parse(source)
        except SyntaxError as problem:
            return Problem(problem.lineno or 0, "python-syntax", problem.msg)
        except (ValueError, RecursionError, MemoryError) as problem:
            return Problem(0, "python-syntax", str(problem) or "nested too deeply to parse")
    return None


def lint(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    ruff = tools.find("ruff")
    if not snippets or ruff is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, snippet in enumerate(snippets):
            Path(folder, f"{number}.py").write_text(lintable(snippet), encoding="utf-8")
        command = [ruff, "check", "--isolated", "--no-cache", "--quiet", "--select", RULES]
        done = tools.call([*command, "--output-format", "json", folder])
    for item in json.loads(done.stdout or "[]"):
        snippet = snippets[int(Path(item["filename"]).stem)]
        line = item["location"]["row"] - lintable(snippet).count("\n") + snippet.source.count("\n")
        if line > 0:  # what an earlier fence of the session does wrong is told there
            yield snippet, Problem(line, f"python-{item['code'] or 'syntax'}", item["message"])


def lintable(snippet: Snippet) -> str:
    """The snippet after the fences of its session that come before it."""
    return (snippet.before + "\n" if snippet.before else "") + textwrap.dedent(snippet.source)


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    sound = []
    for snippet in snippets:
        problem = syntax(snippet)
        if problem:
            yield snippet, problem
        else:
            sound.append(snippet)
    yield from lint([snippet for snippet in sound if snippet.level in LINTED])
    yield from imports.check(sound)


PYTHON = Dialect("python", check, ("parse", "lint", "compile", "run", "gpu"), ("py", "python3"))
