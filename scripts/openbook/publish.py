"""What is done to a built site before it goes online.

usage: python -m openbook.publish SITE_DIR

Each page gets a Content-Security-Policy: scripts come from the site itself, and the theme's inline
scripts are allowed by their hashes. The offline build is left as it is: its search on file:// needs an
inline worker.
"""

import base64
import hashlib
import sys
from html.parser import HTMLParser
from pathlib import Path

from openbook.findings import Misuse, run

CHARSET = '<meta charset="utf-8">'
MARK = '<meta http-equiv="Content-Security-Policy"'
EXECUTED = {"", "module", "text/javascript"}


class InlineScripts(HTMLParser):
    """Collects the text of scripts that stand in a page and are executed."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self.inside = False

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.inside = tag == "script" and "src" not in attributes and (attributes.get("type") or "") in EXECUTED
        if self.inside:
            self.found.append("")

    def handle_data(self, data):
        if self.inside:
            self.found[-1] += data

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = False


def policy_of(html: str) -> str:
    """The policy for one page, with the SHA-256 of each inline script (CSP Level 3, section 2.3.1)."""
    scripts = InlineScripts()
    scripts.feed(html)
    digests = sorted({hashlib.sha256(text.encode()).digest() for text in scripts.found})
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {hashes}".strip(),
            "style-src 'self' 'unsafe-inline'",  # the theme and MathML set style attributes
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        )
    )


def publish(site: Path) -> int:
    """Put the policy into every page of `site`; return how many pages were changed."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        raise Misuse(f"{site}: no HTML page; build the site first: python -m mkdocs build --strict -d {site}")
    changed = 0
    for page in pages:
        html = page.read_text(encoding="utf-8")
        if MARK in html:
            continue
        if html.count(CHARSET) != 1:
            raise Misuse(f"{page}: expected {CHARSET} once; has the theme changed?")
        page.write_text(html.replace(CHARSET, f'{CHARSET}{MARK} content="{policy_of(html)}">'), encoding="utf-8")
        changed += 1
    return changed


def main(argv=None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise Misuse("usage: python -m openbook.publish SITE_DIR")
    print(f"{publish(Path(arguments[0]))} pages got their policy")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(main))
