"""A page's Markdown as one text: includes put in, every character traceable to its file and line."""

import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

_INCLUDE = re.compile(r"""([ \t>]*)(;*)-+8<-+[ \t]+(["'])(.+?)\3[ \t]*$""")
_BLOCK = re.compile(r"[ \t>]*(;*)-+8<-+[ \t]*$")
_SECTION = re.compile(r"-+8<-+[ \t]+\[[ \t]*(start|end)[ \t]*:[ \t]*([\w-]+)[ \t]*\]")
_FENCE = re.compile(r"(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d+[.)]|!!!|\?\?\?\+?|===!?\+?|\[\^[^\]]+\]:|:)(?:[ \t]|$)")
_INLINE = re.compile(r"<!--.*?-->|(?<![`\\])(`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)\1(?!`)", re.DOTALL)
_MATHS = re.compile(r"\$\$.+?\$\$|(?<![\\$\w])\$(?![\s$])(?:\\.|[^$\\\n])+?(?<!\s)\$(?![\d$])", re.DOTALL)
_TAG = re.compile(r"""<[A-Za-z](?:[^<>"']|"[^"]*"|'[^']*')*>|\{[^{}\n]*\}""")
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>}]+))""")
_WITHOUT_ADDRESS = {
    "alt",
    "title",
    "id",
    "class",
    "name",
    "width",
    "height",
    "loading",
    "rel",
    "target",
    "type",
    "lang",
}
_DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]\n]+\]:[ \t]*\n?[ \t]*<?([^\s>]+)", re.MULTILINE)
_AUTOLINK = re.compile(r"<((?:https?|ftp):[^>\s]*|[^\s<>@]+@[^\s<>@]+)>")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


class Place(NamedTuple):
    """A point of a source file; line and column count from 1."""

    file: Path
    line: int
    column: int


class Destination(NamedTuple):
    """An address as an author wrote it, unescaped, and where in the text it stands."""

    address: str
    at: int
    written_as: str  # "markdown" or "html"


@dataclass
class Source:
    """The text of a page after includes. `clear` is the same text with code, comments and maths blanked."""

    file: Path
    text: str
    clear: str
    starts: list[int]
    origins: list[tuple[Path, int]]

    @classmethod
    def read(cls, file: Path, bases: list[Path], appended: list[str] = ()) -> "Source":
        lines = list(_lines(file, bases, ()))
        for name in appended:
            if found := _find(name, bases):
                lines += _lines(found[0], bases, (file,))
        text = "\n".join(line for line, _, _ in lines)
        starts, at = [], 0
        for line, _, _ in lines:
            starts.append(at)
            at += len(line) + 1
        return cls(file, text, blanked(text), starts or [0], [(path, n) for _, path, n in lines] or [(file, 1)])

    def place(self, at: int) -> Place:
        index = bisect_right(self.starts, at) - 1
        path, number = self.origins[index]
        return Place(path, number, at - self.starts[index] + 1)

    @cached_property
    def destinations(self) -> list[Destination]:
        """The addresses outside of code."""
        return list(destinations(self.clear))

    @cached_property
    def all_destinations(self) -> list[Destination]:
        return list(destinations(self.text))


def _lines(file: Path, bases: list[Path], above: tuple[Path, ...]) -> Iterator[tuple[str, Path, int]]:
    """(text, file, line number) of each line, snippets includes replaced by what they include."""
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    except OSError:
        return
    if len(above) > 20 or file in above:
        return
    wanted = iter(enumerate(lines, 1))
    for number, line in wanted:
        line = line.rstrip("\r")
        names: list[str] = []
        if (match := _INCLUDE.match(line)) and not match[2]:
            names = [match[4]]
        elif (match := _BLOCK.match(line)) and not match[1]:
            for _, inner in wanted:
                if _BLOCK.match(inner):
                    break
                if (name := inner.strip()) and not name.startswith(";"):
                    names.append(name)
        if not names:
            yield line, file, number
        for name in names:
            found = _find(name, bases)
            if found is None:
                yield line, file, number
                continue
            path, part = found
            included = list(_lines(path, bases, (*above, file)))
            yield from _part(included, part)


def _find(name: str, bases: list[Path]) -> tuple[Path, str] | None:
    """The included file and the part of it that is asked for (`:section`, `:first:last`)."""
    for base in bases:
        if (base / name).is_file():
            return base / name, ""
        head, colon, part = name.partition(":")
        if colon and (base / head).is_file():
            return base / head, part
    return None


def _part(lines: list[tuple[str, Path, int]], part: str) -> Iterator[tuple[str, Path, int]]:
    if not part:
        yield from lines
    elif re.fullmatch(r"[\d:,]*", part):
        for span in part.split(","):
            first, _, last = span.partition(":")
            yield from lines[max(int(first or 1), 1) - 1 : int(last) if last else None]
    else:
        inside = False
        for line in lines:
            if mark := _SECTION.search(line[0]):
                if mark[2] == part:
                    inside = mark[1] == "start"
            elif inside:
                yield line


def blanked(text: str) -> str:
    """The text with front matter, fences, indented and inline code, comments and maths turned into spaces."""
    text = _without_blocks(text)
    text = _INLINE.sub(_blank, text)
    return _MATHS.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _without_blocks(text: str) -> str:
    lines = text.split("\n")
    if lines[0].strip() == "---" and (end := next((i for i, s in enumerate(lines[1:], 1) if s.strip() == "---"), 0)):
        lines[: end + 1] = [" " * len(line) for line in lines[: end + 1]]
    closing = {first: last for first, last, _ in fenced(lines)}
    opener, number = "", 0
    while number < len(lines):
        line = lines[number]
        if number in closing:
            for inner in range(number, closing[number] + 1):
                lines[inner] = " " * len(lines[inner])
            number = closing[number] + 1
            continue
        indent = len(line) - len(line.lstrip())
        if line.strip():
            after_blank = number == 0 or not lines[number - 1].strip()
            if indent < 4:
                if after_blank or _ITEM.match(line):
                    opener = line
            elif not _ITEM.match(opener) and after_blank:
                while number < len(lines) and (not lines[number].strip() or lines[number].startswith(("    ", "\t"))):
                    lines[number] = " " * len(lines[number])
                    number += 1
                continue
        number += 1
    return "\n".join(lines)


def fenced(lines: list[str]) -> list[tuple[int, int, str]]:
    """(first line, last line, info string) of each outer fence that is closed; SuperFences renders no other."""
    found, number = [], 0
    while number < len(lines):
        match = _FENCE.match(lines[number])
        if match:
            fence, indent = match["fence"], match["indent"]
            end = re.compile(rf"[ \t>]{{0,{len(indent)}}}{re.escape(fence[0])}{{{len(fence)}}}[ \t]*$")
            last = next((i for i in range(number + 1, len(lines)) if end.match(lines[i])), None)
            if last is not None:
                found.append((number, last, match["info"]))
                number = last
        number += 1
    return found


def destinations(text: str) -> Iterator[Destination]:
    """Every address in Markdown links, images, definitions and HTML attributes, in order."""
    found = [*_inline(text)]
    found += [Destination(_plain(match[1]), match.start(1), "markdown") for match in _DEFINITION.finditer(text)]
    found += [Destination(html.unescape(match[1]), match.start(1), "markdown") for match in _AUTOLINK.finditer(text)]
    for tag in _TAG.finditer(text):
        for match in _ATTRIBUTE.finditer(tag[0]):
            if match[1].lower() in _WITHOUT_ADDRESS:
                continue
            group = next((n for n in (2, 3, 4) if match[n] is not None), 2)
            value, at = html.unescape(match[group] or ""), tag.start() + match.start(group)
            if match[1].lower() in ("srcset", "imagesrcset"):
                values = [part.split()[0] for part in value.split(",") if part.strip()]
            elif "url" in value.lower():
                values = [value, *re.findall(r"""url\s*[(=]\s*["']?([^"')]*)""", value, re.IGNORECASE)]
            else:
                values = [value]
            found += [Destination(each.strip(), at, "html") for each in values]
    return iter(sorted(found, key=lambda each: each.at))


def _plain(written: str) -> str:
    return html.unescape(_ESCAPE.sub(r"\1", written))


def _inline(text: str) -> Iterator[Destination]:
    for match in re.finditer(r"(?<!\\)\]\(\s*", text):
        at = match.end()
        if text.startswith("<", at):
            end = text.find(">", at)
            if end > 0:
                yield Destination(_plain(text[at + 1 : end]), at + 1, "markdown")
            continue
        depth, end = 0, at
        while end < len(text) and not text[end].isspace():
            if text[end] == "\\":
                end += 1
            elif text[end] == "(":
                depth += 1
            elif text[end] == ")":
                if not depth:
                    break
                depth -= 1
            end += 1
        yield Destination(_plain(text[at:end]), at, "markdown")
