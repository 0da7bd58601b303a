import markdown
import pytest


@pytest.fixture
def convert():
    return markdown.Markdown(extensions=["tables", "openbook.markdown.row_heads"]).convert


def test_rows_under_an_empty_head_have_heads_of_their_own(convert):
    html = convert("| | cap |\n|---|---|\n| `holds` | power |\n| cuts | |\n")
    assert '<th scope="row"><code>holds</code></th>' in html
    assert '<th scope="row">cuts</th>' in html
    assert html.count("<th") == 1 + 1 + 2  # thead, the second column, two rows
    assert "<th></th>" not in html


def test_a_table_with_all_heads_stays_as_it_is(convert):
    text = "| what | cap |\n|---|---|\n| holds | power |\n"
    assert convert(text) == markdown.Markdown(extensions=["tables"]).convert(text)


def test_a_head_of_code_is_not_empty(convert):
    assert 'scope="row"' not in convert("| `x` | cap |\n|---|---|\n| a | b |\n")
