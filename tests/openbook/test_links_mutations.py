"""Random damage to the real book: every broken link, anchor and file is found at its line, and nothing else."""

import posixpath
import random
import re
import shutil
from pathlib import Path

import pytest

from openbook import ROOT
from openbook.links.book import Book
from openbook.links.run import build, findings
from openbook.links.site import Site

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")
pytest.importorskip("mkdocs", reason="needs MkDocs: pip install -e .")

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|[\s<)])([^\s#()]*?)([\w-]*)(\.\w+)?(?:#([\w-]+))?(?=\))")
HEADING = re.compile(r"^#+ .*\{ *#([\w-]+) *\}\s*$")
EACH = 8  # changes of one kind in one book

Place = tuple[str, int]  # a file in docs and a line of it, counted from 1


def copied(folder: Path) -> Path:
    """The book in a folder of its own, with the machinery where the configuration looks for it."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    return folder


def found(folder: Path) -> set[tuple[str, int, str]]:
    """(file in docs, line, rule) of each finding in the book as it is in the folder now."""
    build(folder / "mkdocs.yml", folder / "site")
    site, book = Site.read(folder / "site"), Book.read(folder / "mkdocs.yml")
    book.join(site)
    results = findings(site, book, "site")[1]
    return {(str(Path(f.path)).removeprefix(f"{folder}/docs/"), f.line, f.rule) for f in results}


def prose(docs: Path) -> dict[Place, str]:
    """The lines of all pages that are not in a fence or comment and have no inline code with a link in it."""
    lines = {}
    for file in sorted(docs.rglob("*.md")):
        fence = ""
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if mark := re.match(r"[\s>]*(`{3,}|~{3,})", line):
                if not fence:
                    fence = mark[1]
                elif mark[1].startswith(fence):
                    fence = ""
            elif not fence and not re.search(r"`[^`]*\]\([^`]*`|<!--|\]\(<", line):
                lines[file.relative_to(docs).as_posix(), number] = line
    return lines


def target_of(name: str, link: re.Match[str]) -> tuple[str, str]:
    """(file in docs, anchor) that a link of the page `name` leads to."""
    path = "".join(part or "" for part in link.group(1, 2, 3))
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name, link[4] or ""


def broken_link(line: str, kind: str, dice: random.Random) -> str:
    """The line with one of its links broken; the line as it is where it has no such link."""
    links = list(LINK.finditer(line))
    wanted = {
        "page": lambda link: link[3] == ".md",
        "case": lambda link: link[3] == ".md" and link[2] != link[2].title(),
        "file": lambda link: link[3] not in (None, ".md"),
        "anchor": lambda link: link[2] and link[4],
        "own anchor": lambda link: not link[2] and link[4],
    }[kind]
    if not (fitting := [link for link in links if wanted(link)]):
        return line
    folder, stem, suffix, anchor = (part or "" for part in dice.choice(fitting).groups())
    old = f"]({folder}{stem}{suffix}{'#' if anchor else ''}{anchor})"
    if kind in ("page", "file"):
        stem = dice.choice([f"{stem}-gone", stem[:-2], f"gone/{stem}"])
    elif kind == "case":
        stem = stem.title()
    else:
        anchor = dice.choice([f"{anchor}-gone", anchor[:-2], f"gone-{anchor}"])
    return line.replace(old, f"]({folder}{stem}{suffix}{'#' if anchor else ''}{anchor})", 1)


RULES = {"page": "missing-target", "file": "missing-target", "case": "case-mismatch"}


def damage(docs: Path, dice: random.Random) -> set[tuple[str, int, str]]:
    """Break the book in many places; return what must be found: (file, line, rule)."""
    lines = prose(docs)
    everything = "\n".join(
        file.read_text(encoding="utf-8") for file in docs.rglob("*.*") if file.suffix in (".md", ".yml")
    )
    expected: set[tuple[str, int, str]] = set()
    changed: dict[Place, str] = {}
    order = sorted(lines)
    dice.shuffle(order)

    uses: dict[tuple[str, str], list[Place]] = {}
    for place in order:
        for link in LINK.finditer(lines[place]):
            uses.setdefault(target_of(place[0], link), []).append(place)
    headings = [(place, match[1]) for place in order if (match := HEADING.match(lines[place]))]
    for place, name in headings:
        linked = uses.get((place[0], name), [])
        # only where every mention of the anchor is a link that is understood here
        if linked and len(re.findall(rf"#{name}(?![\w-])", everything)) == len(linked) + 1:
            changed[place] = lines[place].replace(f"#{name}", f"#moved-{name}")
            expected |= {(*each, "missing-anchor") for each in linked}
            if len(changed) == EACH:
                break
    free = [place for place in order if place not in changed and not any(each[:2] == place for each in expected)]
    for kind in ("page", "case", "file", "anchor", "own anchor"):
        done = 0
        for place in free:
            if place not in changed and (new := broken_link(lines[place], kind, dice)) != lines[place]:
                changed[place] = new
                expected.add((*place, RULES.get(kind, "missing-anchor")))
                done += 1
                if done == EACH:
                    break
    for (name, number), new in changed.items():
        text = (docs / name).read_text(encoding="utf-8").split("\n")
        text[number - 1] = new
        (docs / name).write_text("\n".join(text), encoding="utf-8")
    return expected


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> set[tuple[str, int, str]]:
    """What is found in the book without damage."""
    return found(copied(tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize("seed", range(2))
def test_random_damage_to_the_book_is_found_and_nothing_else(tmp_path, known, seed):
    folder = copied(tmp_path)
    expected = damage(folder / "docs", random.Random(seed))
    assert len(expected) >= 30
    new = {
        (name, line, rule) for name, line, rule in found(folder) - known if rule not in ("lost-anchor", "orphan-file")
    }
    assert new == expected
