"""Addresses: what a browser makes of the text of a link, as seen from one page of the site."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

INSIDE, EXTERNAL, OTHER, OUTSIDE, MALFORMED = "inside", "external", "other", "outside", "malformed"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ENDS = "".join(map(chr, range(0x21)))
_BREAKS = str.maketrans("", "", "\t\r\n")
_MISTYPED = re.compile(r"(?!https?$)(?:h{1,2}t{1,4}p{1,3}s{0,2}|ttps?|hhtps?|htps?|http[a-z])$", re.IGNORECASE)


class Address(NamedTuple):
    """Where a link leads.

    `path` (decoded, relative to the site's root, no leading slash) and `fragment` (still encoded, without
    a text fragment) are set when `kind` is INSIDE; `text` says what is wrong, or is the external address.
    """

    kind: str
    path: str = ""
    fragment: str = ""
    text: str = ""
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Home:
    """The public places of the site: host and path, such as ("example.org", "/book/").

    The first one decides what an absolute path means; without any, "/" is the site's root.
    """

    places: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, *site_urls: str) -> "Home":
        places = []
        for url in site_urls:
            try:
                parts = urlsplit(url)
            except ValueError:
                continue
            place = (parts.netloc.lower(), unquote(parts.path.rstrip("/") + "/"))
            if parts.netloc and place not in places:
                places.append(place)
        return cls(tuple(places))

    def inside(self, path: str, host: str | None = None) -> str | None:
        """The path relative to the site's root; None when it lies outside of the site."""
        places = self.places if host is not None else self.places[:1] or (("", "/"),)
        for known, base in places:
            if host is not None and host.lower() != known:
                continue
            if path.startswith(base):
                return path[len(base) :]
            if path == base[:-1]:
                return ""
        return None


def normalised(folder: str, path: str) -> str | None:
    """Join and resolve `.` and `..`; None when the path climbs out of the site's root."""
    parts = folder.split("/")[:-1] if folder else []
    *steps, last = path.split("/")
    for step in steps:
        if step == "..":
            if not parts:
                return None
            parts.pop()
        elif step and step != ".":  # servers and file systems take `//` for `/`
            parts.append(step)
    if last == "..":
        if not parts:
            return None
        parts.pop()
        last = ""
    elif last == ".":
        last = ""
    return "/".join([*parts, last])


def page_path(file: str) -> str:
    """The path under which a file of the site is asked for: `a/index.html` → `a/`."""
    return file[: -len("index.html")] if file == "index.html" or file.endswith("/index.html") else file


def fragment_of(fragment: str) -> str:
    """Strip a text fragment: `part:~:text=words` → `part`.

    Source: URL Fragment Text Directives, https://wicg.github.io/scroll-to-text-fragment/
    """
    return fragment.split(":~:", 1)[0]


def resolve(url: str, page: str, home: Home) -> Address:
    """Where `url` leads from the page whose path is `page` (as `page_path` gives it).

    Follows the URL Standard (https://url.spec.whatwg.org/) where it matters for finding a file: spaces and
    control characters around the address and line breaks in it do not count, `//host` keeps the scheme.
    """
    url = url.strip(_ENDS)
    if not url.isprintable():
        url = url.translate(_BREAKS)
    scheme = _SCHEME.match(url)
    if scheme:
        name = scheme[1].lower()
        if name in ("http", "https"):
            return _absolute(url, home)
        if name == "file" or len(name) == 1:
            return Address(OUTSIDE, text="names a file of one machine")
        if _MISTYPED.match(name):
            return Address(MALFORMED, text=f"the scheme {scheme[1]!r} does not exist")
        return Address(OTHER)
    if url.startswith("//"):
        return _absolute("https:" + url, home)
    rest, _, fragment = url.partition("#")
    fragment = fragment_of(fragment)
    rest, query, _ = rest.partition("?")
    if not rest:
        return Address(INSIDE, page, fragment, relative=bool(query))
    if "\\" in rest:
        return Address(MALFORMED, text="has a backslash where a slash belongs")
    path = unquote(rest) if "%" in rest else rest
    if path.startswith("/"):
        inner = home.inside(path)
        if inner is None:
            return Address(OUTSIDE, text=f"lies outside of {home.places[0][1]}")
        inner, relative = normalised("", inner), False
    else:
        inner, relative = normalised(page, path), True
    if inner is None:
        return Address(OUTSIDE, text="climbs above the site's root")
    return Address(INSIDE, inner, fragment, relative=relative)


@lru_cache(maxsize=65536)
def _absolute(url: str, home: Home) -> Address:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as problem:
        return Address(MALFORMED, text=str(problem))
    if not parts.hostname:
        return Address(MALFORMED, text="names no host")
    inner = home.inside(unquote(parts.path) or "/", parts.netloc)
    inner = None if inner is None else normalised("", inner)
    if inner is None:
        return Address(EXTERNAL, text=url)
    return Address(INSIDE, inner, fragment_of(parts.fragment))
