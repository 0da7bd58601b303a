"""The book behind a site: mkdocs.yml, read without importing or running anything that it names."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from openbook.findings import Misuse
from openbook.links.site import Site

MARKDOWN = (".md", ".markdown", ".mdown", ".mkdn", ".mkd")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # ten times as fast where PyYAML has its C library
    """Knows MkDocs' `!ENV`; every other tag gives None, since nothing that it could name is needed here."""


def _env(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    """`!ENV NAME` or `!ENV [NAME, …, default]`. Source: https://pypi.org/project/pyyaml-env-tag/"""
    if isinstance(node, yaml.ScalarNode):
        names, default = [str(loader.construct_scalar(node))], None
    elif isinstance(node, yaml.SequenceNode):
        *names, default = loader.construct_sequence(node) or [None]
        if not names and isinstance(default, str):
            names, default = [default], None
    else:
        raise yaml.constructor.ConstructorError(None, None, "!ENV wants a name or a list", node.start_mark)
    value = next((os.environ[name] for name in names if name in os.environ), None)
    return default if value is None else yaml.safe_load(value)


_Loader.add_constructor("!ENV", _env)
_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


@dataclass
class Book:
    """What the link checker wants to know of a book. Paths in `sources` are relative to `docs`."""

    file: Path
    docs: Path
    site_url: str = ""
    nav: list[str] | None = None
    not_in_nav: str = ""
    snippet_bases: list[Path] = field(default_factory=list)
    appended: list[str] = field(default_factory=list)
    fences: tuple[str, ...] = ()  # languages of fences that the book renders by its own code
    theme: Path | None = None
    text: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # page of the site → Markdown file

    @classmethod
    def read(cls, file: Path) -> "Book":
        text = _text(file)
        settings = _settings(file, text)
        root = file.parent
        docs = root / _string(file, settings, "docs_dir", "docs")
        if not docs.is_dir():
            raise Misuse(f"{file}: docs_dir {docs} is not a folder")
        nav = settings.get("nav")
        theme = settings.get("theme")
        custom = theme.get("custom_dir") if isinstance(theme, dict) else None
        snippets = _options(settings.get("markdown_extensions"), "pymdownx.snippets")
        fences = _options(settings.get("markdown_extensions"), "pymdownx.superfences").get("custom_fences")
        bases = snippets.get("base_path", ["."])
        return cls(
            file=file,
            docs=docs,
            site_url=_string(file, settings, "site_url", ""),
            nav=None if nav is None else [entry for entry in _leaves(nav) if "://" not in entry],
            not_in_nav=_string(file, settings, "not_in_nav", ""),
            snippet_bases=[root / base for base in ([bases] if isinstance(bases, str) else bases or [])],
            appended=list(snippets.get("auto_append") or []),
            fences=_names(fences),
            theme=root / custom if isinstance(custom, str) else None,
            text=text,
            settings=settings,
        )

    def files(self) -> list[str]:
        """Every file below docs, relative to it."""
        found = []
        for folder, inner, names in os.walk(self.docs):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            here = Path(folder).relative_to(self.docs)
            found += [(here / name).as_posix() for name in sorted(names) if not name.startswith(".")]
        return found

    def join(self, site: Site) -> float:
        """Find the source of each page of the site; return the share of sources that have a page."""
        markdown = [name for name in self.files() if name.endswith(MARKDOWN)]
        for name in markdown:
            page = next((page for page in pages_of(name) if page in site.files), None)
            if page is not None and (page not in self.sources or PurePosixPath(name).stem == "index"):
                self.sources[page] = name
        return len(self.sources) / len(markdown) if markdown else 0.0


def pages_of(source: str) -> tuple[str, ...]:
    """Where MkDocs may build a Markdown file to, with and without directory addresses."""
    path = PurePosixPath(source)
    folder = "" if str(path.parent) == "." else f"{path.parent}/"
    if path.stem in ("index", "README"):
        return (f"{folder}index.html",)
    return (f"{folder}{path.stem}/index.html", f"{folder}{path.stem}.html")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise Misuse(f"{file} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise Misuse(f"{file} is not UTF-8: {problem.reason} at byte {problem.start}") from problem


def _settings(file: Path, text: str, depth: int = 0) -> dict[str, Any]:
    try:
        settings = yaml.load(text, _Loader)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{file}:{min(mark.line, text.count(chr(10))) + 1}" if mark else str(file)
        what = getattr(problem, "problem", None) or str(problem)
        raise Misuse(f"{where}: not valid YAML: {what}") from problem
    except (ValueError, RecursionError, TypeError) as problem:
        raise Misuse(f"{file}: not valid YAML: {problem}") from problem
    if not isinstance(settings, dict):
        raise Misuse(f"{file}: a MkDocs configuration is a mapping of options, this is not")
    parent = settings.get("INHERIT")
    if isinstance(parent, str) and depth < 8:
        path = file.parent / parent
        return _settings(path, _text(path), depth + 1) | settings
    return settings


def _string(file: Path, settings: dict[str, Any], name: str, default: str) -> str:
    value = settings.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise Misuse(f"{file}: {name} is text, not {value!r}")
    return value


def _options(extensions: Any, name: str) -> dict[str, Any]:
    for entry in extensions if isinstance(extensions, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get(name), dict):
            return entry[name]
    found = extensions.get(name) if isinstance(extensions, dict) else None
    return found if isinstance(found, dict) else {}


def _leaves(nav: Any) -> Iterable[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for value in nav.values():
            yield from _leaves(value)
    elif isinstance(nav, list):
        for value in nav:
            yield from _leaves(value)


def _names(fences: Any) -> tuple[str, ...]:
    entries = [each for each in fences if isinstance(each, dict)] if isinstance(fences, list) else []
    return tuple(name for each in entries if re.fullmatch(r"[\w-]+", name := str(each.get("name", ""))))
