"""From pages to what must be checked: every fence with its dialect, its expectation and its output."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openbook.findings import Finding
from openbook.render import Fence, Renderer
from openbook.snippets import broken, contract
from openbook.snippets.contract import Expectation
from openbook.snippets.dialects import BY_NAME, EVERY, Dialect

OUTPUT = "output"
RENDER_ERROR = "render-error"
OWN = Expectation("own")  # rendered and validated by the book's own fences
# Which fences may share a session: those that one process can run.
KINDS = {"python": "python", "pycon": "pycon", "bash": "shell", "console": "shell"}


@dataclass(eq=False)
class Item:
    """A fence to check. `output` is what running it must print, where the page says so."""

    fence: Fence
    dialect: Dialect | None  # None: nothing to check
    expectation: Expectation
    output: Fence | None = None
    before: list["Item"] = field(default_factory=list)  # the earlier fences of its session

    @property
    def level(self) -> str:
        return self.expectation.level

    @property
    def kind(self) -> str:
        return KINDS.get(self.dialect.name, self.dialect.name) if self.dialect else ""


@dataclass
class PageItems:
    path: str
    folder: Path | None  # where files beside the page are, for a page of the book
    items: list[Item]
    findings: list[Finding]


def known_languages() -> str:
    return ", ".join(sorted(dialect.name for dialect in EVERY))


def item_of(fence: Fence, own: frozenset[str], flipped: set[int]) -> tuple[Item, list[Finding]]:
    def found(rule: str, message: str, hint: str) -> list[Finding]:
        return [Finding(fence.path, fence.start, 0, rule, "error", message, hint)]

    if fence.language in own:
        return Item(fence, None, OWN), []
    if not fence.language:
        if fence.start in flipped:  # a closing line, whose fence is reported as broken
            return Item(fence, None, Expectation("unknown")), []
        return Item(fence, None, Expectation("unknown")), found(
            "unlabelled-fence", "the fence has no language", f"text, or one of: {known_languages()}"
        )
    dialect = BY_NAME.get(fence.language.lower())
    if dialect is None:
        message = f"unknown language {fence.language!r}"
        return Item(fence, None, Expectation("unknown")), found(
            "unknown-language", message, f"known: {known_languages()}"
        )
    expectation, mistakes = contract.read(fence, dialect.levels)
    return Item(fence, dialect, expectation), mistakes


def pair_outputs(items: Sequence[Item]) -> Iterator[Finding]:
    """Give each `.output` fence to the fence before it; yield those that would be compared with nothing."""
    for before, item in zip([None, *items], items, strict=False):
        if OUTPUT not in item.fence.classes or item.level == "skip":
            continue
        fence = item.fence
        if before is None or not fence.follows or OUTPUT in before.fence.classes:
            message = "an .output fence must come directly after the fence that prints it"
            hint = "move the text between them, or leave .output out"
            yield Finding(fence.path, fence.start, 0, "stray-output", "error", message, hint)
        elif before.level == "run" and before.dialect and before.dialect.name in ("console", "pycon"):
            message = f"a {before.dialect.name} fence carries its own output; this one is compared with nothing"
            yield Finding(fence.path, fence.start, 0, "stray-output", "error", message)
        elif before.level == "run":
            before.output = fence


def join_sessions(items: Sequence[Item]) -> Iterator[Finding]:
    """Tell each fence of a session which ones come before it; yield those of another kind."""
    sessions: dict[str, list[Item]] = {}
    for item in items:
        name = item.expectation.session
        if not name:
            continue
        session = sessions.setdefault(name, [])
        if session and session[0].kind != item.kind:
            message = f"session {name!r} began with {session[0].fence.language} on line {session[0].fence.start}"
            yield Finding(item.fence.path, item.fence.start, 0, "mixed-session", "error", message, "use another name")
            continue
        item.before = list(session)
        session.append(item)


def line_of(failure: Exception, path: Path) -> int:
    """The page's line that holds what a failure quotes, such as the name of a missing include; else 0."""
    quoted = re.findall(r"'([^']+)'", str(failure))
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return next((n for n, line in enumerate(lines, 1) if any(text in line for text in quoted)), 0)


def collect(renderer: Renderer, path: Path, name: str) -> PageItems:
    """Render one page. Raises Misuse when it cannot be read."""
    page = renderer.page(path, name)
    folder = path.resolve().parent if path.resolve().is_relative_to(renderer.docs) else None
    findings, flipped = broken.unrendered(page, renderer)
    findings += broken.swallowed(page, flipped)
    if page.failure:
        message = f"the page cannot be rendered: {type(page.failure).__name__}: {page.failure}"
        findings.append(Finding(name, line_of(page.failure, path), 0, RENDER_ERROR, "error", message))
    items = []
    for fence in page.fences:
        item, mistakes = item_of(fence, renderer.own_fences, flipped)
        items.append(item)
        findings += mistakes
    findings += pair_outputs(items)
    findings += join_sessions(items)
    return PageItems(name, folder, items, findings)
