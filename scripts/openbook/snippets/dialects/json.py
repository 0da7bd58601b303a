"""JSON: one document, strictly, without repeated names."""

import json
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise KeyError(name)
        found[name] = value
    return found


def no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check(snippet: Snippet) -> Iterator[Problem]:
    try:
        json.loads(snippet.source, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError as problem:
        yield Problem(problem.lineno, "json-syntax", problem.msg)
    except KeyError as name:
        lines = [n for n, line in enumerate(snippet.source.split("\n"), 1) if json.dumps(name.args[0]) in line]
        yield Problem(lines[-1] if lines else 0, "json-duplicate-key", f"name {name} stands twice")
    except (ValueError, RecursionError) as problem:
        yield Problem(0, "json-syntax", str(problem) or "nested too deeply")


JSON = Dialect("json", each(check))
