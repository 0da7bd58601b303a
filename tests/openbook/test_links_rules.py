"""Each rule on small sites of raw HTML, and random damage to a site that is whole."""

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.findings import Misuse
from openbook.links import check as check_module
from openbook.links.check import check, external_links
from openbook.links.run import findings, home_of
from openbook.links.site import Site


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def found(folder: Path, files: dict[str, str | bytes]) -> list[tuple[str, int, str, str]]:
    """(file, line, rule, target) of each finding."""
    site = Site.read(put(folder, files))
    return [
        (Path(f.path).relative_to(folder).as_posix(), f.line, f.rule, f.target) for f in sorted(findings(site, None)[1])
    ]


CASES = [
    ("missing-target", '<a href="no.html">x</a>', "no.html"),
    ("missing-target", '<a href="folder/">x</a>', "folder/"),
    ("missing-target", '<a href="b.html/">x</a>', "b.html/"),
    ("missing-target", '<a href="b">x</a>', "b"),
    ("missing-target", '<img src="no.png?v=1">', "no.png?v=1"),
    ("missing-target", '<link rel="stylesheet" href="no.css">', "no.css"),
    ("missing-target", '<meta http-equiv="refresh" content="0; url=no.html">', "no.html"),
    ("missing-target", '<img srcset="pic.svg 1x, no.png 2x" src="pic.svg">', "no.png"),
    ("missing-target", '<p style="background: url(no.png)">x</p>', "no.png"),
    ("missing-target", '<svg><use href="no.svg#x"/></svg>', "no.svg#x"),
    ("missing-anchor", '<a href="#no">x</a>', "#no"),
    ("missing-anchor", '<a href="b.html#no">x</a>', "b.html#no"),
    ("missing-anchor", '<a href="b.html?x=1#no:~:text=y">x</a>', "b.html?x=1#no:~:text=y"),
    ("missing-anchor", '<a href="b.html#YES">x</a>', "b.html#YES"),
    ("missing-anchor", '<svg><use xlink:href="pic.svg#no"/></svg>', "pic.svg#no"),
    ("missing-anchor", '<svg><path marker-end="url(#no)"/></svg>', "#no"),
    ("case-mismatch", '<a href="B.html">x</a>', "B.html"),
    ("case-mismatch", '<img src="PIC.svg">', "PIC.svg"),
    ("case-mismatch", '<a href="Sub/">x</a>', "Sub/"),
    ("duplicate-id", '<p id="twice">x</p><p id="twice">x</p>', "a.html#twice"),
    ("empty-href", '<a href="">x</a>', ""),
    ("empty-href", "<img src>", ""),
    ("empty-href", '<meta property="og:image" content=""><a href="">x</a>', ""),
    ("outside-site", '<a href="../x.html">x</a>', "../x.html"),
    ("outside-site", '<a href="file:///x">x</a>', "file:///x"),
    ("malformed-url", '<a href="http://[::1">x</a>', "http://[::1"),
    ("malformed-url", '<img src="folder\\x.png">', "folder\\x.png"),
    ("leaked-markup", "<p>a [b][c] d</p>", "][c]"),
]

WHOLE = [
    '<a href="b.html#yes">x</a> <a href="./b.html">x</a> <a href="sub">x</a> <a href="sub/?x#">x</a>',
    '<a href="b.html#%79es">x</a> <a href="b.html#old">x</a> <a href="#top">x</a> <a href="#TOP">x</a>',
    '<a href="a%20b.html">x</a> <a href="a b.html">x</a> <a href="%C3%A9.html">x</a> <a href="é.html#ü">x</a>',
    '<a href="b.html#%C3%BC">x</a> <a href="?print">x</a> <a>x</a> <form action=""></form>',
    '<svg><use href="pic.svg#yes"/><use href="#own"/><g id="own"/></svg> <a href="pic.svg#anything">x</a>',
    '<a href="folder/file.pdf#page=3">x</a> <img src="pic.svg#svgView(viewBox(0,0,1,1))"> <a href="folder/file.pdf?a=b">x</a>',
    '<a href="mailto:x@y.example">x</a> <a href="javascript:void 0">x</a> <img src="data:image/png;base64,AA==">',
    '<a href="https://x.example/no">x</a> <a href="//x.example/no">x</a> <!-- <a href="no"> -->',
    '<a href="sub/../b.html">x</a> <a href="sub/./index.html">x</a> <a href="sub//">x</a>',
    '<noscript><p id="n">x</p></noscript><p id="n">x</p> <template><a href="no">x</a></template>',
]

