"""Documents made of Markdown, rendered as the book's pages are."""

import pytest

from openbook import ROOT
from openbook.names import documents
from openbook.render import Renderer


@pytest.fixture(scope="session")
def renderer():
    return Renderer(ROOT / "mkdocs.yml")


@pytest.fixture
def page(renderer, tmp_path):
    """A Document from the text of a page."""

    def made(text: str) -> documents.Document:
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return documents.of_page(renderer.page(path, "page.md"))

    return made


@pytest.fixture
def program(tmp_path):
    """A Document from the text of a file beside a page."""

    def made(text: str, name: str = "program.py") -> documents.Document:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return documents.of_file(path, name)

    return made
