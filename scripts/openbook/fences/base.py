"""What the book's own fences share: reading the body with lines, refusing what is wrong, escaping.

A fence is a module with `render` and `validate`, which mkdocs.yml registers as a custom fence of SuperFences.
Its core is a function `(body, problems) → HTML`; `formatter` makes of it what SuperFences calls. A mistake
stops the build with the line of the body that is wrong; a checker that sets `md.openbook_tolerant` gets a
page nevertheless, and asks `problems_of` for all mistakes of each fence.
"""

import hashlib
import html
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pymdownx.superfences import SuperFencesException

from openbook.data.lines import Node, read
from openbook.data.problem import Problem

Core = Callable[[Node, list[Problem]], str]
MAX_BODY = 20_000


class FenceError(SuperFencesException, ValueError):
    """A fence that cannot be rendered. MkDocs names the page."""


def escape(text: object) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(str(text), quote=True)


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `content` is HTML already. `class_` is class, `data_x` is data-x; None is left out, True is bare."""
    parts = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(key)
        elif value is not None:
            parts.append(f'{key}="{escape(value)}"')
    return f"<{' '.join(parts)}>{content}</{name}>"


def identifier(prefix: str, body: str) -> str:
    """An id that stays when the page around the fence changes."""
    return f"{prefix}-{hashlib.sha256(body.encode()).hexdigest()[:8]}"


def body_of(source: str, problems: list[Problem]) -> Node | None:
    """The body as a mapping with lines."""
    if len(source) > MAX_BODY:
        problems.append(Problem(0, "yaml", f"the body is longer than {MAX_BODY:,} characters"))
        return None
    root, found = read(source)
    problems += found
    if root is None or root.value is None:
        if not found:
            problems.append(Problem(0, "yaml", "the body is empty"))
        return None
    return root


def problems_of(core: Core, source: str) -> tuple[str, list[Problem]]:
    """The HTML, "" where there is none, and everything that is wrong with a fence's body."""
    problems: list[Problem] = []
    root = body_of(source, problems)
    html = core(root, problems) if root is not None else ""
    return ("" if any(problem.severity == "error" for problem in problems) else html), problems


def attribute_problems(attributes: Mapping[str, Any], allowed: tuple[str, ...] = ()) -> list[Problem]:
    """The attributes after the fence's name that mean nothing."""
    hint = f"allowed: {', '.join(allowed)}" if allowed else "everything stands in the body"
    return [
        Problem(0, "unknown-attribute", f"the attribute {name!r} means nothing here", hint)
        for name in attributes
        if name not in allowed
    ]


def validator(name: str) -> Callable[..., bool]:
    """What SuperFences asks before it renders. The book's fences take no attributes."""
    return partial(_validate, name)


def _validate(name: str, language: str, inputs: dict[str, Any], options: dict, attrs: dict, md: Any) -> bool:
    wrong = attribute_problems(inputs)
    if wrong and not tolerant(md):
        raise FenceError(f"{name} fence: {wrong[0]}")
    return True


def formatter(name: str, core: Core) -> Callable[..., str]:
    """What SuperFences calls to render. It can be pickled, which Zensical does with the configuration."""
    return partial(_render, name, core)


def _render(
    name: str, core: Core, source: str, language: str, class_name: str, options: dict, md: Any, **kwargs: Any
) -> str:
    try:
        html, problems = problems_of(core, source)
    except Exception as problem:  # SuperFences would show the body as code, and nobody would notice
        raise FenceError(f"{name} fence: {type(problem).__name__}: {problem}") from problem
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors and not tolerant(md):
        raise FenceError(message(name, source, errors))
    return html or tag("p", escape(f"{name}: {errors[0] if errors else 'empty'}"), class_="openbook-failed")


def tolerant(md: Any) -> bool:
    return getattr(md, "openbook_tolerant", False)


def message(name: str, source: str, errors: list[Problem]) -> str:
    """All errors of a fence in one text, each with the line that it is about."""
    lines = source.splitlines()
    told = [f"{name} fence that begins with {(lines[0] if lines else '')[:60]!r}:"]
    for error in errors[:5]:
        line = lines[error.line - 1].strip()[:80] if 0 < error.line <= len(lines) else ""
        told.append(f"  {error}" + (f": {line}" if line else ""))
    return "\n".join(told + ([f"  and {len(errors) - 5} more"] if len(errors) > 5 else []))
