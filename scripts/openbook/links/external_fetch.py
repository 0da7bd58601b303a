"""Ask other sites, politely and without harm: one at a time for each host, little data, no private addresses."""

import ipaddress
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin, urlsplit

from openbook.findings import Misuse
from openbook.links.external_policy import Answer

try:
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
except ImportError as missing:
    raise Misuse("urllib3 is missing: pip install urllib3==2.8.0") from missing

MIB = 2**20
AGENT = "Mozilla/5.0 (compatible; openbook-link-check/1.0)"
RETRIED = frozenset((429, 500, 502, 503, 504))


class PrivateAddress(Exception):
    """The name leads to an address that is not public."""


def _public(connection: HTTPConnection) -> None:
    """Look at the address that was really connected to: a name may resolve differently the second time."""
    peer = connection.sock.getpeername()[0] if connection.sock else ""
    if not ipaddress.ip_address(peer.partition("%")[0]).is_global:
        connection.close()
        raise PrivateAddress(f"{connection.host} leads to {peer}, which is no public address")


class _PublicHTTP(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _public(self)


class _PublicHTTPS(HTTPSConnection):
    def _new_conn(self):
        sock = super()._new_conn()  # before TLS, so that a private host is told nothing
        if not ipaddress.ip_address(sock.getpeername()[0].partition("%")[0]).is_global:
            sock.close()
            raise PrivateAddress(f"{self.host} leads to an address that is not public")
        return sock


class _PublicHTTPPool(HTTPConnectionPool):
    ConnectionCls = _PublicHTTP


class _PublicHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _PublicHTTPS


@dataclass
class Fetcher:
    """Limits in seconds and bytes. `private` allows loopback, for tests only."""

    spacing: float = 1.0
    connect: float = 5.0
    read: float = 15.0
    each: float = 60.0
    total: float = 1500.0
    retries: int = 2
    backoff: float = 1.0
    longest_wait: float = 30.0
    redirects: int = 5
    size: int = MIB
    workers: int = 16
    private: bool = False

    def __post_init__(self):
        self._pool = urllib3.PoolManager(num_pools=64, maxsize=1, retries=False, headers={"User-Agent": AGENT})
        if not self.private:
            self._pool.pool_classes_by_scheme = {"http": _PublicHTTPPool, "https": _PublicHTTPSPool}

    def all(self, urls: Iterable[str], heard: Callable[[str, Answer], None]) -> list[str]:
        """Ask for each address (without fragments) and call `heard`; return what time did not allow."""
        hosts: dict[str, list[str]] = {}
        for url in sorted({urldefrag(url)[0] for url in urls}):
            hosts.setdefault(urlsplit(url).netloc.lower(), []).append(url)
        end, lock, left = time.monotonic() + self.total, threading.Lock(), []

        def visit(mine: list[str]) -> None:
            for number, url in enumerate(mine):
                if time.monotonic() >= end:
                    with lock:
                        left.extend(mine[number:])
                    return
                if number:
                    time.sleep(self.spacing)
                answer = self.get(url)
                with lock:
                    heard(url, answer)

        longest_first = sorted(hosts.values(), key=len, reverse=True)
        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(visit, longest_first))
        return left

    def get(self, url: str) -> Answer:
        """Follow redirects by hand, so that each target is looked at and recorded."""
        hops: list[tuple[int, str]] = []
        start, end = url, time.monotonic() + self.each
        try:
            while True:
                answer, location = self._once(url, tuple(hops), end)
                if not location:
                    return answer
                target = urldefrag(urljoin(url, location))[0]
                if urlsplit(target).scheme not in ("http", "https"):
                    return Answer(
                        answer.status, url, tuple(hops), error="refused", detail=f"redirects to {target[:100]}"
                    )
                hops.append((answer.status, target))
                if len(hops) > self.redirects:
                    return Answer(0, url, tuple(hops), error="unreachable", detail="redirects in a circle or too often")
                url = target
        except PrivateAddress as problem:
            return Answer(0, url, tuple(hops), error="refused", detail=str(problem))
        except (urllib3.exceptions.SSLError, ssl.SSLError) as problem:
            return Answer(0, url, tuple(hops), error="tls", detail=f"has a certificate problem: {_short(problem)}")
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as problem:
            return Answer(0, start, tuple(hops), error="unreachable", detail=f"cannot be reached: {_short(problem)}")

    def _once(self, url: str, hops: tuple[tuple[int, str], ...], end: float) -> tuple[Answer, str]:
        timeout = urllib3.Timeout(connect=self.connect, read=self.read)
        for attempt in range(self.retries + 1):
            response = self._pool.request("GET", url, timeout=timeout, redirect=False, preload_content=False)
            try:
                wait = _retry_after(response.headers.get("Retry-After"), self.backoff * 2**attempt)
                again = response.status in RETRIED and attempt < self.retries
                if again and wait <= self.longest_wait and time.monotonic() + wait < end:
                    response.close()
                    time.sleep(wait)
                    continue
                location = response.headers.get("Location", "") if response.status in (301, 302, 303, 307, 308) else ""
                body = b"" if location else self._body(response, end)
                headers = {name.lower(): value for name, value in response.headers.items()}
                text = body.decode("utf-8", "replace")
                return Answer(response.status, url, hops, headers, text), location
            finally:
                response.close()
        raise AssertionError("the last attempt returns")

    def _body(self, response: urllib3.BaseHTTPResponse, end: float) -> bytes:
        if "html" not in response.headers.get("Content-Type", "html"):
            return b""
        body = bytearray()
        for part in response.stream(65536):
            body += part
            if len(body) >= self.size or time.monotonic() >= end:
                break
        return bytes(body[: self.size])


def _retry_after(value: str | None, default: float) -> float:
    return float(value) if value and value.strip().isdigit() else float(default)


def _short(problem: Exception) -> str:
    text = str(getattr(problem, "reason", None) or problem)
    return text.partition("): ")[2][:120] or text[:120]
