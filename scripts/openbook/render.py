"""mkdocs.yml → a renderer that records the fences of a page as the reader sees them.

SuperFences itself reports every fence while it renders, with the page's own line numbers. What
SuperFences took but the reader does not see (in an HTML comment, in an indented block) is left out.
"""

import contextlib
import difflib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markdown import Markdown
from markdown.extensions.attr_list import get_attrs
from pymdownx.snippets import SnippetPreprocessor
from pymdownx.superfences import RE_NESTED_FENCE_START, RE_OPTIONS, SuperFencesBlockPreprocessor

from openbook.findings import Misuse

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
TOKEN = re.compile(  # a comment, the inside of a script, or a tag
    r"<!--(?:.*?-->|.*)|<(script|style)\b[^>]*>.*?</\1\s*>|"
    r"<(?P<close>/?)(?P<tag>[a-zA-Z][^\s/>]*)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^>\"'])*+)>",
    re.S | re.I,
)
NUMBER = re.compile(r'\bdata-openbook-fence="(\d+)"')
CLASSES = re.compile(r"""(?:^|\s)class\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
MARK = re.compile("\ue000(\\d+)\ue001")  # private-use characters: no page has them


@dataclass(frozen=True)
class Fence:
    """A code block. Line numbers count from 1 in the page's file."""

    path: str
    start: int
    end: int
    language: str
    attributes: dict[str, str]
    classes: tuple[str, ...]
    source: str
    info: str = ""
    lines: tuple[int, ...] = ()  # where each line of the source stands; included ones: at the include
    within: frozenset[str] = frozenset()  # tags and classes of the elements around it
    follows: bool = False  # nothing but blank lines between it and the fence before

    def line_of(self, number: int) -> int:
        """The page's line for a line of the source (from 1); the opening line for 0, the last for what follows."""
        return self.lines[min(number, len(self.lines)) - 1] if number > 0 and self.lines else self.start


@dataclass
class Page:
    """A rendered page. `fences` are those the reader sees, in order."""

    path: str
    html: str
    fences: list[Fence]
    lines: list[str]  # as SuperFences got them: includes resolved, tabs expanded
    origin: list[int]  # the page's line of each of `lines`
    taken: list["Taken"] = field(default_factory=list)
    failure: Exception | None = None


@dataclass
class Taken:
    """What SuperFences turned into a block: `lines[start:end]`."""

    start: int
    end: int
    language: str
    classes: tuple[str, ...]
    source: str
    info: str


class Line(str):
    """A line that remembers the page's line it comes from, also when indented or unescaped."""

    number: int

    def __new__(cls, text: str, number: int) -> "Line":
        line = super().__new__(cls, text)
        line.number = number
        return line

    def __radd__(self, prefix: str) -> "Line":
        return Line(prefix.__add__(self), self.number)

    def replace(self, *arguments) -> "Line":
        return Line(super().replace(*arguments), self.number)


class TracingSnippets(SnippetPreprocessor):
    """Resolves includes; `origin` then says which line of the page each line comes from."""

    at = 1
    origin: Sequence[int] = ()

    def run(self, lines: list[str]) -> list[str]:
        self.at = 1
        result = super().run([Line(text, number) for number, text in enumerate(lines, 1)])
        self.origin = [getattr(line, "number", self.at) for line in result]
        return result

    def parse_snippets(self, lines, file_name=None, is_url=False, is_section=False):
        if file_name is None:  # the page itself, not a file it includes
            return super().parse_snippets(self.watched(lines), file_name, is_url, is_section)
        included = super().parse_snippets(lines, file_name, is_url, is_section)
        return [Line(text, self.at) for text in included]

    def watched(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.at = getattr(line, "number", self.at)
            yield line


class RecordingFences(SuperFencesBlockPreprocessor):
    """Renders fences and keeps what it took; each block is wrapped so that it is found in the HTML."""

    marked: frozenset[int] = frozenset()
    seen: Sequence[str] = ()
    taken: Sequence[Taken] = ()

    def run(self, lines: list[str]) -> list[str]:
        self.taken, self.seen = [], []
        return super().run(lines)

    def search_nested(self, lines: list[str]) -> list[str]:
        self.seen = list(lines)
        lines = [f"{line}\ue000{n}\ue001" if n in self.marked else line for n, line in enumerate(lines)]
        return super().search_nested(lines)

    def process_nested_block(self, ws, content, start, end):
        info = self.first[len(self.ws) :].lstrip("`~").strip()
        source = self.rebuild_block(self.code)
        self.pending = Taken(start, end, self.lang or "", tuple(self.classes), source, info)
        super().process_nested_block(ws, content, start, end)

    def _store(self, source, code, start, end):
        code = f'<div data-openbook-fence="{len(self.taken)}">{code}</div>'
        self.taken.append(self.pending)
        super()._store(source, code, start, end)


class Scan:
    """What the reader gets: the fences shown, with the elements around them, and marks left in text.

    Patterns, not html.parser, which takes half as long as rendering does.
    """

    def __init__(self, html: str):
        self.stack: list[tuple[str, list[str]]] = []
        self.shown: dict[int, frozenset[str]] = {}
        self.marks: set[int] = set()
        marked, end = "\ue000" in html, 0
        for token in TOKEN.finditer(html):
            if marked:
                self.text(html[end : token.start()])
                end = token.end()
            if token["tag"]:
                self.tag(token["tag"].lower(), bool(token["close"]), token["attributes"])
        self.text(html[end:])

    def tag(self, name: str, closes: bool, attributes: str) -> None:
        if closes:
            for depth in range(len(self.stack) - 1, -1, -1):
                if self.stack[depth][0] == name:
                    del self.stack[depth:]
                    break
            return
        number = NUMBER.search(attributes)
        if number:
            around = {word for tag, classes in self.stack for word in (tag, *classes)}
            self.shown[int(number[1])] = frozenset(around)
        if name not in VOID and not attributes.endswith("/"):
            found = CLASSES.search(attributes)
            self.stack.append((name, (found[1] or found[2] or found[3] or "").split() if found else []))

    def text(self, data: str) -> None:
        if "\ue000" in data and not any(tag == "pre" for tag, _ in self.stack):
            self.marks.update(int(number) for number in MARK.findall(data))


def attributes_of(info: str) -> list[tuple[str, str]]:
    """The attributes of an info string in order, repeated ones too; a class has the key "."."""
    match = RE_NESTED_FENCE_START.match(f"```{info}")
    if match is None:
        return []
    if match["attrs"] is not None:
        pairs = get_attrs(match["attrs"])
    else:
        pairs = [option.group("key", "value") for option in RE_OPTIONS.finditer(match["options"] or "")]
    return [(key, key if value is None else value) for key, value in pairs]


def aligned(page: Sequence[str], lines: Sequence[str]) -> list[int]:
    """The page's line of each line, for when some extension added or removed lines: by likeness."""
    origin = [0] * len(lines)
    matcher = difflib.SequenceMatcher(None, [line.strip() for line in page], [line.strip() for line in lines], False)
    for a, b, size in matcher.get_matching_blocks():
        origin[b : b + size] = range(a + 1, a + size + 1)
    for n, number in enumerate(origin):
        origin[n] = number or (origin[n - 1] if n else 1)
    return origin


def load_config(path: Path):
    """MkDocs' own reading of a configuration. Raises Misuse with what MkDocs says."""
    from mkdocs.config import load_config as load
    from mkdocs.exceptions import MkDocsException

    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    was, logger.propagate = logger.propagate, False
    try:
        return load(config_file=str(path))
    except (MkDocsException, SystemExit) as problem:
        raise Misuse(f"{path}: " + "; ".join([*told, str(problem)])) from problem
    except Exception as problem:  # YAML errors, extensions that cannot be imported
        raise Misuse(f"{path}: {type(problem).__name__}: {problem}") from problem
    finally:
        logger.removeHandler(handler)
        logger.propagate = was


class Renderer:
    """Renders pages as a MkDocs configuration says. One page at a time."""

    def __init__(self, config_file: Path):
        config_file = Path(config_file).resolve()
        if not config_file.is_file():
            raise Misuse(f"no configuration at {config_file}")
        self.root = config_file.parent
        with contextlib.chdir(self.root):  # paths in a configuration start there
            config = load_config(config_file)
            self.docs = Path(config.docs_dir).resolve()
            try:
                self.md = Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs)
            except Exception as problem:
                raise Misuse(f"{config_file}: {type(problem).__name__}: {problem}") from problem
        try:
            self.recorder = self.md.preprocessors["fenced_code_block"]
        except KeyError:
            self.recorder = None
        if type(self.recorder) is not SuperFencesBlockPreprocessor:
            raise Misuse(f"{config_file}: pymdownx.superfences is not among the markdown_extensions")
        # The extensions hold references to these objects, so they change class rather than place.
        self.recorder.__class__ = RecordingFences
        self.snippets = None
        if "snippet" in self.md.preprocessors:
            self.snippets = self.md.preprocessors["snippet"]
            self.snippets.__class__ = TracingSnippets
        superfences = config.mdx_configs.get("pymdownx.superfences", {})
        self.own_fences = frozenset(fence["name"] for fence in superfences.get("custom_fences", []))

    def convert(self, text: str) -> str:
        with contextlib.chdir(self.root):
            return self.md.reset().convert(text)

    def page(self, path: Path, name: str | None = None) -> Page:
        """Render a page. `name` is how results call it. Raises Misuse when it cannot be read."""
        from mkdocs.utils import meta

        name = name or str(path)
        try:
            whole = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as problem:
            raise Misuse(f"{name}: not UTF-8 (byte {problem.start + 1}): save it as UTF-8") from problem
        except OSError as problem:
            raise Misuse(f"{name}: {problem.strerror}") from problem
        text, _ = meta.get_data(whole)
        self.skipped = whole[: len(whole) - len(text)].count("\n")
        self.text, self.recorder.marked = text, frozenset()
        self.recorder.taken, self.recorder.seen = [], []
        html, failure = "", None
        try:
            html = self.convert(text)
        except Exception as problem:  # whatever an extension raises would stop the build
            failure = problem
        taken, lines = list(self.recorder.taken), list(self.recorder.seen)
        page = Page(name, html, [], lines, self.origin(text.split("\n"), lines), taken, failure)
        shown = dict.fromkeys(range(len(taken)), frozenset()) if failure else Scan(html).shown
        page.fences = [self.fence(page, n, shown) for n in range(len(taken)) if n in shown]
        return page

    def shows(self, marked: Iterable[int]) -> set[int]:
        """Which of these lines of the last page a reader sees as running text."""
        self.recorder.marked = frozenset(marked)
        try:
            return Scan(self.convert(self.text)).marks
        except Exception:  # an extension that the marks disturb: nothing is known, so all may be
            return set(marked)

    def origin(self, page: list[str], lines: list[str]) -> list[int]:
        origin = list(self.snippets.origin) if self.snippets else list(range(1, len(page) + 1))
        closing_blanks = 2  # which Python-Markdown appends
        if len(lines) == len(origin) + closing_blanks:
            origin += [origin[-1] if origin else 1] * closing_blanks
        else:
            origin = aligned(page, lines)
        return [number + self.skipped for number in origin]

    def fence(self, page: Page, n: int, shown: dict[int, frozenset[str]]) -> Fence:
        block = page.taken[n]
        between = page.lines[page.taken[n - 1].end : block.start] if n else []
        pairs = attributes_of(block.info)
        return Fence(
            path=page.path,
            start=page.origin[block.start],
            end=page.origin[block.end - 1],
            language=block.language,
            attributes={key: value for key, value in pairs if key != "."},
            classes=block.classes,
            source=block.source,
            info=block.info,
            lines=tuple(page.origin[block.start + 1 : block.end - 1]),
            within=shown[n],
            follows=n - 1 in shown and not any(line.strip("> \t") for line in between),
        )
