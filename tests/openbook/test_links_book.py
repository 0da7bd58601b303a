"""What needs the book behind the site: sources, navigation, sitemap, unused files, published anchors."""

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.findings import Misuse
from openbook.links import published
from openbook.links.book import Book, pages_of
from openbook.links.run import findings
from openbook.links.site import Site

URL = "https://x.example/book/"
CONFIG = f"site_name: x\nsite_url: {URL}\nmarkdown_extensions:\n  - pymdownx.snippets\nextra_css: [a/extra.css]\n"


def page(text: str, address: str = "", theme: str = "") -> str:
    canonical = f'<link rel="canonical" href="{URL}{address}">' if address is not None else ""
    return f"<head>{canonical}</head><nav>{theme}</nav><main>\n{text}\n</main>"


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def found(folder: Path, files: dict[str, str], config: str = CONFIG) -> list[tuple[str, int, str, str]]:
    put(folder, {"mkdocs.yml": config} | files)
    site, book = Site.read(folder / "site"), Book.read(folder / "mkdocs.yml")
    book.join(site)
    results = sorted(findings(site, book)[1])
    return [(Path(f.path).relative_to(folder).as_posix(), f.line, f.rule, f.target) for f in results]


def test_pages_are_joined_to_their_sources(tmp_path):
    put(tmp_path, {"mkdocs.yml": CONFIG, "docs/index.md": "", "docs/README.md": "", "docs/a.md": "", "docs/b.md": ""})
    put(tmp_path, {"docs/.hidden.md": "", "docs/c/README.md": "", "docs/draft.md": ""})
    put(tmp_path / "site", dict.fromkeys(["index.html", "a/index.html", "b.html", "c/index.html"], "<p>x"))
    book = Book.read(tmp_path / "mkdocs.yml")
    share = book.join(Site.read(tmp_path / "site"))
    assert book.sources == {
        "index.html": "index.md",
        "a/index.html": "a.md",
        "b.html": "b.md",
        "c/index.html": "c/README.md",
    }
    assert share == pytest.approx(4 / 6)
    assert pages_of("d/e.md") == ("d/e/index.html", "d/e.html")


def test_references_escapes_and_raw_html(tmp_path):
    source = "# T\n\n\\[a][no1] and [b][no1]\n\n[x][r] [y][r]\n\n\n[r]: gone.md\n\n<a href='b.md'>x</a> &#91;q](no2)\n"
    html = page("[a][no1] and [b][no1] <a href=gone.md>x</a><a href=gone.md>y</a><a href=b.md>x</a> [q](no2)")
    files = {"docs/index.md": source, "docs/b.md": "", "site/index.html": html, "site/b/index.html": page("x", "b/")}
    assert found(tmp_path, files) == [
        ("docs/index.md", 3, "leaked-markup", "][no1]"),
        ("docs/index.md", 8, "missing-target", "gone.md"),
        ("docs/index.md", 10, "missing-target", "b.md"),
    ]


def test_raw_html_that_names_markdown_says_what_to_write(tmp_path):
    files = {"docs/a/index.md": "<a href='../b.md'>x</a>", "docs/b.md": ""}
    files |= {"site/a/index.html": page("<a href='../b.md'>x</a>", "a/"), "site/b/index.html": page("x", "b/")}
    put(tmp_path, {"mkdocs.yml": CONFIG} | files)
    site, book = Site.read(tmp_path / "site"), Book.read(tmp_path / "mkdocs.yml")
    book.join(site)
    (finding,) = findings(site, book)[1]
    assert finding.hint == "in raw HTML a link names the built page: ../b/"


def test_other_letter_case_of_a_markdown_file(tmp_path):
    files = {"docs/index.md": "[x](sub/B.md)", "docs/sub/b.md": ""}
    files |= {"site/index.html": page("<a href='sub/B.md'>x</a>"), "site/sub/b/index.html": page("x", "sub/b/")}
    assert found(tmp_path, files) == [("docs/index.md", 1, "case-mismatch", "sub/B.md")]


