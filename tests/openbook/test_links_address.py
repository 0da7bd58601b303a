"""What a browser makes of an address: the cases, and properties over many."""

import posixpath
import string
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbook.links.address import (
    EXTERNAL,
    INSIDE,
    MALFORMED,
    OTHER,
    OUTSIDE,
    Address,
    Home,
    normalised,
    page_path,
    resolve,
)

HOME = Home.of("https://example.org/book/")


@pytest.mark.parametrize(
    ("url", "page", "path", "fragment"),
    [
        ("b/", "a/", "a/b/", ""),
        ("../b/#x", "a/", "b/", "x"),
        ("..", "a/b/", "a/", ""),
        (".", "a/b.html", "a/", ""),
        ("c.html", "a/b.html", "a/c.html", ""),
        ("#x", "a/b.html", "a/b.html", "x"),
        ("?q=1#x", "a/", "a/", "x"),
        ("b/?q=1#x", "a/", "a/b/", "x"),
        ("/book/", "a/", "", ""),
        ("/book", "a/", "", ""),
        ("/book/x%20y.html", "a/", "x y.html", ""),
        ("https://example.org/book/c/#d", "a/", "c/", "d"),
        ("HTTPS://EXAMPLE.org/book/c/", "a/", "c/", ""),
        ("http://example.org/book/c/", "a/", "c/", ""),
        ("//example.org/book/c/", "a/", "c/", ""),
        ("https://example.org/book", "a/", "", ""),
        ("%C3%A9.html#%C3%A9", "", "é.html", "%C3%A9"),
        ("b%2Fc.html", "", "b/c.html", ""),
        ("a%23b.html", "", "a#b.html", ""),
        ("b/#x:~:text=y", "", "b/", "x"),
        ("#:~:text=y", "a/", "a/", ""),
        (" \n b\n/ ", "a/", "a/b/", ""),
        ("b//c/", "", "b/c/", ""),
    ],
)
def test_addresses_inside_the_site(url, page, path, fragment):
    address = resolve(url, page, HOME)
    assert (address.kind, address.path, address.fragment) == (INSIDE, path, fragment)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.org/other/", EXTERNAL),
        ("https://example.org/bookshop/", EXTERNAL),
        ("https://example.org:8443/book/", EXTERNAL),
        ("//host.example/x", EXTERNAL),
        ("http://[::1", MALFORMED),
        ("http://[::1]:99999/", MALFORMED),
        ("http:///x", MALFORMED),
        ("htp://x.example", MALFORMED),
        ("htttps://x.example", MALFORMED),
        ("img\\x.png", MALFORMED),
        ("/elsewhere/", OUTSIDE),
        ("../../x", OUTSIDE),
        ("file:///etc/hosts", OUTSIDE),
        ("C:\\x.html", OUTSIDE),
        ("mailto:a@b.example", OTHER),
        ("tel:+1", OTHER),
        ("data:text/plain,x", OTHER),
        ("javascript:void(0)", OTHER),
        ("JavaScript:void(0)", OTHER),
        ("ftp://x.example/", OTHER),
        ("slack://open", OTHER),
    ],
)
def test_other_addresses(url, kind):
    assert resolve(url, "a/", HOME).kind == kind


def test_without_a_public_address_the_root_is_the_site():
    assert resolve("/x/", "a/", Home()) == Address(INSIDE, "x/")


def test_the_first_public_address_decides_what_an_absolute_path_means():
    home = Home.of("https://one.example/", "https://two.example/book/")
    assert resolve("/x/", "", home).path == "x/"
    assert resolve("https://two.example/book/y/", "", home).path == "y/"


def test_folders_are_asked_for_without_index_html():
    assert [page_path(name) for name in ("index.html", "a/index.html", "a/b.html", "xindex.html")] == [
        "",
        "a/",
        "a/b.html",
        "xindex.html",
    ]


names = st.text(st.sampled_from(string.ascii_letters + "é _-~()"), min_size=1, max_size=6).filter(str.strip)
steps = st.one_of(names, st.sampled_from(["..", "."]))


@given(st.lists(names, max_size=4), st.lists(steps, min_size=1, max_size=6), st.booleans())
def test_relative_paths_resolve_as_the_standard_library_does(folders, path, slash):
    page = "".join(f"{name}/" for name in folders)
    url = "/".join(quote(step) for step in path) + ("/" if slash else "")
    address = resolve(url, page, Home())
    depth, low = len(folders), 0
    for step in path:
        depth += {"..": -1, ".": 0}.get(step, 1)
        low = min(low, depth)
    if low < 0:
        assert address.kind == OUTSIDE
    else:
        joined = urlsplit(urljoin("http://host.example/" + quote(page), url)).path
        assert "/" + address.path == unquote(joined)


@given(st.lists(names, min_size=1, max_size=5), st.lists(names, min_size=1, max_size=5))
def test_the_way_from_one_page_to_another_leads_there(start, end):
    page, target = "/".join(start) + "/", "/".join(end) + "/"
    way = posixpath.relpath("/" + target, "/" + page) + "/"
    assert normalised(page, way) == target
    assert resolve(quote(way), page, HOME).path == target
    assert resolve(quote("/book/" + target), page, HOME).path == target


@given(st.text(max_size=60), st.sampled_from(["", "a/", "a/b.html"]))
def test_no_text_makes_it_fail(url, page):
    address = resolve(url, page, HOME)
    assert address.kind in (INSIDE, EXTERNAL, OTHER, OUTSIDE, MALFORMED)
    if address.kind == INSIDE:
        assert not address.path.startswith("/")
        assert ".." not in address.path.split("/")
