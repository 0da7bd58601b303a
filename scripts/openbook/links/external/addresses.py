"""The addresses of other sites that the pages link to, each once, with every place that uses it."""

import re
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from openbook.links.address import fragment_of
from openbook.links.book import Book
from openbook.links.check import Result, external_links
from openbook.links.external.target import Malformed, Target, clean, target_of
from openbook.links.page import Link

_RESERVED = re.compile(r"(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid)\.?\Z")  # RFC 2606
_CODE_HOSTS = re.compile(r"(?:^|\.)(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)\Z")
_LINES = re.compile(r"(?:L\d+(?:C\d+)?(?:-L?\d+(?:C\d+)?)?|lines-\d+(?::\d+)?)\Z")
_BRANCH = re.compile(r"/(?:blob|blame|src|src/branch)/(?:main|master|develop|trunk|HEAD)/")
_FORMS = ("form", "button", "input")


@dataclass
class Address:
    """`url` is what is remembered: without text fragments and lines of code, with the anchor to look for."""

    url: str
    target: Target | None  # None when the address is malformed
    malformed: str = ""
    uses: list[tuple[str, Link]] = field(default_factory=list)
    unpinned: bool = False

    @property
    def fragment(self) -> str:
        return self.url.partition("#")[2]


def collect(result: Result, book: Book | None) -> dict[str, Address]:
    """All addresses that are worth asking for. Reserved names lead nowhere; "edit this page" is made by the theme."""
    edit = _edit_place(book)
    found: dict[str, Address] = {}
    for written, uses in external_links(result).items():
        uses = [(page, link) for page, link in uses if _is_asked(link)]
        whole = clean(written)
        if not uses or (edit and whole.startswith(edit)) or _RESERVED.search(_host(whole)):
            continue
        url, unpinned = _without_places(whole)
        if url not in found:
            found[url] = _address(url)
        found[url].uses += uses
        found[url].unpinned |= unpinned
    return found


def _address(url: str) -> Address:
    try:
        return Address(url, target_of(url))
    except Malformed as problem:
        return Address(url, None, str(problem))


def _is_asked(link: Link) -> bool:
    """A form wants to be sent, not read; `<link href="https://host">` only prepares a connection."""
    return link.element not in _FORMS and not (link.element == "link" and urlsplit(link.url).path in ("", "/"))


def _without_places(url: str) -> tuple[str, bool]:
    """(the address without what is no anchor, whether it names lines of a branch that moves on)."""
    plain, _, fragment = url.partition("#")
    fragment = fragment_of(fragment)
    if _LINES.match(fragment) and _CODE_HOSTS.search(_host(url)):
        return plain, bool(_BRANCH.search(urlsplit(plain).path))
    if not fragment or "=" in fragment or fragment.startswith(("!", "/")):  # #page=3, #!/route, #/route
        return plain, False
    return f"{plain}#{fragment}", False


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _edit_place(book: Book | None) -> str:
    """The start of the addresses that MkDocs makes from `repo_url` and `edit_uri`."""
    settings = book.settings if book is not None else {}
    repository, edit = settings.get("repo_url"), settings.get("edit_uri")
    if not isinstance(edit, str) or not edit:
        return ""
    return urljoin(repository.rstrip("/") + "/", edit) if isinstance(repository, str) else edit