AROUND = {
    "b.html": '<p id="yes">x</p><a name="old">x</a><p id="ü">x</p>',
    "sub/index.html": "<p>x",
    "a b.html": "<p>x",
    "é.html": '<p id="ü">x',
    "folder/file.pdf": "%PDF",
    "pic.svg": '<svg xmlns="http://www.w3.org/2000/svg"><g id="yes"/></svg>',
}


@pytest.mark.parametrize(("rule", "html", "target"), CASES)
def test_each_rule_at_its_line(tmp_path, rule, html, target):
    page = f"<!doctype html>\n<title>x</title>\n<main>\n{html}\n</main>\n"
    assert found(tmp_path, AROUND | {"a.html": page}) == [("a.html", 4, rule, target)]


@pytest.mark.parametrize("html", WHOLE)
def test_what_works_is_not_reported(tmp_path, html):
    assert found(tmp_path, AROUND | {"a.html": f"<main>{html}</main>"}) == []


def test_a_byte_order_mark_and_odd_line_ends_do_no_harm(tmp_path):
    page = b"\xef\xbb\xbf<!doctype html>\r\n<main>\r\n<p id=a>\r\n<a href='#a'>x</a><a href='#b'>x</a>"
    assert found(tmp_path, {"a.html": page}) == [("a.html", 4, "missing-anchor", "#b")]


def test_base_moves_relative_links_and_fragments(tmp_path):
    page = '<base href="sub/"><a href="c.html">x</a><a href="#in-sub">x</a><a href="../a.html">x</a>'
    files = {"a.html": page, "sub/index.html": '<p id="in-sub">x', "sub/c.html": "<p>x"}
    assert found(tmp_path, files) == []
    files["a.html"] = '<base href="https://x.example/"><a href="no.html">x</a>'
    assert found(tmp_path, files) == []


def test_absolute_addresses_under_the_public_path(tmp_path):
    index = '<link rel="canonical" href="https://x.example/book/"><main><a href="/book/a.html">x</a>'
    a = '<main><a href="/a.html">x</a><a href="https://x.example/book/no">x</a><a href="https://x.example/b">x</a>'
    assert found(tmp_path, {"index.html": index, "a.html": a}) == [
        ("a.html", 1, "outside-site", "/a.html"),
        ("a.html", 1, "missing-target", "https://x.example/book/no"),
    ]


def test_relative_links_of_the_404_page(tmp_path):
    page = '<main><a href="a.html">x</a><a href="/a.html">x</a><a href="#x">x</a><p id="x"><img src="/no.png">'
    assert found(tmp_path, {"404.html": page, "a.html": "<p>x"}) == [
        ("404.html", 1, "relative-in-404", "a.html"),
        ("404.html", 1, "missing-target", "/no.png"),
    ]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("/sub/", [("missing-target", "gone.html")]),
        ("sub/", [("relative-in-404", "ok.html"), ("relative-in-404", "gone.html")]),
        ("https://other.example/", []),
    ],
)
def test_a_base_holds_the_links_of_the_404_page_in_place(tmp_path, base, expected):
    page = f'<base href="{base}"><main><a href="ok.html">x</a><a href="gone.html">x</a>'
    results = found(tmp_path, {"404.html": page, "sub/ok.html": "<p>x", "sub/index.html": "<p>x"})
    assert sorted((rule, target) for _, _, rule, target in results) == sorted(expected)


