"""One question to another site: a GET with limits on time and size, redirects followed by hand."""

import http.client
import io
import re
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from openbook.links.external.guard import Guard, Refused
from openbook.links.external.pace import OutOfTime, Pace
from openbook.links.external.target import Malformed, NotWeb, Target, joined, target_of

AGENT = "Mozilla/5.0 (compatible; openbook-link-check/1.0)"
REDIRECTS = (301, 302, 303, 307, 308)
RETRIED = (429, 500, 502, 503, 504)
KIB = 1024
_COOKIE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[!-:<-~]*")  # RFC 6265, section 4.1.1


@dataclass(frozen=True)
class Limits:
    """Seconds, bytes and counts for one address."""

    connect: float = 5.0
    header: float = 15.0
    body: float = 15.0
    whole: float = 60.0  # with redirects and retries, without waiting for the host's turn
    header_bytes: int = 64 * KIB
    body_bytes: int = 256 * KIB  # enough for the title
    anchor_bytes: int = 4096 * KIB  # some manuals are one page
    redirects: int = 5
    retries: int = 2
    back_off: float = 1.0  # before the first retry; doubles
    longest_wait: float = 30.0  # a longer Retry-After is not waited for


@dataclass(frozen=True)
class Answer:
    """What was heard in the end. `status` is 0 without an answer; then `error` is one of the words below."""

    url: str
    status: int = 0
    hops: tuple[tuple[int, str], ...] = ()  # (status, where it led)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    complete: bool = True
    error: str = ""  # malformed | refused | tls | unreachable
    detail: str = ""
    certain: bool = False  # the error lies in the address, not in the network
    chain_only: bool = False  # the certificate is fine, only its chain is incomplete


class _TooMuch(Exception):
    """More bytes came than this part of an answer may have."""


class _Broken(Exception):
    """The host gave no whole answer; the message is a clause without a subject."""

    def __init__(self, detail: str, again: bool = False):
        super().__init__(detail)
        self.again = again


class _Stream(io.RawIOBase):
    """What a socket receives, until a time and up to a number of bytes that the caller may move."""

    def __init__(self, sock: socket.socket, until: float, most: int):
        self.sock, self.until, self.most = sock, until, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        if self.most <= 0:
            raise _TooMuch
        self.sock.settimeout(_left(self.until))
        count = self.sock.recv_into(memoryview(buffer)[: self.most])
        self.most -= count
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        """What http.client asks a socket for."""
        return io.BufferedReader(self, 16 * KIB)


