"""What is checked: inline code and fences of a page as the reader sees them, and the files beside pages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from openbook.findings import Misuse
from openbook.render import Page, Renderer

# Languages whose lines are commands or settings; of a console, only what is typed.
SHELL = {"bash": "bash", "sh": "bash", "shell": "bash", "slurm": "slurm", "sbatch": "slurm", "console": "console"}
SETTINGS = frozenset({"yaml", "yml", "dockerfile", "docker", "ini", "toml", "json"})
PYTHON = frozenset({"python", "py", "python3"})
SUFFIXES = {".py": "python", ".sbatch": "slurm", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml"}


@dataclass
class Piece:
    """A text in one language; `lines` says where each line of it stands in the file."""

    language: str
    text: str
    lines: Sequence[int]

    def line_of(self, number: int) -> int:
        return self.lines[min(max(number, 1), len(self.lines)) - 1] if self.lines else 1


@dataclass
class Document:
    """`inline` holds each code span; `places` tells where a text stands outside fences."""

    path: str
    pieces: list[Piece] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    prose: list[tuple[int, str]] = field(default_factory=list)

    def places(self, text: str) -> list[int]:
        """Lines of the source, outside fences, that hold a text; of a wrapped one, its first long word."""
        for wanted in (text, next(iter(re.findall(r"[\w.-]{6,}", text)), text)):
            whole = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(wanted)}(?![A-Za-z0-9_])")
            found = [number for number, line in self.prose if whole.search(line)]
            if found:
                return found
        return []


class CodeSpans(HTMLParser):
    """The text of each <code> that is no code block."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.blocks = self.depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.blocks += tag == "pre"
        if tag == "code" and not self.blocks:
            self.found.append("")
            self.depth += 1

    def handle_endtag(self, tag):
        self.blocks -= tag == "pre"
        self.depth -= tag == "code" and self.depth > 0

    def handle_data(self, data):
        if self.depth and not self.blocks:
            self.found[-1] += data


def typed(source: str) -> str:
    """A transcript with everything blanked but what is typed after `$ `; lines keep their numbers."""
    kept, goes_on = [], False
    for line in source.split("\n"):
        mine = line.startswith("$ ") or goes_on
        text = re.sub(r"^[$>] ", "  ", line) if mine else ""
        kept.append(text)
        goes_on = mine and text.rstrip().endswith("\\")
    return "\n".join(kept)


def of_page(page: Page) -> Document:
    if page.failure:
        raise Misuse(f"{page.path}: cannot be rendered: {page.failure}")
    taken = {number for block in page.taken for number in range(block.start, block.end)}
    prose = [(page.origin[n], line) for n, line in enumerate(page.lines) if n not in taken and n < len(page.origin)]
    document = Document(page.path, inline=CodeSpans(page.html).found, prose=prose)
    for fence in page.fences:
        language = fence.language.lower()
        language = "python" if language in PYTHON else SHELL.get(language, language)
        source = typed(fence.source) if language == "console" else fence.source
        document.pieces.append(Piece(language, source, fence.lines or (fence.start,)))
    return document


def of_file(path: Path, name: str) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"{name}: {problem}") from problem
    return Document(name, [Piece(SUFFIXES[path.suffix], text, range(1, text.count("\n") + 2))])


def read(
    renderer: Renderer, pages: Sequence[tuple[Path, str]], files: Sequence[tuple[Path, str]]
) -> Iterator[Document]:
    for path, name in pages:
        yield of_page(renderer.page(path, name))
    for path, name in files:
        yield of_file(path, name)
