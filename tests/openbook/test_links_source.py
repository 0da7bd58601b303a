"""From a problem back to the line of Markdown: includes, code, escapes, references."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbook.links.markdown import Source, blanked, destinations


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[x](a.md)", ["a.md"]),
        ("![x](a.png) [![x](b.png)](c.md)", ["a.png", "b.png", "c.md"]),
        ("[x](a_(b).md) [y](<a b.md>) [z](a.md 'ti)tle')", ["a_(b).md", "a b.md", "a.md"]),
        ("[a [b] c](d.md) [x]( e.md ) [x](\nf.md)", ["d.md", "e.md", "f.md"]),
        ("[x](a\\_b.md) [x](a&amp;b.md)", ["a_b.md", "a&b.md"]),
        ("\\[x](a.md) is [x\\](b.md)", ["a.md"]),
        ("[r]: a.md 'title'\n > [q]:\n   <b.md>\n[^n]: no.md", ["a.md", "b.md"]),
        ("<https://x.example/(a)> <me@x.example>", ["https://x.example/(a)", "me@x.example"]),
        ("<a href=\"a\" class='b'>x</a><img src=c>", ["a", "c"]),
        ('<img srcset="a 1x, b 2x" alt="x > y" src="c">', ["a", "b", "c"]),
        ("![x](a.png){ poster=b.png }", ["a.png", "b.png"]),
        (
            '<meta content="0; url=a.md"><p style="background: url(b)">',
            ["0; url=a.md", "a.md", "background: url(b)", "b"],
        ),
        ("[x]() y", [""]),
    ],
)
def test_destinations(text, found):
    assert [each.address for each in destinations(text)] == found


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("a `b` c", "a     c"),
        ("a ``b ` c`` d", "a           d"),
        ("a <!-- b\n--> c", "a       \n    c"),
        ("`<!--` a `-->` b", "       a       b"),
        ("```py\na\n```\nb", "     \n \n   \nb"),
        ("~~~\n```\n~~~\nb", "   \n   \n   \nb"),
        ("````\n```\na\n````\nb", "    \n   \n \n    \nb"),
        ("```\nunclosed a", "```\nunclosed a"),
        ("a\n\n    code\n\nb", "a\n\n        \n\nb"),
        ("- a\n\n    b\n", "- a\n\n    b\n"),
        ("!!! note\n\n    b\n", "!!! note\n\n    b\n"),
        ("Term\n:   a\n\n    b\n", "Term\n:   a\n\n    b\n"),
        ("[^n]: a\n\n    b\n", "[^n]: a\n\n    b\n"),
        ("    ```\n    a\n    ```\nb", "       \n     \n       \nb"),
        ("> ```\n> a\n> ```\nb", "     \n   \n     \nb"),
        ("---\nt: [x](y)\n---\na", "   \n         \n   \na"),
        ("a $b[i](j)$ c", "a           c"),
        ("a\n$$\nb\n$$\nc", "a\n  \n \n  \nc"),
        ("costs \\$5 or $6 b", "costs \\$5 or $6 b"),
        ("a \\` b ` c", "a \\` b ` c"),
        ("a ` b\n\nc ` d", "a ` b\n\nc ` d"),
    ],
)
def test_code_comments_and_maths_are_blanked(text, clear):
    assert blanked(text) == clear


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["`", "``", "```", "~~~", "$", "$$", "<!--", "-->", "\n", "\n\n", "    ", "> ", "a", "---", "\\"]
        )
    )
)
def test_blanking_keeps_every_place(pieces):
    text = "".join(pieces)
    clear = blanked(text)
    assert len(clear) == len(text)
    assert [at for at, char in enumerate(text) if char == "\n"] == [at for at, char in enumerate(clear) if char == "\n"]
    assert all(after in (before, " ") for before, after in zip(text, clear))


PARTS = {
    "page.md": 'one\n--8<-- "part.md"\n\n  --8<-- "part.md:2:3"\n--8<-- "part.md:here"\n;--8<-- "part.md"\n'
    '--8<--\npart.md:1:1\n; no.md\n\nmissing.md\n--8<--\nlast\n--8<-- "page.md"\n',
    "part.md": "p1\np2\n# --8<-- [start:here]\np4\n# --8<-- [end:here]\np6",
}


def test_includes_are_put_in_and_traced_to_their_file(tmp_path):
    put(tmp_path, PARTS)
    source = Source.read(tmp_path / "page.md", [tmp_path])
    where = {}
    for word in ("one", "p2", "p4", "p6", "last"):
        place = source.place(source.text.index(word))
        where[word] = (place.file.name, place.line, place.column)
    assert where == {
        "one": ("page.md", 1, 1),
        "p2": ("part.md", 2, 1),
        "p4": ("part.md", 4, 1),
        "p6": ("part.md", 6, 1),
        "last": ("page.md", 13, 1),
    }
    assert source.text.count("p2") == 2
    assert source.text.count("p4") == 2
    assert source.text.count("p1") == 2
    assert ';--8<-- "part.md"' in source.text


def test_appended_files_follow(tmp_path):
    put(tmp_path, {"page.md": "a", "parts/more.md": "[r]: x.md"})
    source = Source.read(tmp_path / "page.md", [tmp_path / "parts", tmp_path], ["more.md", "gone.md"])
    assert source.place(source.text.index("x.md"))[:2] == (tmp_path / "parts/more.md", 1)


def test_a_circle_of_includes_ends(tmp_path):
    put(tmp_path, {"a.md": '--8<-- "b.md"\na\n', "b.md": '--8<-- "a.md"\nb\n'})
    assert Source.read(tmp_path / "a.md", [tmp_path]).text.split() == ["b", "a"]


def test_a_page_that_is_gone_is_empty(tmp_path):
    source = Source.read(tmp_path / "no.md", [tmp_path])
    assert source.place(0).line == 1