def test_what_the_theme_repeats_is_reported_once(tmp_path):
    page = '<nav><a href="/no.html">x</a><a href="#self">x</a></nav><main id="self"><a href="/gone.html">x</a></main>'
    site = Site.read(put(tmp_path, {f"p{i}.html": page for i in range(5)}))
    _, all_found = findings(site, None)
    assert sorted((f.target, Path(f.path).name) for f in all_found) == [
        ("/gone.html", f"p{i}.html") for i in range(5)
    ] + [("/no.html", "p0.html")]
    assert "on 5 pages" in next(f.message for f in all_found if f.target == "/no.html")


def test_equal_links_of_one_page_each_have_their_line(tmp_path):
    page = "<main>\n<a href=no>x</a>\n<a href=no>x</a>\n</main>"
    assert [line for _, line, _, _ in found(tmp_path, {"a.html": page})] == [2, 3]


def test_style_sheets(tmp_path):
    css = '/* url(old.png) */\na {src: url("f.woff2") url(no.woff2?x#y) url(data:x,y) url(#z)}\n@import "NO.css";\n'
    files = {"index.html": '<link rel=stylesheet href="c/s.css">', "c/s.css": css, "c/f.woff2": "x", "c/no.css": ""}
    assert found(tmp_path, files) == [
        ("c/s.css", 2, "missing-target", "no.woff2?x#y"),
        ("c/s.css", 3, "case-mismatch", "NO.css"),
    ]


def test_drawings(tmp_path):
    svg = """<svg xmlns="http://www.w3.org/2000/svg"><!-- <a href="old.html"/> -->
<a href="../b.html"/><a xlink:href='gone.html?a=1&amp;b=2'/><use href="#own"/><use href="#none"/>
<path fill="url(#own)" marker-end="url(&quot;#lost&quot;)"/><image href="p.PNG"/><image href="data:x,y"/><a href="">
<style>rect {fill: url(#own); src: url(f.woff)}</style><g id="own"/><a href="https://x.example/"/><a href="#"/></svg>"""
    files = {"a.html": "<main><img src=c/d.svg>", "b.html": "<p>x", "c/d.svg": svg, "c/p.png": "x"}
    assert found(tmp_path, files) == [
        ("c/d.svg", 2, "missing-target", "gone.html?a=1&b=2"),
        ("c/d.svg", 2, "missing-anchor", "#none"),
        ("c/d.svg", 3, "missing-anchor", "#lost"),
        ("c/d.svg", 3, "case-mismatch", "p.PNG"),
        ("c/d.svg", 4, "missing-target", "f.woff"),
    ]


def test_hints_name_the_nearest_thing_that_exists(tmp_path):
    pages = {
        "network/collectives/index.html": '<main><h2 id="bus-bandwidth">x</h2><a href="../colectives/">x</a></main>',
        "a.html": '<main><a href="storage/collectives/">x</a><a href="network/collectives/#bus-bandwith">x</a>'
        '<a href="#bus-bandwidth">x</a><a href="network/collectives/#Bus-Bandwidth">x</a>'
        '<a href="www.x.example">x</a><a href="me@x.example">x</a></main>',
    }
    site = Site.read(put(tmp_path, pages))
    assert {f.target: f.hint for f in findings(site, None)[1]} == {
        "../colectives/": "nearest: this page itself",
        "storage/collectives/": "nearest: network/collectives/",
        "network/collectives/#bus-bandwith": "nearest: network/collectives/#bus-bandwidth",
        "#bus-bandwidth": "that anchor is on network/collectives/",
        "network/collectives/#Bus-Bandwidth": "letter case counts in anchors: #bus-bandwidth",
        "www.x.example": "an address on another site starts with its scheme: https://www.x.example",
        "me@x.example": "an e-mail address is written mailto:me@x.example",
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"readme.txt": "x"}, "has no HTML page"),
        ({"index.html": b"\xff\xfe<p>"}, "index.html is not UTF-8"),
        ({"index.html": ""}, "index.html is empty"),
        ({"index.html": " \n"}, "index.html is empty"),
        ({"index.html/x.html": "<p>"}, "index.html is a folder"),
    ],
)
def test_sites_that_cannot_be_read(tmp_path, files, message):
    with pytest.raises(Misuse, match=message):
        findings(Site.read(put(tmp_path, files)), None)


