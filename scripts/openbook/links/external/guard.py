"""Connections to public hosts only.

A book is read by strangers and checked by machines inside of somebody's network, so a link, a redirect or a name
server must not lead the checker to that network. Each connection resolves its name once, every address that came
back is judged, and the socket is opened to one of those very addresses: a name that resolves differently the
second time gains nothing.
"""

import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from openbook.links.external.target import is_ip

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Iterable[str]]

_UNICAST = ipaddress.ip_network("2000::/3")  # all that IANA has given out for the public
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.88.99.0/24",  # 6to4 relays, RFC 7526
            "168.63.129.16/32",  # the host of an Azure machine, as its guests see it
            "3fff::/20",  # documentation, RFC 9637
        ),
    )
)


class Refused(Exception):
    """The name leads to an address that is not public; the message is a clause without a subject."""


def is_public(address: Address) -> bool:
    """Whether the address is one of the public network, and holds none that is not."""
    if any(address.version == network.version and address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _UNICAST and address.is_global and all(map(is_public, _embedded(address)))


def _embedded(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """IPv4 addresses that a relay would take out: 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214)."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFCFFFFFF == 0x00005EFE:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def system_resolver(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


@dataclass(frozen=True)
class Guard:
    """`allowed` are networks that may be reached although they are not public; empty on the open web."""

    allowed: tuple[Network, ...] = ()
    resolve: Resolve = field(default=system_resolver)

    def addresses(self, host: str, port: int, seconds: float) -> list[Address]:
        """Where the host is. Refused when any of its addresses is not public, OSError when it has none."""
        texts = [host] if is_ip(host) else _within(seconds, self.resolve, host, port)
        found = list(dict.fromkeys(ipaddress.ip_address(text) for text in texts))
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        for address in found:
            if not self._may(address):
                how = "names" if is_ip(host) else f"is on a host, {host}, with the address"
                raise Refused(f"{how} {address}, which is no public address")
        return sorted(found, key=lambda address: address.version)  # IPv4 is the one that every machine has

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        """A connection to one of the addresses that were judged; the time is for all of them together."""
        end = time.monotonic() + seconds
        failure: OSError = TimeoutError("timed out")
        found = self.addresses(host, port, seconds)
        for number, address in enumerate(found):
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection((str(address), port), timeout=left / (len(found) - number))
            except OSError as problem:
                failure = problem
        raise failure

    def _may(self, address: Address) -> bool:
        plain = getattr(address, "ipv4_mapped", None) or address
        return is_public(address) or any(
            plain.version == network.version and plain in network for network in self.allowed
        )


def _within(seconds: float, resolve: Resolve, host: str, port: int) -> Iterable[str]:
    """Ask the name server in a thread of its own, since the system's call knows no time limit."""
    answer: queue.SimpleQueue = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(list(resolve(host, port)))
        except Exception as problem:
            answer.put(problem)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = answer.get(timeout=max(seconds, 0.001))
    except queue.Empty:
        raise TimeoutError("the name server did not answer") from None
    if isinstance(found, UnicodeError):
        raise socket.gaierror(socket.EAI_NONAME, str(found)) from found
    if isinstance(found, Exception):
        raise found
    return found
