"""Which addresses of a site are worth asking for, and under which name they are remembered."""

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.links.address import Home
from openbook.links.book import Book
from openbook.links.check import check
from openbook.links.external.addresses import collect
from openbook.links.site import Site


def collected(tmp_path, *html, book=None):
    for number, text in enumerate(html):
        (tmp_path / f"p{number}.html").write_text(f"<main>{text}</main>")
    return collect(check(Site.read(tmp_path), Home.of("https://book.dev/")), book)


def link(url):
    return f'<a href="{url}">x</a>'


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://a.dev/x?y=1#part", "https://a.dev/x?y=1#part"),
        ("//a.dev/x", "https://a.dev/x"),
        (" https://a.dev/x ", "https://a.dev/x"),
        ("https://a.dev/x#", "https://a.dev/x"),
        ("https://a.dev/x#:~:text=some%20words", "https://a.dev/x"),
        ("https://a.dev/x#part:~:text=some,words", "https://a.dev/x#part"),
        ("https://a.dev/x.pdf#page=7", "https://a.dev/x.pdf"),
        ("https://a.dev/#/route/x", "https://a.dev/"),
        ("https://a.dev/#!/route/x", "https://a.dev/"),
        ("https://github.com/o/r/blob/0123abc/f.py#L10", "https://github.com/o/r/blob/0123abc/f.py"),
        ("https://github.com/o/r/blob/v1.0/f.py#L10-L20", "https://github.com/o/r/blob/v1.0/f.py"),
        ("https://github.com/o/r/blob/v1.0/f.py#L10C3-L20C4", "https://github.com/o/r/blob/v1.0/f.py"),
        ("https://gitlab.com/o/r/-/blob/v1/f.py#L10-20", "https://gitlab.com/o/r/-/blob/v1/f.py"),
        ("https://github.com/o/r#usage", "https://github.com/o/r#usage"),
        ("https://a.dev/spec#L10", "https://a.dev/spec#L10"),
        ("http://[2606:4700::1]/x", "http://[2606:4700::1]/x"),
    ],
)
def test_what_is_remembered(tmp_path, url, kept):
    assert list(collected(tmp_path, link(url))) == [kept]


@pytest.mark.parametrize(
    "html",
    [
        link("https://example.org/x"), link("https://www.example.com"), link("http://some.example/x"),
        link("http://cluster.test:8000"), link("https://x.invalid/"), link("https://book.dev/p0.html"),
        link("mailto:a@a.dev"), link("tel:1"), "<code>https://a.dev/</code>", "https://a.dev/",
        "<!-- <a href='https://a.dev/'> -->", "<link rel=preconnect href=https://fonts.a.dev>",
        "<form action='https://a.dev/send'></form>",
    ],
)  # fmt: skip
def test_what_is_not_asked_for(tmp_path, html):
    assert collected(tmp_path, html) == {}


@pytest.mark.parametrize(
    "html", ["<img src='{}'>", "<video poster='{}'></video>", "<img srcset='{} 2x'>", "<iframe src='{}'>"]
)
def test_other_elements_are(tmp_path, html):
    assert list(collected(tmp_path, html.format("https://a.dev/x.png"))) == ["https://a.dev/x.png"]


def test_each_once_with_every_place(tmp_path):
    found = collected(
        tmp_path, link("https://a.dev/x") * 2, link("https://a.dev/x#:~:text=y") + link("https://a.dev/x#z")
    )
    uses = [(page, link.nth) for page, link in found["https://a.dev/x"].uses]
    assert uses == [("p0.html", 0), ("p0.html", 1), ("p1.html", 0)]
    assert found["https://a.dev/x"].target == found["https://a.dev/x#z"].target


@pytest.mark.parametrize(
    ("url", "unpinned"),
    [
        ("https://github.com/o/r/blob/main/f.py#L10", True),
        ("https://github.com/o/r/blob/master/d/f.py#L10-L12", True),
        ("https://gitlab.com/o/r/-/blob/main/f.py#L10", True),
        ("https://github.com/o/r/blob/main/README.md#usage", False),
        ("https://github.com/o/r/blob/main/f.py", False),
        ("https://github.com/o/r/blob/0123456789abcdef0123456789abcdef01234567/f.py#L10", False),
        ("https://github.com/o/r/blob/v2.1.0/main/f.py#L10", False),
    ],
)
def test_lines_of_a_branch_are_not_pinned(tmp_path, url, unpinned):
    (found,) = collected(tmp_path, link(url)).values()
    assert found.unpinned == unpinned


def test_malformed_addresses_are_kept_apart(tmp_path):
    found = collected(tmp_path, link("https://a b.dev/") + link("https://me@a.dev/"))
    assert all(each.target is None for each in found.values())
    assert "cannot exist" in found["https://a b.dev/"].malformed


def test_the_pencil_of_each_page_is_not_asked_for(tmp_path):
    (tmp_path / "docs").mkdir()
    book = Book(tmp_path / "mkdocs.yml", tmp_path / "docs")
    book.settings = {"repo_url": "https://code.dev/o/r", "edit_uri": "edit/main/docs/"}
    html = link("https://code.dev/o/r/edit/main/docs/a.md") + link("https://code.dev/o/r")
    assert list(collected(tmp_path, html, book=book)) == ["https://code.dev/o/r"]
