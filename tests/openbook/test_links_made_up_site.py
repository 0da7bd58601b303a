"""A made-up book, rendered by MkDocs: everything broken in it is found at its line, and nothing else.

The name of every broken address holds `broken-NN`, the name of everything that only looks broken `decoy-NN`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from openbook.links.book import Book
from openbook.links.run import findings
from openbook.links.site import Site

pytest.importorskip("mkdocs", reason="needs MkDocs: pip install -e .")

CONFIG = """
site_name: Made up
site_url: https://made-up.example/book/
theme: {theme}
use_directory_urls: {directories}
markdown_extensions:
  - admonition
  - attr_list
  - def_list
  - footnotes
  - md_in_html
  - tables
  - toc: {{permalink: true}}
  - pymdownx.arithmatex: {{generic: true}}
  - pymdownx.details
  - pymdownx.highlight
  - pymdownx.superfences
  - pymdownx.tabbed: {{alternate_style: true}}
  - pymdownx.snippets: {{base_path: ["."]}}
"""

INDEX = """
---
title: "Start [decoy-01](decoy-01.md)"
---
# Start

Inline [one](broken-01.md), reference [two][two], image ![three](broken-03.png), [other page](a.md#broken-04).
Shortcut [two] again, [own anchor](#broken-05), nested [a [b] c](broken-06.md), [![p](pic.svg)](broken-07.md),
parentheses [wiki](broken-08_(x).md), spaces [b](<broken-09 b.md>), title [c](broken-10.md 'ti)tle'), a link
over [two
lines](broken-11.md), query [d](a.md?x=1#broken-12), encoded [e](a.md#broken-13-%C3%A9), folder [f](empty/?broken-14).

[two]: broken-02.md

!!! note "Box"
    In a box [x](broken-15.md).

    === "Tab"
        In a tab in a box [x](broken-16.md).

        | a | b |
        |---|---|
        | cell [x](broken-17.md) | y |

- item

    - deep [x](broken-18.md)

> quoted [x](a.md#broken-19)

Term
:   defined [x](broken-20.md)

A note.[^n]

[^n]: in a footnote [x](broken-21.md)

??? question "Folded"
    <a href="broken-22.md">raw</a> <a href='a/broken-23/'>single</a> <a href=broken-24.html>bare</a>

<img src="broken-25.png" srcset="pic.svg 1x, broken-26.png 2x" alt="">
<video poster="broken-27.png"><source src="broken-28.mp4"><track src="broken-29.vtt"></video>
<audio src="broken-30.ogg"></audio> <iframe src="broken-31.html"></iframe> <object data="broken-32.svg"></object>
<map name="m"><area href="broken-33.html" alt=""></map> <embed src="broken-34.svg">

<div markdown>
Markdown in HTML [x](broken-35.md)
</div>

--8<-- "parts/included.md"

Undefined [text][broken-40], missing footnote[^broken-41], [Case](SUB/index.md?broken-42).

<a href="http://[::broken-43">malformed</a>, [none](), [root](/broken-44/), [out](../../../broken-45.md),
[file](file:///broken-46), [scheme](htps://example.org/broken-47), [www](www.broken-48.example).

<p>A lost <broken49> tag, attributes { .broken-50 } alone.</p>

[own site](https://made-up.example/book/broken-51/), <svg width="1"><use href="#broken-52"/></svg>
<svg width="1"><path marker-end="url(#broken-53)"/></svg>

```python broken-54
x = 1
```

Backslash [x](sub\\\\broken-55.md)

*[HTML]: no abbreviations here
"""

DECOYS = """
# Decoys

`[x](decoy-02.md)` and ``[y](decoy-03.md) ` `` and <kbd>x</kbd>.

```markdown
[x](decoy-05.md) [t][decoy-06] [^decoy-07]
```

~~~~text
```
[x](decoy-08.md)
```
~~~~

    [x](decoy-09.md) in an indented block

<!-- [x](decoy-10.md) <a href="decoy-11.html">x</a> -->

Escaped \\[x](decoy-12.md), \\[t][decoy-13], &#91;x](decoy-14.md).

Maths $A[i](decoy15)$ and $$B[decoy16][j]$$ and the price is \\$5.

## Same
## Same

[first](#same), [second](#same_1), [top](#top), [empty](#), [text](a.md#:~:text=decoy-17), [both](a.md#own:~:text=decoy-18).

### Größe & Café { #größe }
### Replaced { #own-id }
Setext heading
--------------

[unicode](#größe), [encoded](#gr%C3%B6%C3%9Fe), [own](#own-id), [setext](#setext-heading), [HTML](#raw-id),
[name](#old-name), [other](a.md#own), [query](a.md?decoy-19=1#own), [paren](paren_(x).md), [space](<spa ce.md>),
[sp](spa%20ce.md), [page](a.md), [folder](sub/index.md), [footnote](#fn:n).

<span id="raw-id"></span><a name="old-name"></a>

[mail](mailto:decoy-20@example.org), [tel](tel:+1), [data](data:text/plain,decoy-21), [js](javascript:void(0)),
[host](//decoy-22.example/x), [web](https://decoy-23.example/(x)), <https://decoy-24.example>.

<template><a href="decoy-25.html">x</a></template>
<a href="./">here</a> <a href="#raw-id">raw</a> <img src="{up}pic.svg" srcset="{up}pic.svg 1x" alt="">

[site](https://made-up.example/book/) [other](https://made-up.example/decoy-26/), text[^n] that says Wow!!! decoy-27

[^n]: A note with a [link](a.md).

An array `x[0][1]` and f(x)[decoy-28] (y), http://decoy-29.example/x as text, [unused definition]: none

[decoy-30]: decoy-30.md

    ;--8<-- "decoy-31.md"
"""

PAGES = {
    "docs/index.md": INDEX.lstrip(),
    "docs/decoys.md": DECOYS.lstrip(),
    "docs/a.md": "# A\n\n## Own { #own }\n\n[back](index.md) [d](decoys.md#same_1) [pic](pic.svg) [t](data.csv)\n",
    "docs/sub/index.md": "# Sub\n\nUp [x](../broken-60.md), down [y](broken-61/page.md), [ok](../a.md#own)\n",
    "docs/paren_(x).md": "# Paren\n",
    "docs/spa ce.md": "# Space\n",
    "docs/empty/file.txt": "linked",
    "docs/pic.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "docs/data.csv": "a,b\n",
    "parts/included.md": '## Included\n\nFrom [x](broken-36.md), `[y](decoy-40.md)`\n\n--8<-- "parts/deeper.md:part"\n',
    "parts/deeper.md": "# --8<-- [start:part]\nDeep [x](broken-37.md) and [ok](empty/file.txt)\n# --8<-- [end:part]\n[x](decoy-41.md)\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def render(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(folder / "mkdocs.yml"), "-d", str(folder / "site")],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module", params=[("material", True), ("readthedocs", False)], ids=lambda p: p[0])
def book(request, tmp_path_factory):
    """(folder, findings) of the made-up book under two themes and both kinds of addresses."""
    theme, directories = request.param
    folder = tmp_path_factory.mktemp("book")
    files = PAGES | {"mkdocs.yml": CONFIG.format(theme=theme, directories=str(directories).lower())}
    files["docs/decoys.md"] = files["docs/decoys.md"].replace("{up}", "../" if directories else "")
    write(folder, files)
    site = Site.read(render(folder))
    read = Book.read(folder / "mkdocs.yml")
    assert read.join(site) == 1.0
    return folder, findings(site, read)[1]


def expected() -> dict[str, tuple[str, int]]:
    """Mark → (file, line) of everything broken."""
    marks = {}
    for name, text in PAGES.items():
        for number, line in enumerate(text.splitlines(), 1):
            for mark in re.findall(r"broken-?\d+", line):
                marks[mark] = (name, number)
    return marks


def test_everything_broken_is_found_at_its_line(book):
    folder, found = book
    places = {}
    for finding in found:
        for mark in re.findall(r"broken-?\d+", finding.target + finding.message):
            places.setdefault(mark, set()).add((Path(finding.path).relative_to(folder).as_posix(), finding.line))
    wanted = expected()
    assert len(wanted) >= 54
    assert {mark: places.get(mark) for mark in wanted} == {mark: {place} for mark, place in wanted.items()}


def test_nothing_else_is_reported(book):
    _, found = book
    other = [f for f in found if not re.search(r"broken-?\d+", f.target + f.message)]
    assert {(f.rule, f.target) for f in other} == {("empty-href", "")}