def test_suggestions_are_written_as_markdown_links(tmp_path):
    files = {"docs/a/one.md": "[x](../b/too.md) [y](../b/two.md#hed)", "docs/b/two.md": ""}
    files |= {
        "site/a/one/index.html": page("<a href='../b/too.md'>x</a><a href='../../b/two/#hed'>y</a>", "a/one/"),
        "site/b/two/index.html": page("<h2 id=head>x</h2>", "b/two/"),
    }
    put(tmp_path, {"mkdocs.yml": CONFIG} | files)
    site, book = Site.read(tmp_path / "site"), Book.read(tmp_path / "mkdocs.yml")
    book.join(site)
    assert [(f.target, f.hint, f.column) for f in sorted(findings(site, book)[1])] == [
        ("../b/too.md", "nearest: ../b/two.md", 5),
        ("../../b/two/#hed", "nearest: ../b/two.md#head", 22),
    ]


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("dril.py", "nearest: drill.py"),
        ("drill.txt", "nearest: drill.py"),
        ("../x/drill.py", "nearest: drill.py"),
        ("fio_swep.fio", "nearest: ../sub/fio_sweep.fio"),
        ("other.md#x", "nearest: ../other.md"),
        ("../sub/drills.md", "nearest: ../sub/drill.md"),
        ("nothing-like-it.py", ""),
        ("../sub/Drill.md", "the file is ../sub/drill.md"),
        ("../../sub/drill/#lab", "nearest: ../sub/drill.md#moved-lab"),
        ("../../sub/drill/#section-two-gone", "nearest: ../sub/drill.md#section-two"),
        ("../../sub/drill/#un", ""),
    ],
)
def test_the_nearest_thing_is_named_as_the_author_would_write_it(tmp_path, url, hint):
    files = {"docs/a/one.md": f"[x]({url})", "docs/sub/drill.md": "x", "docs/other.md": "x"}
    files |= {f"{folder}/{name}": "x" for folder in ("docs", "site") for name in ("a/drill.py", "sub/fio_sweep.fio")}
    files |= {
        "site/a/one/index.html": page(f"<a href='{url}'>x</a>", "a/one/"),
        "site/sub/drill/index.html": page(
            "<h2 id=moved-lab>x</h2><h2 id=section-two>y</h2><p id=unlike>z</p>", "sub/drill/"
        ),
        "site/other/index.html": page("x", "other/"),
    }
    put(tmp_path, {"mkdocs.yml": CONFIG} | files)
    site, book = Site.read(tmp_path / "site"), Book.read(tmp_path / "mkdocs.yml")
    book.join(site)
    assert [f.hint for f in findings(site, book)[1] if f.rule != "orphan-file"] == [hint]


def test_what_only_the_built_page_has_is_shown_there(tmp_path):
    files = {"docs/index.md": "# T", "site/index.html": page("x\n<a href='#no'>x</a>")}
    put(tmp_path, {"mkdocs.yml": CONFIG} | files)
    site, book = Site.read(tmp_path / "site"), Book.read(tmp_path / "mkdocs.yml")
    book.join(site)
    (finding,) = findings(site, book)[1]
    assert (Path(finding.path).name, finding.line) == ("index.md", 1)
    assert finding.hint.endswith("site/index.html:3")


def test_links_made_from_a_heading_are_traced_to_it(tmp_path):
    source = "# Title\n\n## Bus bandwidth, or what?\n\n## Other { #own-id }\n"
    toc = "<a href='#bus-bandwidth-or-what'>x</a><a href='#own-id'>x</a>"
    files = {"docs/index.md": source, "site/index.html": page("<a href='#own-id'>x</a>", theme=toc)}
    assert found(tmp_path, files) == [
        ("docs/index.md", 3, "missing-anchor", "#bus-bandwidth-or-what"),
        ("docs/index.md", 5, "missing-anchor", "#own-id"),
    ]


def test_data_behind_a_page_is_searched(tmp_path):
    files = {"docs/index.md": "# T", "docs/data/x.yml": "a: 1\nlink: other/gone.html\n"}
    files["site/index.html"] = page("<a href='other/gone.html'>x</a>")
    assert found(tmp_path, files) == [("docs/data/x.yml", 2, "missing-target", "other/gone.html")]