class Fetcher:
    """Asks through a guard and at a pace. `context` decides which certificates are trusted."""

    def __init__(self, guard: Guard, pace: Pace, limits: Limits | None = None, context: ssl.SSLContext | None = None):
        self.guard, self.pace, self.limits = guard, pace, limits or Limits()
        self.context = context or ssl.create_default_context()
        self.context.set_alpn_protocols(["http/1.1"])

    def get(self, target: Target, anchors: bool = False) -> Answer:
        """The answer, after redirects; more of the page when anchors are wanted.

        OutOfTime when the run ended before it could be had.
        """
        size = self.limits.anchor_bytes if anchors else self.limits.body_bytes
        hops: list[tuple[int, str]] = []
        cookies: dict[str, dict[str, str]] = {}
        spent = 0.0
        while True:
            try:
                own = cookies.setdefault(target.host, {})
                answer, took = self._patiently(target, self.limits.whole - spent, own, size)
                spent += took
                if answer.status not in REDIRECTS or "location" not in answer.headers:
                    return replace(answer, hops=tuple(hops))
                target = self._next(target, answer, hops)
            except Refused as problem:
                detail = f"redirects to {target.url[:200]}, which {problem}" if hops else str(problem)
                certain = target.literal and not hops and not isinstance(problem, _Unsafe)
                return Answer(target.url, hops=tuple(hops), error="refused", detail=detail, certain=certain)
            except ssl.SSLError as problem:
                return replace(_tls(target, problem), hops=tuple(hops))
            except _Broken as problem:
                detail = f"leads to {target.url[:200]}, which {problem}" if hops else str(problem)
                return Answer(target.url, hops=tuple(hops), error="unreachable", detail=detail)

    def _next(self, target: Target, answer: Answer, hops: list[tuple[int, str]]) -> Target:
        location = answer.headers["location"]
        try:
            url = joined(target, location)
            following = target_of(url)
        except NotWeb as problem:
            raise _Unsafe(f"redirects to {location[:200]}, which {problem}") from problem
        except Malformed as problem:
            raise _Broken(f"redirects to {location[:200]!r}, which {problem}") from problem
        hops.append((answer.status, url.partition("#")[0]))
        if len(hops) > self.limits.redirects:
            if len(set(hops)) < len(hops):
                raise _Broken("redirects in a circle")
            raise _Broken(f"redirects more than {self.limits.redirects} times")
        return following

    def _patiently(self, target: Target, seconds: float, cookies: dict[str, str], size: int) -> tuple[Answer, float]:
        """Ask, and again after a short wait when the host had a bad moment; also the time that asking took."""
        host, spent = target.host, 0.0
        for attempt in range(self.limits.retries + 1):
            last = attempt == self.limits.retries
            wait = self.limits.back_off * 2**attempt
            with self.pace.turn(host):
                if self.pace.is_limiting(host):
                    return Answer(target.url, 429, detail="was not asked: the host refuses further requests"), spent
                began = time.monotonic()
                until = min(began + seconds - spent, self.pace.end)
                if until <= began:
                    raise _Broken(f"took more than {self.limits.whole:g} s in all")
                try:
                    answer = self._once(target, until, cookies, size)
                except _Broken as problem:
                    if self.pace.left <= 0:
                        raise OutOfTime from problem
                    if last or attempt or not problem.again:
                        raise
                    answer = None
                spent += time.monotonic() - began
            if answer is not None and answer.status not in RETRIED:
                return answer, spent
            if answer is not None:
                wanted = retry_after(answer.headers.get("retry-after", ""))
                wait = wait if wanted is None else wanted
                if last or wait > self.limits.longest_wait or "cf-mitigated" in answer.headers:
                    if answer.status == 429:
                        self.pace.limit(host)
                    return answer, spent
                self.pace.hold(host, wait)
            self.pace.wait(wait)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, target: Target, until: float, cookies: dict[str, str], size: int) -> Answer:
        limits = self.limits
        sock = self._connected(target, until)
        try:
            stream = _Stream(sock, min(until, time.monotonic() + limits.header), limits.header_bytes)
            try:
                sock.settimeout(_left(stream.until))
                sock.sendall(_request(target, cookies))
                response = http.client.HTTPResponse(stream, method="GET")
                response.begin()
            except TimeoutError as problem:
                raise _Broken(f"sent no answer within {limits.header:g} s") from problem
            except _TooMuch as problem:
                raise _Broken("sends headers without end") from problem
            except (http.client.HTTPException, OSError, ValueError) as problem:
                raise _Broken(f"gave no answer: {_short(problem)}", again=True) from problem
            headers = {name.lower(): value for name, value in reversed(response.getheaders())}
            _remember(cookies, response.headers.get_all("set-cookie") or [])
            answer = Answer(target.url, response.status, headers=headers)
            if response.status in REDIRECTS and "location" in headers:
                return answer
            stream.until = min(until, time.monotonic() + limits.body)
            stream.most = size + limits.header_bytes
            body, complete = self._body(response, headers, size)
            return replace(answer, body=body, complete=complete)
        finally:
            sock.close()

    def _connected(self, target: Target, until: float) -> socket.socket:
        end = min(until, time.monotonic() + self.limits.connect)
        try:
            sock = self.guard.connect(target.host, target.port, _left(end))
        except TimeoutError as problem:
            raise _Broken(f"did not take a connection within {self.limits.connect:g} s") from problem
        except socket.gaierror as problem:
            again = problem.errno == socket.EAI_AGAIN
            raise _Broken(f"has a host name that is not found: {_short(problem)}", again=again) from problem
        except OSError as problem:
            raise _Broken(f"cannot be reached: {_short(problem)}", again=True) from problem
        if target.scheme == "http":
            return sock
        try:
            sock.settimeout(max(_left(end), 0.001))
            return self.context.wrap_socket(sock, server_hostname=target.host.removesuffix("."))
        except TimeoutError as problem:
            sock.close()
            raise _Broken(f"did not finish the TLS handshake within {self.limits.connect:g} s") from problem
        except (OSError, ValueError) as problem:
            sock.close()
            if isinstance(problem, ssl.SSLError) and not isinstance(problem, ssl.SSLEOFError):
                raise
            raise _Broken(f"broke off the TLS handshake: {_short(problem)}", again=True) from problem

    def _body(self, response: http.client.HTTPResponse, headers: Mapping[str, str], most: int) -> tuple[bytes, bool]:
        """(the start of a page, whether that is all of it). Other kinds of files are not read."""
        kind = headers.get("content-type", "text/html").lower()
        if "html" not in kind:
            return b"", False
        unpack = zlib.decompressobj(47) if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip") else None
        announced, received = response.length, 0
        body = bytearray()
        try:
            while len(body) < most:
                part = response.read1(64 * KIB if announced is None else min(64 * KIB, announced - received))
                received += len(part)
                body += unpack.decompress(part, most - len(body)) if unpack else part
                if not part or received == announced:
                    break
            else:
                return bytes(body[:most]), False
        except TimeoutError as problem:
            if len(body) < 16 * KIB:
                raise _Broken(f"sends its page too slowly: {received} bytes in {self.limits.body:g} s") from problem
            return bytes(body), False
        except _TooMuch:
            return bytes(body), False
        except zlib.error as problem:
            raise _Broken(f"sends a page that cannot be unpacked: {problem}") from problem
        except (http.client.HTTPException, OSError, ValueError) as problem:
            raise _Broken(f"broke off after {received} bytes of its page", again=True) from problem
        if announced is not None and received < announced:
            raise _Broken(f"broke off after {received} of {announced} bytes of its page", again=True)
        return bytes(body), True