def test_a_link_of_folders_in_a_circle_ends(tmp_path):
    put(tmp_path, {"index.html": "<p>x", "a/index.html": "<p>x"})
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert Site.read(tmp_path).pages == ["a/index.html", "index.html"]


def test_external_addresses_are_collected_with_their_pages(tmp_path):
    files = {"a.html": '<main><a href="https://x.example/">x</a><img src="//y.example/z.png">', "b.html": "<p>x"}
    site = Site.read(put(tmp_path, files))
    links = external_links(check(site, home_of(site, None)))
    assert {url: [page for page, _ in uses] for url, uses in links.items()} == {
        "https://x.example/": ["a.html"],
        "//y.example/z.png": ["a.html"],
    }


def test_several_processes_find_the_same(tmp_path, monkeypatch):
    pages = {f"p{i}.html": f'<main id="m{i}"><a href="p{i + 1}.html#m{i}">x</a></main>' for i in range(30)}
    site = Site.read(put(tmp_path, pages))
    alone = sorted(findings(site, None)[1])
    monkeypatch.setattr(check_module, "PARALLEL_FROM", 10)
    assert sorted(findings(site, None)[1]) == alone
    assert len(alone) == 30
    (tmp_path / "p7.html").write_bytes(b"\xff")
    with pytest.raises(Misuse, match=r"p7\.html is not UTF-8"):
        findings(site, None)


def a_whole_site(random: random.Random) -> dict[str, str]:
    """Pages that link to each other's sections and to pictures, without a defect."""
    names = [f"{'d/' * random.randrange(3)}p{number}/index.html" for number in range(8)]
    files = {"pic.svg": "<svg/>", "index.html": "<main>start</main>"}
    for name in names:
        up = "../" * name.count("/")
        links = []
        for other in random.sample(names, 4):
            anchor = f"#s{random.randrange(5)}"
            links.append(f'<p><a href="{up}{other.removesuffix("index.html")}{anchor}">x</a>')
        links.append(f'<p><img src="{up}pic.svg">')
        sections = [f'<h2 id="s{number}">x</h2>' for number in range(5)]
        files[name] = "<nav>x</nav>\n<main>\n" + "\n".join(sections + links) + "\n</main>\n"
    return files


@pytest.mark.parametrize("seed", range(25))
def test_random_damage_is_found_and_nothing_else(tmp_path, seed):
    dice = random.Random(seed)
    files = a_whole_site(dice)
    assert found(tmp_path, files) == []
    page = dice.choice(sorted(name for name in files if name.startswith(("d/", "p")) and name.endswith("html")))
    lines = files[page].splitlines()
    spots = [number for number, line in enumerate(lines) if "href" in line or "src" in line]
    spot = dice.choice(spots)
    kind = dice.choice(["path", "case", "anchor"]) if "href" in lines[spot] else "path"
    old = re.search(r'(?:href|src)="([^"]*)"', lines[spot])[1]
    if kind == "path":
        new = re.sub(r"p(\d|ic)", r"q\1", old)
    elif kind == "case":
        new = re.sub(r"p(\d)", r"P\1", old)
    else:
        new = re.sub(r"#s\d", "#gone", old)
    lines[spot] = lines[spot].replace(old, new)
    files[page] = "\n".join(lines)
    rule = {"path": "missing-target", "case": "case-mismatch", "anchor": "missing-anchor"}[kind]
    assert found(tmp_path, files) == [(page, spot + 1, rule, new)]