def test_what_a_fence_of_the_book_renders_is_traced_to_the_fence(tmp_path):
    figures = "```figures\ntopic: x\n```\n"
    source = f"# T\n\n````md\n{figures}````\n\n{figures}\n!!! note\n\n    ~~~ figures\n    a: b\n    ~~~\n\n--8<-- 'part.md'\n"
    table = (
        '<div class="wide figures"><h2 id="{0}">x</h2><a href="#gone">x</a> [{0}][none] <i class="figures"></i></div>'
    )
    rendered = "<pre>```figures</pre>" + "".join(map(table.format, ["one", "two", "two"]))
    files = {"docs/index.md": source, "part.md": f"x\n\n{figures}", "site/index.html": page(rendered)}
    config = CONFIG.replace("extra_css", "  - pymdownx.superfences: {custom_fences: [{name: figures}]}\nextra_css")
    assert found(tmp_path, files, config) == [
        ("docs/index.md", 9, "leaked-markup", "][none]"),
        ("docs/index.md", 9, "missing-anchor", "#gone"),
        ("docs/index.md", 15, "leaked-markup", "][none]"),
        ("docs/index.md", 15, "missing-anchor", "#gone"),
        ("part.md", 3, "duplicate-id", "index.html#two"),
        ("part.md", 3, "leaked-markup", "][none]"),
        ("part.md", 3, "missing-anchor", "#gone"),
    ]


def test_ids_that_repeat_are_traced_to_the_last(tmp_path):
    source = "# T\n\n## A { #same }\n\n<p id='same'>x</p>\n"
    files = {"docs/index.md": source, "site/index.html": page("<h2 id=same>A</h2><p id='same'>x</p>")}
    assert found(tmp_path, files) == [("docs/index.md", 5, "duplicate-id", "index.html#same")]


def test_terms_that_repeat_are_traced_to_the_last(tmp_path):
    source = "# T\n\nFabric manager\n:   One.\n\nOther\n:   Two.\n\nFabric manager\n:   Three.\n"
    files = {
        "docs/index.md": source,
        "site/index.html": page("<dt id=fabric-manager>A</dt><dt id=fabric-manager>x</dt>"),
    }
    assert found(tmp_path, files) == [("docs/index.md", 9, "duplicate-id", "index.html#fabric-manager")]


def test_links_of_the_theme_stand_in_the_configuration(tmp_path):
    config = CONFIG + "nav:\n  - index.md\n  - Gone: gone.md\n"
    files = {"docs/index.md": "# T", "site/index.html": page("x", theme="<a href='/book/gone.md'>Gone</a>")}
    assert found(tmp_path, files, config) == [("mkdocs.yml", 8, "missing-target", "/book/gone.md")]


def test_navigation(tmp_path):
    config = CONFIG + "nav:\n  - index.md\n  - Part: [gone.md, https://x.example/]\nnot_in_nav: |\n  /hidden/\n"
    docs = {f"docs/{name}": "" for name in ("index.md", "hidden/x.md")} | {"docs/lost.md": "# Lost\n\nx\n"}
    docs["docs/lost.md"] += "`[x]()`\n"
    built = {"site/index.html": page("x"), "site/lost/index.html": page("x", "lost/")}
    built["site/hidden/x/index.html"] = page("x", "hidden/x/")
    assert found(tmp_path, docs | built, config) == [
        ("docs/lost.md", 1, "not-in-nav", "lost/index.html"),
        ("mkdocs.yml", 8, "missing-target", "gone.md"),
    ]


def test_unused_files(tmp_path):
    names = ["used.csv", "lost.csv", "part.py", "block.py", "extra.css", "font.woff2", "worker.js", "LICENSE.txt"]
    files = {f"docs/a/{name}": "x" for name in names} | {f"site/a/{name}": "x" for name in names}
    files |= {"docs/a/excluded.csv": "x", "docs/x.js": "fetch('worker.js')", "site/x.js": "fetch('worker.js')"}
    files |= {"docs/a/extra.css": "a {src: url(font.woff2)}", "site/a/extra.css": "a {src: url(font.woff2)}"}
    files["docs/index.md"] = '--8<-- "docs/a/part.py:1:2"\n--8<--\ndocs/a/block.py\n--8<--\n'
    files["site/index.html"] = page("<a href='a/used.csv'>x</a><script src='x.js'></script>")
    assert found(tmp_path, files) == [("docs/a/lost.csv", 1, "orphan-file", "a/lost.csv")]


