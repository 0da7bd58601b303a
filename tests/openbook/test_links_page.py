"""What one built page offers and asks for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.links.page import candidates, css_addresses, read
from openbook.links.problem import THEME


def urls(html: str) -> list[str]:
    return [link.url for link in read("x.html", html.encode()).links]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<a href="x">t</a>', ["x"]),
        ("<a href=x>t</a><a href='y'>t</a><A HREF=z>t</A>", ["x", "y", "z"]),
        ('<a href="x?a=1&amp;b=2">t</a>', ["x?a=1&b=2"]),
        ("<a>t</a><a name=n>t</a>", []),
        ('<a href>t</a><a href="">t</a>', ["", ""]),
        ('<map name=m><area href="x"></map>', ["x"]),
        ('<link rel=stylesheet href="x.css">', ["x.css"]),
        ('<img src="x.png"><input type=image src=y.png>', ["x.png", "y.png"]),
        ('<img src="x.png" srcset="a.png 1x, b.png 2x">', ["x.png", "a.png", "b.png"]),
        ('<link rel=preload as=image imagesrcset="a.png 1x">', ["a.png"]),
        ('<script src="x.js"></script>', ["x.js"]),
        ('<video src=a poster=b><source src=c srcset="d"><track src=e></video>', ["a", "b", "c", "d", "e"]),
        ("<audio src=a></audio><iframe src=b></iframe><embed src=c>", ["a", "b", "c"]),
        ('<object data="x.svg"></object>', ["x.svg"]),
        ('<meta http-equiv="refresh" content="0; url=x/">', ["x/"]),
        ("<META HTTP-EQUIV=Refresh CONTENT=\"0;URL='x/'\">", ["x/"]),
        ('<meta http-equiv="refresh" content="30">', []),
        ('<meta property="og:image" content="x.png"><meta name="twitter:image" content="y.png">', ["x.png", "y.png"]),
        ('<meta property="og:title" content="x"><meta name="twitter:image:alt" content="y">', []),
        ('<svg><use href="#x"/><use xlink:href="#y"/><image href="z.png"/></svg>', ["#x", "#y", "z.png"]),
        ('<svg><path fill="url(#x)" marker-end="url(\'#y\')"/></svg>', ["#x", "#y"]),
        ('<p style="background: url(x.png)">t</p><style>p {background: url("y.png")}</style>', ["x.png", "y.png"]),
        ('<form action="x"><button formaction="y"></form><form action=""></form>', ["x", "y"]),
        ('<noscript><img src="x.png"></noscript>', ["x.png"]),
        ('<template><a href="x">t</a></template>', []),
        ('<!-- <a href="x">t</a> -->', []),
        ('<code>&lt;a href="x"&gt;</code><textarea><a href="x"></textarea>', []),
        ("<pre><code></code></pre><a href=x>t</a>", ["x"]),
        ("<script>var s = '<a href=\"x\">';</script>", []),
        ("<a href=x>t<a href=y>unclosed", ["x", "y"]),
    ],
)
def test_links(html, found):
    assert urls(html) == found


def test_links_of_the_article_are_counted_and_those_of_the_theme_are_not():
    html = b"<nav><a href=x>t</a></nav><main><a href=x>t</a><a href=x>t</a><a href=y>t</a></main>"
    assert [(link.url, link.nth) for link in read("x.html", html).links] == [("x", THEME), ("x", 0), ("x", 1), ("y", 0)]


@pytest.mark.parametrize(
    "article",
    [
        '<article class="md-content__inner md-typeset">{}</article>',
        "<div role=main>{}</div>",
        "<div itemprop=articleBody>{}</div>",
        "<main>{}</main>",
        "<article>{}</article>",
    ],
)
def test_articles_of_several_themes(article):
    html = f"<nav><a href=t>x</a></nav>{article.format('<a href=a>x</a>')}"
    assert [link.nth for link in read("x.html", html.encode()).links] == [THEME, 0]


def test_ids_names_and_headings():
    page = read("x.html", b"<body><p id=a><a name=b>t</a><a name=a>t</a><main><h2 id=c>t</h2><p id=d><svg><g id=e>")
    assert page.ids == {"a", "b", "c", "d", "e"}
    assert page.headings == ("c",)
    assert page.repeated == []


def test_repeated_ids():
    html = b"<nav id=n><p id=n><main><p id=a><p id=a><template><p id=b></template><p id=b></p><noscript><p id=c></p></noscript><p id=c>"
    assert read("x.html", html).repeated == [("a", True), ("n", False)]


def test_base_canonical_redirect_and_robots():
    html = (
        b'<base href="/b/"><link rel=canonical href="c"><meta name=robots content="NOINDEX"><meta http-equiv=refresh'
        b' content="0; url=r">'
    )
    page = read("x.html", html)
    assert (page.base, page.canonical, page.redirect, page.noindex) == ("/b/", "c", "r", True)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>see [text][undefined] here</p>", "][undefined]"),
        ("<p>see [<code>text</code>][undefined] here</p>", "][undefined]"),
        ("<p>see [text][] here</p>", "][]"),
        ("<p>claim[^missing].</p>", "[^missing]"),
        ("<p>[a](b.md)</p>", "](b.md)"),
        ("<p>```python\nx\n```</p>", "```python"),
        ("<p><code>python notest\nx = 1</code></p>", "python notest"),
        ('<p>!!! note "x"</p>', "!!! note"),
        ("<p>text\n??? question</p>", "??? question"),
        ('<p>=== "Tab"</p>', '=== "'),
        ("<h2>Head {#id}</h2>", "{#id}"),
        ("<p>x {: .class }</p>", "{: .class }"),
        ("<p>x { width=300 }</p>", "{ width=300 }"),
        ('<p>--8&lt;-- "x"</p>', "--8<--"),
        ("<p>:material-check:</p>", ":material-check:"),
        ("<p>cancel <jobid> now</p>", "<jobid"),
        ("<table><tr><td>see <code>lspci \\| grep ACS</code></td></tr></table>", r"lspci \| grep ACS"),
    ],
)
def test_leaked_markup(html, text):
    assert text in [leak for leak, _ in read("x.html", f"<main>{html}</main>".encode()).leaked]


@pytest.mark.parametrize(
    "html",
    [
        "<p><code>[text][undefined] [^x] ](y) ``` {.x}</code></p>",
        "<pre><code>```\n[a](b)\n!!! note\n</code></pre>",
        "<pre>\n!!! note\n</pre>",
        '<span class="arithmatex">\\(A[i][j] [^2](x)\\)</span>',
        "<math><mi>A</mi><mo>[</mo>i][j]</math>",
        "<svg><title>[a][b]</title></svg>",
        "<script>x[0][1]</script><style>.x{.y}</style>",
        "<p>]<code>x</code>[a] [<a href=x>1</a>][<a href=y>2</a>] <a href=z>[1][2]</a></p>",
        "<p>Wow!!! really??? 1 === 1, {x, y}, a:b:c, [x] (y), [x] and [y]</p>",
        "<p>a-b--8 and 8&lt;9</p>",
        "<p><my-element>x</my-element><math><mrow></mrow></math><svg><lineargradient/></svg></p>",
        "<p><code>two words</code><br><kbd>Ctrl</kbd></p>",
        r"<table><tr><td><code>grep 'a\|b' | sort</code></td></tr></table><p><code>a \| b</code></p>",
        "<pre><code>a\nb</code></pre><pre><span><code>a\nb</code></span></pre>",
    ],
)
def test_no_leak(html):
    assert read("x.html", f"<main>{html}</main>".encode()).leaked == []


def test_leaks_of_the_theme_do_not_count():
    assert read("x.html", b"<nav>[a][b]</nav><main>x</main>").leaked == []


@pytest.mark.parametrize(
    ("srcset", "found"),
    [
        ("a.png", ["a.png"]),
        ("a.png 1x, b.png 2x", ["a.png", "b.png"]),
        ("a.png,b.png", ["a.png,b.png"]),
        ("a.png, b.png", ["a.png", "b.png"]),
        (" , a.png 100w ,\n b.png (x, y) , c.png", ["a.png", "b.png", "c.png"]),
        ("data:image/png;base64,AAA= 1x, b.png 2x", ["data:image/png;base64,AAA=", "b.png"]),
        ("", []),
        (" ,, ", []),
    ],
)
def test_srcset(srcset, found):
    assert list(candidates(srcset)) == found


def test_addresses_of_a_style_sheet():
    css = "@import 'a.css'; @import url(b.css); p { background: URL( \"c.png\" ) } /* url(no.png) */ q {src: url(d e)}"
    assert sorted(css_addresses(css)) == ["a.css", "b.css", "c.png"]


PIECES = """<a href= <p id= x " ' > </a> <!-- --> <svg> <use <template> <math> <code> </code> ``` ][ [^a] ](b) {.c} <base
<meta http-equiv=refresh content= <img srcset= , <style> url( ) <noscript> \0 \x0c é &amp; &#0; <![CDATA["""
pieces = st.sampled_from([*PIECES.split(), "\n"])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=40).map(lambda p: " ".join(p).encode())))
def test_no_bytes_make_it_fail(html):
    page = read("x.html", html)
    assert all(isinstance(link.url, str) for link in page.links)
