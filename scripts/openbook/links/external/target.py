"""One address of the web, taken apart as a browser does: what to connect to, and what to ask for."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import quote, unquote, urljoin, urlsplit

LONGEST = 8192  # characters; servers commonly refuse a longer request line
PORTS = {"http": 80, "https": 443}
_BREAKS = str.maketrans("", "", "\t\r\n")
_ENDS = "".join(map(chr, range(0x21)))
_FORBIDDEN = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")  # URL Standard, "forbidden domain code point"
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\Z")
_PATH, _QUERY = "/%:@!$&'()*+,;=~-._", "/%:@!$&'()*+,;=~-._?"


class Malformed(Exception):
    """No browser can follow the address; the message is a clause without a subject."""


class NotWeb(Malformed):
    """The address belongs to another scheme than http and https."""


@dataclass(frozen=True)
class Target:
    """`host` is a name in ASCII or an IP address in its usual notation, without brackets."""

    scheme: str
    host: str
    port: int
    path: str  # what the request line asks for: path and query

    @property
    def authority(self) -> str:
        """Host and port as the Host header wants them (RFC 9110, section 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def literal(self) -> bool:
        """Whether the address itself says where it leads, without asking a name server."""
        return is_ip(self.host) or self.host.rstrip(".").split(".")[-1] == "localhost"


def target_of(url: str) -> Target:
    """Read an address. Source: https://url.spec.whatwg.org/#host-parsing"""
    url = clean(url)
    if len(url) > LONGEST:
        raise Malformed(f"is {len(url)} characters long")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise Malformed(f"is malformed: {problem}") from problem
    if parts.scheme not in PORTS:
        raise NotWeb(f"is no web address: its scheme is {parts.scheme or 'missing'}")
    if "\\" in parts.netloc + parts.path:
        raise Malformed("has a backslash where a slash belongs")
    if "@" in parts.netloc:
        raise Malformed("names a user before the host: browsers warn of such addresses")
    if "]" in parts.netloc and not re.fullmatch(r"\[[^\]]*\](:\d*)?", parts.netloc):
        raise Malformed("has characters after the brackets of its host")
    if port == 0:
        raise Malformed("names port 0")
    host = _host(parts.hostname or "")
    path = quote(parts.path or "/", safe=_PATH) + (f"?{quote(parts.query, safe=_QUERY)}" if parts.query else "")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], path)


def clean(url: str) -> str:
    """Without the spaces and line breaks that browsers drop; `//host` gets the scheme that the site has."""
    url = url.strip(_ENDS).translate(_BREAKS)
    return "https:" + url if url.startswith("//") else url


def joined(base: Target, location: str) -> str:
    """The address that a Location header means; Malformed when it means none."""
    try:
        return urljoin(base.url, clean(location))
    except ValueError as problem:
        raise Malformed(f"is malformed: {problem}") from problem


def is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(host: str) -> str:
    if ":" in host:
        if not is_ip(host) or "%" in host:
            raise Malformed(f"names a host that is no IPv6 address: {host[:60]}")
        return str(ipaddress.ip_address(host))
    try:
        host = unquote(host, errors="strict").encode("idna").decode("ascii").lower()
    except UnicodeError as problem:
        raise Malformed(f"names a host that cannot exist: {host[:60]!r}") from problem
    if not host.strip("."):
        raise Malformed("names no host")
    if _FORBIDDEN.search(host):
        raise Malformed(f"names a host that cannot exist: {host[:60]!r}")
    labels = host.removesuffix(".").split(".")
    if not _NUMBER.match(labels[-1]):
        return host
    # decimal, octal and hexadecimal notations, as in http://2130706433/ or http://0x7f.1/
    if len(labels) > 4 or not all(map(_NUMBER.match, labels)):
        raise Malformed(f"names a host that is no IPv4 address: {host[:60]}")
    try:
        return socket.inet_ntoa(socket.inet_aton(".".join("0" if label == "0x" else label for label in labels)))
    except OSError as problem:
        raise Malformed(f"names a host that is no IPv4 address: {host[:60]}") from problem
