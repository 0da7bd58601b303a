from xml.etree.ElementTree import fromstring

import markdown
import pytest

from openbook import ROOT
from openbook.markdown import glossary

PAGE = """---
title: Glossary
---

# Glossary

<div class="glossary" markdown>

MFU
model FLOPs utilisation
:   Share of the peak that the model's own arithmetic reaches. More here.

rank
:   One process of a job.

</div>
"""


@pytest.fixture
def convert(tmp_path):
    page = tmp_path / "glossary.md"
    page.write_text(PAGE)
    md = markdown.Markdown(
        extensions=["def_list", "md_in_html", "tables", "pymdownx.superfences", "openbook.markdown.glossary"],
        extension_configs={"openbook.markdown.glossary": {"source": str(page)}},
    )
    return md.convert


def test_all_names_of_an_entry_get_its_first_sentence(tmp_path):
    page = tmp_path / "glossary.md"
    page.write_text(PAGE)
    terms = glossary.read_terms(page)
    assert (
        terms["MFU"] == terms["model FLOPs utilisation"] == "Share of the peak that the model's own arithmetic reaches."
    )
    assert terms["rank"] == "One process of a job."


def test_first_use_per_section_only(convert):
    html = convert("# T\n\nMFU and MFU.\n\n## A\n\nMFU, then Model FLOPs utilisation.\n\n## B\n\n- MFU")
    assert html.count("<abbr") == 3


def test_plural_and_capital_of_plain_terms(convert):
    assert convert("Ranks wait.").count(">Ranks</abbr>") == 1


@pytest.mark.parametrize("text", ["`MFU`", "[MFU](x.md)", "## MFU", "```text\nMFU\n```", "XMFU MFUs_x MFU-like a/rank"])
def test_left_alone_in_code_links_headings_and_longer_words(convert, text):
    assert "<abbr" not in convert(text)


def test_marks_inside_tables_emphasis_and_after_other_elements(convert):
    html = convert("A *b* then MFU.\n\n## S\n\n| a |\n|---|\n| **MFU** |\n")
    assert html.count("<abbr") == 2
    assert "then <abbr" in html


def test_the_text_itself_is_unchanged(convert):
    html = convert("one rank, `x`, two ranks *and* MFU, rank.")
    plain = "".join(fromstring(f"<r>{html}</r>").itertext())
    assert plain == "one rank, x, two ranks and MFU, rank."


def test_entries_of_the_glossary_page_get_anchors(convert):
    html = convert(PAGE.split("---\n", 2)[2])
    assert '<dt id="model-flops-utilisation">' in html
    assert "<abbr" not in html


def test_a_term_defined_twice_is_refused(tmp_path):
    page = tmp_path / "glossary.md"
    page.write_text(PAGE.replace("rank\n:", "MFU\n:"))
    with pytest.raises(glossary.DuplicateTerm, match="'MFU' is defined twice"):
        glossary.read_terms(page)


def test_the_books_own_glossary_is_readable_and_short():
    terms = glossary.read_terms(ROOT / "docs" / "reference" / "glossary.md")
    assert terms
    long = {term: len(text) for term, text in terms.items() if len(text) > 200}
    assert long == {}


def test_the_longest_term_wins(tmp_path):
    page = tmp_path / "glossary.md"
    page.write_text("rank\n:   One process.\n\nrank table\n:   Who is where.\n")
    md = markdown.Markdown(
        extensions=["openbook.markdown.glossary"],
        extension_configs={"openbook.markdown.glossary": {"source": str(page)}},
    )
    assert md.convert("The rank table.") == '<p>The <abbr title="Who is where.">rank table</abbr>.</p>'


@pytest.mark.parametrize("around", ['<span class="arithmatex">{}</span>', "<summary>{}</summary>", "<label>{}</label>"])
def test_left_alone_in_formulas_and_in_what_is_clicked(around):
    root = fromstring(f"<div>{around.format('MFU')}</div>")
    glossary.GlossaryTreeprocessor(markdown.Markdown(), {"MFU": "Share of the peak."}).run(root)
    assert root.find(".//abbr") is None
