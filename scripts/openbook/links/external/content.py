"""What a page of another site says about itself: title, first heading, anchors, whether scripts build it."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from openbook.findings import Misuse

try:
    from selectolax.lexbor import LexborHTMLParser
except ImportError as missing:
    raise Misuse("selectolax is missing: pip install selectolax==1.0.2") from missing

FOUND, MISSING, UNKNOWN = "found", "missing", "unknown"

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_APPLICATION = "#root, #app, #__next, #__nuxt, #___gatsby, app-root, [data-reactroot], [ng-version]"


@dataclass(frozen=True)
class Content:
    title: str = ""
    heading: str = ""
    anchors: frozenset[str] = frozenset()
    scripted: bool = False  # scripts may add anchors that the text does not hold

    def anchor(self, fragment: str) -> str:
        """Whether the page has the anchor. Sites that show Markdown often put `user-content-` before it."""
        wanted = {fragment, unquote(fragment)}
        wanted |= {f"user-content-{name}" for name in wanted}
        if wanted & self.anchors or fragment.lower() == "top":
            return FOUND
        return UNKNOWN if self.scripted else MISSING


def read(body: bytes, content_type: str = "", complete: bool = True) -> Content:
    """Parse (the start of) a page."""
    tree = LexborHTMLParser(_text(body, content_type))
    ids = {node.attributes.get("id") for node in tree.css("[id]")}
    names = {node.attributes.get("name") for node in tree.css("a[name]")}
    has_scripts = tree.css_first("script") is not None
    words = len((tree.body.text(separator=" ") if tree.body else "").split()) if has_scripts else 0
    built = tree.css_first(_APPLICATION) is not None or len(ids) < 3 or words < 100
    anchors = frozenset(name for name in ids | names if name)
    return Content(_said(tree, "title"), _said(tree, "h1"), anchors, not complete or (has_scripts and built))


def _text(body: bytes, content_type: str) -> str:
    named = _CHARSET.search(content_type) or _CHARSET.search(body[:1024].decode("latin-1"))
    try:
        return body.decode(named[1] if named else "utf-8", "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _said(tree: LexborHTMLParser, element: str) -> str:
    node = tree.css_first(element)
    return " ".join(node.text().split())[:300] if node is not None else ""
