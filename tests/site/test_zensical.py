"""The same mkdocs.yml builds with Zensical, the successor of Material for MkDocs, and its pages hold the same parts."""

import os
import shutil
import subprocess
import sys

import pytest
from selectolax.lexbor import LexborHTMLParser

from openbook import ROOT

PARTS = (".figures", ".chart", ".calculator", "math", "abbr", ".admonition", "details", ".highlight", "figure svg", "table",
         "h2[id]", ".tabbed-set", ".footnote", ".figure-value", "article p", "link[rel=stylesheet][href*='assets/css']",
         "script[src*='assets/js']")  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site that Zensical makes of a copy of the book: it writes beside the configuration."""
    home = tmp_path_factory.mktemp("zensical")
    shutil.copy(ROOT / "mkdocs.yml", home)
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, home / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", "mkdocs.yml"],
        cwd=home, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "scripts"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return home / "site"


def test_the_same_pages_and_files(served, built):
    site, _ = served
    names = [{str(file.relative_to(where)) for file in where.rglob("*") if file.is_file()} for where in (site, built)]
    missing = {
        name for name in names[0] - names[1] if not name.startswith(("assets/javascripts", "assets/stylesheets"))
    }
    assert missing == {"search/search_index.json", "sitemap.xml.gz"}


def test_pages_hold_the_same_parts(served, built):
    site, _ = served
    for page in site.rglob("*.html"):
        ours, theirs = (LexborHTMLParser((where / page.relative_to(site)).read_text()) for where in (site, built))
        for part in PARTS:
            assert len(ours.css(part)) == len(theirs.css(part)), f"{page.relative_to(site)}: {part}"
