"""The build: from a tree without history, with what a reader's browser needs."""

import json
import os
import shutil
import subprocess
import sys

from openbook import ROOT
from openbook.publish import MARK


def test_builds_strictly_without_git(tmp_path):
    tree = tmp_path / "book"
    tree.mkdir()
    for name in ("docs", "scripts", "mkdocs.yml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=tree, capture_output=True, text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(tree / "scripts")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert '<time datetime="20' in (tree / "site" / "slurm" / "index.html").read_text()


def test_every_page_has_its_policy_and_title(served):
    site, _ = served
    for page in site.rglob("*.html"):
        html = page.read_text()
        assert html.count(MARK) == 1, page
        assert "unsafe-eval" not in html and "script-src 'self' 'unsafe-inline'" not in html


def test_maths_is_markup_not_script(served):
    site, _ = served
    html = (site / "training" / "memory-and-time" / "index.html").read_text()
    assert "<math" in html
    assert r"\(" not in html and r"\[" not in html


def test_search_index_is_small_enough_to_load_with_a_page(served):
    site, _ = served
    index = site / "search" / "search_index.json"
    assert index.stat().st_size < 2_000_000
    assert json.loads(index.read_text())["config"]["separator"].startswith(r"[\s\u200b")


def test_programs_can_be_downloaded(served):
    site, _ = served
    docs = ROOT / "docs"
    for program in [*docs.rglob("*.py"), *docs.rglob("*.sbatch")]:
        assert (site / program.relative_to(docs)).read_bytes() == program.read_bytes()
