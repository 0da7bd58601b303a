import markdown
import pytest


@pytest.fixture
def convert():
    md = markdown.Markdown(
        extensions=["pymdownx.arithmatex", "openbook.markdown.maths"],
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    return md.convert


def test_inline_formula_becomes_mathml(convert):
    html = convert("time $t = 6ND$ in seconds")
    assert "<math><mi>t</mi>" in html
    assert "$" not in html and "\\(" not in html


def test_display_formula_is_a_block_that_can_be_scrolled_by_keyboard(convert):
    html = convert("$$\\frac{a}{b}$$")
    assert '<math display="block">' in html and "<mfrac>" in html
    assert 'tabindex="0"' in html


def test_formula_text_cannot_become_markup(convert):
    assert "<script>" not in convert("$\\text{<script>}$")


def test_unknown_command_stops_the_build_and_names_the_formula(convert):
    with pytest.raises(ValueError, match=r"formula .*nosuch.*Unknown command"):
        convert("$\\nosuch{x}$")


def test_money_is_not_maths(convert):
    assert "math" not in convert("from \\$30k to \\$40k")