def test_data_that_fences_show_is_in_use(tmp_path):
    names = ["shown", "compared", "quoted", "only-in-text", "other-fence"]
    files = {f"{folder}/data/{name}.yml": "x" for name in names for folder in ("docs", "site")}
    files |= {"docs/data/shown.png": "x", "site/data/shown.png": "x", "site/index.html": page("x")}
    files["docs/index.md"] = (
        "# T\n\nonly-in-text [[quoted.record.column]] [[only-in-text]]\n\n```figures\ntopic: shown\n```\n\n"
        "!!! note\n    ~~~~{.figures title=x}\n    topics: [compared, a]\n    ~~~~\n\n```yaml\ntopic: other-fence\n```\n"
    )
    config = CONFIG.replace("extra_css", "  - pymdownx.superfences: {custom_fences: [{name: figures}, {}]}\nextra_css")
    assert [target for *_, target in found(tmp_path, files, config)] == [
        "data/only-in-text.yml",
        "data/other-fence.yml",
        "data/shown.png",
    ]


def test_sitemap(tmp_path):
    urls = [URL, URL + "gone/", "https://y.example/"]
    xml = "<?xml version='1.0'?>\n<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\n"
    xml += "\n".join(f"<url><loc>{url}</loc></url>" for url in urls) + "\n</urlset>\n"
    other = page("x", "hidden/").replace("<head>", "<head><meta name=robots content=noindex>")
    files = {"site/index.html": page("x"), "site/404.html": page("x", "404.html"), "site/a/index.html": page("x", "a/")}
    files |= {"docs/index.md": "", "docs/a.md": "", "site/hidden/index.html": other, "site/sitemap.xml": xml}
    assert found(tmp_path, files) == [
        ("docs/a.md", 1, "unlisted-page", "a/index.html"),
        ("site/sitemap.xml", 4, "missing-target", URL + "gone/"),
        ("site/sitemap.xml", 5, "outside-site", "https://y.example/"),
    ]
    assert found(tmp_path, {"site/sitemap.xml": "<urlset>"})[-1][2] == "broken-sitemap"


XML = "<urlset>\n{}\n</urlset>"


def test_what_a_sitemap_lists_besides_pages(tmp_path):
    listed = [
        f"<loc>{URL}</loc>",
        f"<link href='{URL}de/'/>",
        f"<i:loc xmlns:i='x'>{URL}no.png</i:loc>",
        "<loc>a/</loc>",
    ]
    files = {"site/index.html": page("x"), "site/sitemap.xml": XML.format("\n".join(listed)), "docs/index.md": ""}
    assert found(tmp_path, files) == [
        ("site/sitemap.xml", 3, "missing-target", URL + "de/"),
        ("site/sitemap.xml", 4, "missing-target", URL + "no.png"),
        ("site/sitemap.xml", 5, "malformed-url", "a/"),
    ]


@pytest.mark.parametrize("names", [("", "a/", "gone/"), ("index.html", "a/index.html", "gone.html")])
def test_a_sitemap_tells_where_the_site_is_when_nothing_else_does(tmp_path, names):
    listed = "".join(f"<loc>{URL}{name}</loc>\n" for name in names)
    link = f"<a href='{URL}lost/'>x</a><a href='/book/a/'>x</a>"
    put(tmp_path, {"index.html": link, "a/index.html": "<p>x", "sitemap.xml": XML.format(listed)})
    targets = [finding.target for finding in sorted(findings(Site.read(tmp_path), None)[1])]
    assert targets == [URL + "lost/", URL + names[-1]]


@pytest.mark.parametrize(
    ("address", "rules"),
    [
        (URL + "a/", []),
        (URL + "gone/", ["missing-target"]),
        (URL + "A/", ["case-mismatch"]),
        ("https://y.example/a/", ["outside-site"]),
        ("https://x.example/a/", ["outside-site"]),
    ],
)
def test_canonical_addresses(tmp_path, address, rules):
    html = page("x").replace(URL, address)
    files = {"docs/index.md": "", "docs/a.md": "", "site/index.html": page("x"), "site/a/index.html": html}
    assert [rule for _, _, rule, _ in found(tmp_path, files)] == rules
    html = html.replace("<head>", "<head><meta http-equiv=refresh content='0; url=../'>")
    assert [rule for _, _, rule, _ in found(tmp_path, {"site/a/index.html": html}) if rule == "outside-site"] == []


ANCHORS = {
    "docs/index.md": "# T { #t }\n",
    "docs/a.md": "## One { #one }\n",
    "site/index.html": page("<h1 id=t>T</h1>"),
    "site/a/index.html": page("<h2 id=one>One</h2><p id=para>x</p>", "a/"),
}