class _Unsafe(Refused):
    """A redirect that leaves the web."""


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _request(target: Target, cookies: Mapping[str, str]) -> bytes:
    lines = [
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        f"User-Agent: {AGENT}",
        "Accept: text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Language: en",
        "Accept-Encoding: gzip",
        "Connection: close",
    ]
    if cookies:
        lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items()))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _remember(cookies: dict[str, str], lines: list[str]) -> None:
    """Some publishers redirect for ever until their cookie comes back."""
    for line in lines[:20]:
        if (pair := _COOKIE.match(line)) and len(pair[0]) < 4 * KIB:
            name, _, value = pair[0].partition("=")
            cookies[name] = value


def retry_after(value: str) -> float | None:
    """Seconds that a Retry-After header asks for: a number or a date (RFC 9110, section 10.2.3)."""
    value = value.strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _tls(target: Target, problem: ssl.SSLError) -> Answer:
    # OpenSSL's X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, …_TO_VERIFY_LEAF_SIGNATURE
    chain = getattr(problem, "verify_code", 0) in (20, 21)
    said = getattr(problem, "verify_message", "") or _short(problem)
    detail = f"has a certificate that is not accepted: {said}" if "verify" in str(problem) else f"fails in TLS: {said}"
    return Answer(target.url, error="tls", detail=detail, chain_only=chain)


def _short(problem: Exception) -> str:
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return re.sub(r"\s*\(_ssl\.c:\d+\)", "", text)[:160]
