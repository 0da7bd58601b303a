"""Every variable, Slurm option and PyTorch call that the book writes is real."""

from openbook import ROOT
from openbook.findings import as_text
from openbook.names import cli, lists
from openbook.render import Renderer


def test_names_are_real():
    renderer = Renderer(ROOT / "mkdocs.yml")
    found = cli.check(renderer, cli.find([renderer.docs], renderer.docs))
    assert not found, "\n".join(as_text(finding) for finding in found)


def test_lists_are_sound():
    found = list(lists.mistakes())
    assert not found, "\n".join(as_text(finding) for finding in found)
