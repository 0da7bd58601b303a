"""What answers mean: titles, anchors, moves, walls."""

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")
pytest.importorskip("hypothesis", reason="needs hypothesis: pip install hypothesis==6.170.17")
from hypothesis import given, settings
from hypothesis import strategies as st

from openbook.links.external.content import read
from openbook.links.external.fetch import Answer, retry_after
from openbook.links.external.verdict import judge, moved_to, says_not_found

WORDS = "word " * 200


@pytest.mark.parametrize(
    "title",
    [
        "404", "404 Not Found", "Error 404", "404 - Page Not Found", "Page not found", "Page not found · GitHub Pages",
        "Docs | Page Not Found", "Not Found", "The page could not be found", "This page doesn’t exist", "Oops! 404",
        "Sorry, the requested page was not found.", "Page Not Found — NVIDIA Docs", "HTTP 404", "File not found",
        "We can't find that page", "This page is no longer available", "404: NOT_FOUND"[:3] + ": Not Found",
    ],
)  # fmt: skip
def test_titles_of_pages_that_are_not_there(title):
    assert says_not_found(title)


@pytest.mark.parametrize(
    "title",
    [
        "", "Home", "404 Not Found error codes explained", "How to fix \"page not found\"", "Handling 404s in Flask",
        "Lost and found", "OWL 2 Web Ontology Language", "Module not found when importing torch", "Found",
        "CUDA error 404", "Not found in this chapter: networks", "The page cache", "File systems", "Document 4044",
    ],
)  # fmt: skip
def test_titles_of_pages_that_are(title):
    assert not says_not_found(title)


def page(body="", status=200, url="https://a.test/x", **more):
    return Answer(url, status, headers={"content-type": "text/html"}, body=body.encode(), **more)


def test_a_page_about_404_is_not_missing():
    body = "<title>404 Not Found</title>"
    assert judge(page(body), "https://a.test/docs/status/404").kind == "ok"
    assert judge(page(body), "https://a.test:40404/docs/status").kind == "suspicious"


@pytest.mark.parametrize(
    ("asked", "final", "kind"),
    [
        ("https://a.test/docs/x", "https://a.test/", "suspicious"),
        ("https://a.test/docs/x", "https://b.test/", "suspicious"),
        ("https://a.test/docs/x", "https://a.test/en/", "suspicious"),
        ("https://a.test/docs/x", "https://a.test/index.html", "suspicious"),
        ("https://a.test/?page=5", "https://a.test/", "suspicious"),
        ("https://a.test/", "https://www.a.test/", "moved"),
        ("https://a.test", "https://a.test/en-us/", "moved"),
        ("https://a.test/docs/x", "https://a.test/docs/y", "moved"),
        ("https://a.test/docs/x", "https://a.test/?page=5", "moved"),
    ],
)
def test_the_start_page_instead_of_the_page(asked, final, kind):
    assert judge(page("x", url=final, hops=((301, final),)), asked).kind == kind


@pytest.mark.parametrize(
    ("hops", "new"),
    [
        ((), ""),
        (((302, "b"),), ""),
        (((301, "b"),), "b"),
        (((301, "b"), (308, "c")), "c"),
        (((301, "b"), (302, "c")), "b"),
        (((302, "b"), (301, "c")), ""),
    ],
)
def test_the_address_to_write(hops, new):
    assert moved_to(hops) == new


def test_the_address_to_write_keeps_the_anchor():
    answer = page("<p id=part>", url="https://b.test/y", hops=((301, "https://b.test/y"),))
    verdict = judge(answer, "https://a.test/x", "part")
    assert (verdict.kind, verdict.final) == ("moved", "https://b.test/y#part")


STATIC = f"<h2 id=part>x</h2><a name=old></a><h2 id='größe'>x</h2><h2 id='user-content-usage'>x</h2><p>{WORDS}"


