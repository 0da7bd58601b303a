"""Fences that MkDocs does not render: they come out as inline code or as running text.

Whatever looks like a fence's first line and was not taken by SuperFences is marked, the page is
rendered again, and where the mark comes out as text the reader sees a broken fence.
"""

import re
from collections.abc import Iterator

from pymdownx.superfences import RE_NESTED_FENCE_START

from openbook.findings import Finding
from openbook.render import Fence, Page, Renderer, attributes_of
from openbook.snippets.contract import RENDERED

RULE = "broken-fence"
LIST_MARKER = r"(?:[-*+]|\d+[.)]|:|\[\^[^\]\s]+\]:)[ \t]+"
FENCE_LINE = re.compile(rf"[>\s]*(?P<marker>{LIST_MARKER})*(?P<fence>`{{3,}}(?=[^`]*$)|~{{3,}})(?P<info>.*)$")
BRACES = "put everything after the language in braces, as in ```python {check=run}"


def reason(marker: str | None, info: str) -> tuple[str, str]:
    """What is wrong with a first line, and how to mend it."""
    if marker:
        return "a fence on the line of a list marker", "put the fence on a line of its own, indented by four spaces"
    match = RE_NESTED_FENCE_START.match(f"```{info}")
    bare = {key for key, _ in attributes_of(info)} if match and match["options"] else set()
    if match is None or match["unrecognized"] or not bare <= set(RENDERED):
        return f"MkDocs cannot read {info.strip()!r} after the fence", BRACES
    return (
        "the fence is never closed, or a line in it is indented less than it",
        "close it with the same characters at the same indent; a fence that shows fences has four backticks",
    )


def unrendered(page: Page, renderer: Renderer) -> tuple[list[Finding], set[int]]:
    """Findings for the broken fences, and the lines where a closing fence was taken for an opening one.

    `page` must be the last page that `renderer` has rendered.
    """
    inside = {n for block in page.taken for n in range(block.start, block.end)}
    candidates = {n: m for n, line in enumerate(page.lines) if n not in inside and (m := FENCE_LINE.match(line))}
    if not candidates or page.failure:
        return [], set()
    findings, flipped = [], set()
    shown = renderer.shows(candidates)
    firsts = {block.start: block for block in page.taken}
    open_with = None  # the characters of a broken fence whose closing line is still to come
    for n in sorted(candidates.keys() | firsts.keys()):
        if n in firsts:
            if open_with and not firsts[n].language and not firsts[n].info:
                flipped.add(page.origin[n])
            open_with = None
        elif n in shown:
            marker, fence, info = candidates[n].group("marker", "fence", "info")
            if open_with == fence and not info.strip():
                open_with = None
                continue
            message, hint = reason(marker, info)
            findings.append(Finding(page.path, page.origin[n], 0, RULE, "error", message, hint))
            open_with = fence
    return findings, flipped


def swallowed(page: Page, flipped: set[int]) -> Iterator[Finding]:
    """Fences inside a fence of the same characters: the closing line of the outer one was forgotten."""
    for fence in page.fences:
        if fence.start in flipped:
            continue
        for number, line in enumerate(fence.source.split("\n"), 1):
            match = re.match(r"(`{3,}|~{3,})[ \t]*[\w{][^`]*$", line)
            if match and match[1].startswith(opening(page, fence)):
                message = f"a fence opens inside the fence of line {fence.start}: was that one never closed?"
                hint = "close it; to show a fence, give the outer one four backticks"
                yield Finding(page.path, fence.line_of(number), 0, RULE, "error", message, hint)
                break


def opening(page: Page, fence: Fence) -> str:
    """The characters that open the fence."""
    for block in page.taken:
        if page.origin[block.start] == fence.start and block.source == fence.source:
            match = FENCE_LINE.match(page.lines[block.start])
            return match["fence"] if match else "```"
    return "```"
