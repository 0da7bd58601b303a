"""What every page owes its reader: front matter, a size that can be read, sane spelling."""

import datetime
import re
import subprocess
import sys

import pytest
import yaml
from mkdocs.utils.meta import get_data

from openbook import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CHAPTERS = [p for p in PAGES if p.name != "index.md" and p.parent.name not in {"reference", "contributing"}]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))


@each_page
def test_front_matter(page):
    _, meta = get_data(page.read_text(encoding="utf-8"))
    assert meta.get("title") or page == DOCS / "index.md", "title is missing (is the front matter valid YAML?)"
    assert meta.get("description"), "description is missing"
    assert len(meta["description"]) <= 160, "search engines cut the description at about 160 characters"
    assert isinstance(meta.get("date"), datetime.date), "date: the day the facts were last checked, YYYY-MM-DD"
    assert meta["date"] <= datetime.date.today() + datetime.timedelta(days=1)


@each_page
def test_no_placeholder_is_left(page):
    assert not re.search(r"\b(TODO|FIXME|TBD|XXX|lorem ipsum|to be written)\b", page.read_text(), re.I)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda p: str(p.relative_to(DOCS)))
def test_a_chapter_can_be_read_in_one_sitting(page):
    words = len(page.read_text().split())
    assert 800 <= words <= 4_500, f"{words} words, markup included"


def test_every_part_has_an_index_that_links_all_its_pages():
    for part in sorted({p.parent for p in PAGES} - {DOCS}):
        index = (part / "index.md").read_text()
        for page in part.glob("*.md"):
            assert page.name == "index.md" or f"({page.name}" in index, (
                f"{part.name}/index.md does not link {page.name}"
            )


def test_spelling():
    """codespell knows common misspellings; words.txt lists the ones that are right here."""
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words", "tests/content/words.txt", "docs", "scripts",
         "README.md", ".github", "mkdocs.yml", "pyproject.toml", "--skip", "*/vendor/*,*/pins/*,*.svg,words.txt,*/__pycache__/*"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_navigation_and_configuration_are_readable_yaml():
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("", lambda loader, suffix, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)
    assert config["nav"][0] == {"Home": "index.md"}
