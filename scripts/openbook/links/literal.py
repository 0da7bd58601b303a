"""Markup that reached the reader, looked for in the Markdown, where some of it may be escaped on purpose."""

import html
import re

from openbook.links.leaks import OPAQUE

_BRACKET = re.compile(r"\\?[\[\]]|&(?:#91|#x5b|lbrack|lsqb);", re.IGNORECASE)
_STRUCTURE = set("[](){}^!`<")


def occurrences(text: str, literal: str) -> list[int] | None:
    """Where the markup stands; None where the author wrote it so that the reader sees it (escaped, an entity)."""
    plain, escaped = patterns(literal)
    matches = list(plain.finditer(text))
    found = [match.start() for match in matches if not _meant(text, match.start())]
    if not found and (matches or escaped.search(text) or plain.search(html.unescape(text))):
        return None
    return found


def _meant(text: str, at: int) -> bool:
    """Whether the bracket that the one at `at` closes was escaped, so that the author wants to show it."""
    depth = 0
    if text[at] == "]":
        for match in reversed(list(_BRACKET.finditer(text, max(0, at - 400), at))):
            if match[0].endswith("]"):
                depth += 1
            elif depth:
                depth -= 1
            else:
                return match[0] != "["
    return False


def patterns(literal: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(the text with its markup characters as they are, the same with any of them escaped)."""
    plain, escaped = [], []
    for char in literal:
        if char.isspace():
            plain.append(r"\s+")
            escaped.append(r"\s+")
        elif char == OPAQUE:  # code or a link stood here
            plain.append(r"[^\]\n]*?")
            escaped.append(r"[^\]\n]*?")
        else:
            optional = "" if char.isalnum() else r"\\?"
            plain.append(re.escape(char) if char in _STRUCTURE else optional + re.escape(char))
            escaped.append(optional + re.escape(char))
    return re.compile(r"(?<!\\)" + "".join(plain)), re.compile("".join(escaped))