def test_published_anchors_must_stay(tmp_path):
    record = "a#gone\na#one\na#para\nindex#t\nold#x\n"
    assert found(tmp_path, ANCHORS | {"docs/data/anchors.txt": record}) == [
        ("docs/data/anchors.txt", 1, "lost-anchor", "a#gone"),
        ("docs/data/anchors.txt", 5, "lost-anchor", "old#x"),
    ]


def test_the_record_holds_for_both_kinds_of_addresses(tmp_path):
    files = {name: text for name, text in ANCHORS.items() if name != "site/a/index.html"}
    files |= {"site/a.html": page("<h2 id=one>One</h2>", "a.html"), "docs/data/anchors.txt": "a#one\nindex#t\n"}
    assert found(tmp_path, files) == []


@pytest.mark.parametrize(("address", "lost"), [("../a/", ["old#gone"]), ("../a/#one", [])])
def test_a_redirect_takes_the_place_of_a_page(tmp_path, address, lost):
    redirect = f'<meta http-equiv="refresh" content="0; url={address}">'
    files = ANCHORS | {"site/old/index.html": redirect, "docs/data/anchors.txt": "old#gone\nold#one\n"}
    assert [target for _, _, _, target in found(tmp_path, files)] == lost


def test_recording_adds_and_keeps_sorted(tmp_path):
    put(tmp_path, {"mkdocs.yml": CONFIG} | ANCHORS)
    book, site = Book.read(tmp_path / "mkdocs.yml"), Site.read(tmp_path / "site")
    result, _ = findings(site, book)
    file = tmp_path / "docs" / published.FILE
    assert published.record(file, result) == 2
    assert file.read_text() == "a#one\nindex#t\n"
    assert published.record(file, result) == 0
    put(tmp_path, {"docs/data/anchors.txt": "z#kept\na#one\n"})
    assert published.record(file, result) == 1
    assert file.read_text() == "a#one\nindex#t\nz#kept\n"


@pytest.mark.parametrize("line", ["no anchor", "#x", "a#", "<<<<<<< HEAD"])
def test_a_record_that_makes_no_sense_stops_the_check(tmp_path, line):
    with pytest.raises(Misuse, match=r"anchors\.txt:2: a line is page#anchor"):
        found(tmp_path, ANCHORS | {"docs/data/anchors.txt": f"a#one\n{line}\n"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("a: [", r"mkdocs\.yml:1: not valid YAML"),
        ("x", "is a mapping of options"),
        ("", "is a mapping of options"),
        ("docs_dir: none", "docs_dir .*none is not a folder"),
        ("docs_dir: [1]", "docs_dir is text"),
        ("site_url: {a: b}", "site_url is text"),
        ("a: \x00", "not valid YAML"),
        ("? [a]\n: 1", "not valid YAML"),
    ],
)
def test_a_broken_configuration_stops_the_check(tmp_path, config, message):
    put(tmp_path, {"mkdocs.yml": config, "docs/index.md": ""})
    with pytest.raises(Misuse, match=message):
        Book.read(tmp_path / "mkdocs.yml")


def test_tags_of_mkdocs_are_read_and_run_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HERE_URL", "https://env.example/")
    config = """
INHERIT: base.yml
site_url: !ENV [NOT_SET_ANYWHERE, HERE_URL, "https://default.example/"]
hooks: !!python/object/apply:os.system ["touch ran"]
extra: {a: !relative x, b: !!python/name:os.system , c: !ENV NOT_SET_ANYWHERE}
markdown_extensions:
  - toc: {permalink: true}
  - pymdownx.snippets: {base_path: parts, auto_append: [more.md]}
theme: {name: material, custom_dir: over}
nav: [index.md, {A: a.md}, {B: [b.md, {C: "https://x.example"}]}]
"""
    put(tmp_path, {"mkdocs.yml": config, "base.yml": "docs_dir: text", "text/index.md": ""})
    book = Book.read(tmp_path / "mkdocs.yml")
    assert book.site_url == "https://env.example/"
    assert book.docs == tmp_path / "text"
    assert book.nav == ["index.md", "a.md", "b.md"]
    assert book.snippet_bases == [tmp_path / "parts"]
    assert book.appended == ["more.md"]
    assert book.theme == tmp_path / "over"
    assert not (tmp_path / "ran").exists()