@pytest.mark.parametrize(
    ("fragment", "body", "kind"),
    [
        ("part", STATIC, "ok"),
        ("old", STATIC, "ok"),
        ("top", STATIC, "ok"),
        ("gr%C3%B6%C3%9Fe", STATIC, "ok"),
        ("größe", STATIC, "ok"),
        ("usage", STATIC, "ok"),
        ("Part", STATIC, "anchor-missing"),
        ("nope", STATIC, "anchor-missing"),
        ("nope", "<p>no ids and no scripts", "anchor-missing"),
        ("nope", STATIC + "<script src=x></script>", "anchor-missing"),
        ("nope", "<div id=root></div><script src=x></script>", "anchor-unverifiable"),
        ("nope", f"<div id=app>{STATIC}</div><script src=x></script>", "anchor-unverifiable"),
        ("nope", "<p id=a><p id=b><p id=c>short<script src=x></script>", "anchor-unverifiable"),
        ("nope", f"{WORDS}<script src=x></script>", "anchor-unverifiable"),
        ("nope", "", "anchor-unverifiable"),
        ("part", "<!-- <p id=part> --><p>x", "anchor-missing"),
        ("part", "<script>'<p id=part>'</script>" + STATIC.replace("part", "other"), "anchor-missing"),
    ],
)
def test_anchors(fragment, body, kind):
    verdict = judge(page(body), "https://a.test/x", fragment)
    assert verdict.kind == kind
    assert not verdict.counts


def test_an_anchor_in_what_was_not_read():
    assert judge(page(STATIC, complete=False), "https://a.test/x", "nope").kind == "anchor-unverifiable"
    assert judge(page(STATIC, complete=False), "https://a.test/x", "part").kind == "ok"


@pytest.mark.parametrize("host", ["github.com", "gist.github.com", "gitlab.com", "huggingface.co"])
def test_anchors_that_scripts_put_in(host):
    url = f"https://{host}/org/repo"
    assert judge(page(STATIC, url=url), url, "nope").kind == "anchor-unverifiable"
    assert judge(page(STATIC, url=url), url, "usage").kind == "ok"
    assert (
        judge(page(STATIC, url="https://notgithub.com/x"), "https://notgithub.com/x", "nope").kind == "anchor-missing"
    )


def test_other_alphabets():
    body = "<meta charset=iso-8859-1><title>Größe</title>".encode("latin-1")
    assert read(body).title == "Größe"
    assert read("<title>Größe</title>".encode("utf-16"), "text/html; charset=utf-16").title == "Größe"
    assert read(b"<title>x</title>", "text/html; charset=no-such").title == "x"
    assert read(b"<title>x</title>", "text/html; charset=base64").title == "x"


@settings(deadline=None)
@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=10))
def test_any_bytes_are_read(body, content_type, fragment):
    content = read(body, content_type)
    assert content.anchor(fragment) in ("found", "missing", "unknown")


PIECES = st.sampled_from(
    ["<", ">", "</", "<p id=", "<a name=", '"', "'", "<title>", "</title>", "<h1>", "<script>", "</script>", "<!--", "-->",
     "x", "&#0;", "\0", "<svg>", "<template>", "<body", "</html>", "é", "="]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_markup_is_judged(body):
    assert judge(page(body), "https://a.test/x", "x").kind in (
        "ok",
        "anchor-missing",
        "anchor-unverifiable",
        "suspicious",
    )


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_title_is_judged_quickly(title):
    says_not_found(title)


@pytest.mark.parametrize("title", ["page " * 60, "not " * 75, "sorry, " * 40, "404 " * 70, " - " * 100, "4" * 300])
def test_no_title_takes_long(title):
    import time

    began = time.monotonic()
    says_not_found(title)
    assert time.monotonic() - began < 0.1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("", None), ("-1", None), ("1.5", None), ("soon", None), ("²", None),
     ("Fri, 31 Dec 1999 23:59:59 GMT", 0), ("Fri, 99 Dec 1999 23:59:59 GMT", None), ("9" * 400, 999999999)],
)  # fmt: skip
def test_retry_after(value, seconds):
    assert retry_after(value) == seconds


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_retry_after_is_read(value):
    wanted = retry_after(value)
    assert wanted is None or wanted >= 0
