"""Every way in which a site can misbehave, with its verdict, the number of requests, and the time it may take."""

import gzip
import socket
import struct
import time
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache

import pytest

FINE = "<title>Fine</title><h1 id='part'>Fine</h1>"


def drip(start, piece, count=100, pause=0.05):
    """Sends a piece at a time, each well within any limit on a single read."""

    def page(connection, _):
        connection.sendall(start)
        for _ in range(count):
            connection.sendall(piece)
            time.sleep(pause)

    return page


def flood(start, piece):
    def page(connection, _):
        connection.sendall(start)
        while True:
            connection.sendall(piece)

    return page


def silent(connection, _):
    time.sleep(1.5)


def reset(connection, _):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def first(bad, good):
    return lambda connection, number: bad if number == 1 else good


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@cache
def bomb():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(bytes(2**20)) for _ in range(64)] + [packer.flush()])


def faults(say):
    packed = gzip.compress(FINE.encode())
    gone = say(404, "<title>Fine</title>")
    soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    return {
        # path: (what the server does, verdict, requests)
        "fine": (say(text=FINE), "ok", 1),
        "no-length": (HEAD + b"\r\n" + FINE.encode(), "ok", 1),
        "empty": (say(), "ok", 1),
        "204": (say(204), "ok", 1),
        "pdf": (flood(HEAD.replace(b"text/html", b"application/pdf") + b"\r\n", bytes(65536)), "ok", 1),
        "404": (gone, "gone", 1),
        "410": (say(410), "gone", 1),
        "400": (say(400), "unreachable", 1),
        "500": (say(500), "unreachable", 3),
        "503-once": (first(say(503), say(text=FINE)), "ok", 2),
        "503-retry-after": (first(say(503, Retry_After="0"), say(text=FINE)), "ok", 2),
        "304": (say(304), "unreachable", 1),
        "redirect-nowhere": (say(302), "unreachable", 1),
        # too many requests
        "429-once": (first(say(429, Retry_After="0"), say(text=FINE)), "ok", 2),
        "429-for-ever": (say(429, Retry_After="0"), "rate-limited", 3),
        "429-long": (say(429, Retry_After="3600"), "rate-limited", 1),
        "429-date": (say(429, Retry_After=soon), "rate-limited", 1),
        "429-nonsense": (say(429, Retry_After="soon"), "rate-limited", 3),
        # walls
        "401": (say(401), "blocked", 1),
        "403": (say(403), "blocked", 1),
        "451": (say(451), "blocked", 1),
        "999": (say(999), "blocked", 1),
        "cloudflare": (say(403, "<title>Just a moment...</title>", cf_mitigated="challenge"), "blocked", 1),
        "cloudflare-429": (say(429, cf_mitigated="challenge"), "blocked", 1),
        "cloudflare-503": (say(503, "<title>Just a moment...</title>"), "blocked", 3),
        "anubis": (say(200, "<title>Making sure you&#39;re not a bot!</title>"), "blocked", 1),
        "waf": (say(202, x_amzn_waf_action="challenge"), "blocked", 1),
        "challenge": (say(200, "<title>Just a moment...</title>"), "suspicious", 1),
        "softly": (say(200, "<title>Page not found | Docs</title>"), "suspicious", 1),
        "softly-in-a-heading": (say(200, "<title>Docs</title><h1>Oops! <b>404</b></h1>"), "suspicious", 1),
        # redirects
        "moved": (say(301, Location="/fine"), "moved", 1),
        "moved-308": (say(308, Location="/fine"), "moved", 1),
        "found": (say(302, Location="/fine"), "ok", 1),
        "found-307": (say(307, Location="fine"), "ok", 1),
        "moved-then-gone": (say(301, Location="/404"), "gone", 1),
        "loop": (say(302, Location="/loop"), "unreachable", 6),
        "to-the-start": (say(301, Location="/"), "suspicious", 1),
        "log-in": (say(302, Location="/login?next=log-in"), "blocked", 1),
        "file": (say(302, Location="file:///etc/passwd"), "refused", 1),
        "gopher": (say(302, Location="gopher://127.0.0.1:70/x"), "refused", 1),
        "javascript": (say(302, Location="javascript:alert(1)"), "refused", 1),
        "private": (say(302, Location="http://10.1.2.3/"), "refused", 1),
        "metadata": (say(302, Location="//169.254.169.254/latest/meta-data/"), "refused", 1),
        "private-octal": (say(301, Location="http://012.1/"), "refused", 1),
        "private-mapped": (say(302, Location="http://[::ffff:192.168.0.1]/"), "refused", 1),
        "user": (say(302, Location="http://fine.test@10.0.0.1/"), "unreachable", 1),
        "malformed": (say(302, Location="http://[::1"), "unreachable", 1),
        # answers that are no answers
        "silent": (silent, "unreachable", 1),
        "closed": (lambda connection, _: b"", "unreachable", 2),
        "reset": (reset, "unreachable", 2),
        "reset-once": (first(b"", say(text=FINE)), "ok", 2),
        "no-http": (b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable", 2),
        "half-status": (b"HTTP/1.1", "unreachable", 2),
        "slow-headers": (drip(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), "unreachable", 1),
        "slow-status": (drip(b"", b"H"), "unreachable", 1),
        "endless-headers": (flood(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 50), "unreachable", None),
        "long-header": (flood(b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * 4096), "unreachable", 1),
        "endless-continue": (flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "unreachable", 1),
        # bodies
        "slow-body": (drip(HEAD + b"Content-Length: 5000\r\n\r\n", b"x"), "unreachable", 1),
        "slow-chunks": (drip(CHUNKED, b"1\r\nx\r\n"), "unreachable", 1),
        "endless": (flood(HEAD + b"\r\n" + FINE.encode(), b"x" * 65536), "ok", 1),
        "endless-chunks": (flood(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n"), "ok", 1),
        "endless-trailer": (flood(CHUNKED + b"0\r\n", b"X-A: b\r\n"), "ok", 1),
        "long": (say(text=FINE + "x" * 300_000), "ok", 1),
        "length-too-big": (say(text=FINE, Content_Length=5000), "unreachable", 2),
        "length-too-small": (say(text=FINE, Content_Length=10), "ok", 1),
        "length-negative": (say(text=FINE, Content_Length=-5), "ok", 1),
        "length-nonsense": (say(text=FINE, Content_Length="many"), "ok", 1),
        "chunk-nonsense": (CHUNKED + b"zz\r\nxx\r\n", "unreachable", 2),
        "chunk-cut": (CHUNKED + b"ff\r\nxx", "unreachable", 2),
        "gzip": (say(text=packed, Content_Encoding="gzip"), "ok", 1),
        "gzip-bomb": (say(text=bomb(), Content_Encoding="gzip"), "ok", 1),
        "gzip-broken": (say(text=b"no gzip", Content_Encoding="gzip"), "unreachable", 1),
        "other-encoding": (say(text=b"\x00\xff", Content_Encoding="br"), "ok", 1),
    }


@pytest.fixture
def table(say):
    return faults(say)


@pytest.mark.parametrize("name", list(faults(lambda *_, **__: b"")))
def test_each_fault_has_its_verdict(web, ask, table, say, name):
    web.pages = {f"/{path}": page for path, (page, _, _) in table.items()}
    web.pages |= {"/": say(text="<title>Home</title>"), "/login?next=log-in": say(text="<title>Log in</title>")}
    _, kind, requests = table[name]
    began = time.monotonic()
    verdict = ask(f"{web.url}/{name}")
    assert verdict.kind == kind, verdict
    assert requests is None or web.requests[f"/{name}"] == requests
    assert time.monotonic() - began < 1.5
    assert kind == "ok" or verdict.detail


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("moved", "/fine"),
        ("loop", "in a circle"),
        ("private", "http://10.1.2.3/, which names 10.1.2.3"),
        ("file", "file:///etc/passwd"),
        ("moved-then-gone", "/404, which answers 404"),
        ("length-too-big", "of 5000 bytes"),
        ("slow-body", "too slowly"),
        ("silent", "no answer within 0.4 s"),
        ("endless-continue", "headers without end"),
        ("log-in", "a log-in page"),
    ],
)
def test_the_verdict_says_what_happened(web, ask, table, say, name, says):
    web.pages = {f"/{path}": page for path, (page, _, _) in table.items()}
    web.pages["/login?next=log-in"] = say(text="x")
    verdict = ask(f"{web.url}/{name}")
    assert says in verdict.detail
    assert not verdict.certain  # the site may behave tomorrow


def test_only_so_many_bytes_are_taken(web, ask):
    sent = []

    def page(connection, _):
        connection.sendall(HEAD + b"\r\n")
        while True:
            sent.append(connection.send(b"x" * 4096))

    web.pages["/"] = page
    assert ask(web.url).kind == "ok"
    time.sleep(0.1)
    assert sum(sent) < 8_000_000  # 64 KiB were read; the rest lies in the buffers of the system


def test_more_is_read_when_an_anchor_is_wanted(web, ask, say):
    web.pages["/"] = say(text="<p>" + "x " * 100_000 + "<p id=late>" + "x " * 100_000 + "<p id=too-late>")
    assert ask(web.url, "late").kind == "ok"
    assert ask(web.url, "too-late").kind == "anchor-unverifiable"


def test_a_bomb_is_not_unpacked(web, ask, say):
    web.pages["/"] = say(text=bomb(), Content_Encoding="gzip")
    tracemalloc.start()
    assert ask(web.url).kind == "ok"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20  # of 64 MiB


def test_nothing_listens(ask):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    verdict = ask(f"http://127.0.0.1:{port}/")
    assert verdict.kind == "unreachable"
    assert "refused" in verdict.detail
    assert verdict.counts


def test_nobody_accepts(ask):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(place)
        began = time.monotonic()
        verdict = ask(f"http://127.0.0.1:{place[1]}/")
        assert time.monotonic() - began < 1.5
        assert verdict.kind == "unreachable"
        assert "did not take a connection within 0.5 s" in verdict.detail
        for each in waiting:
            each.close()


def test_names_that_do_not_resolve(ask):
    def nowhere(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    verdict = ask("http://no.test/", resolve=nowhere)
    assert verdict.kind == "unreachable"
    assert "not found" in verdict.detail
    assert ask("http://no.test/", resolve=lambda *_: []).kind == "unreachable"
    began = time.monotonic()
    verdict = ask("http://slow.test/", resolve=lambda *_: time.sleep(5))
    assert verdict.kind == "unreachable"
    assert time.monotonic() - began < 1.5


def test_a_cookie_ends_a_loop(web, ask, say):
    def page(connection, number):
        if "Cookie: seen=1" in web.heads[-1]:
            return say(text=FINE)
        return say(302, Location="/page", Set_Cookie="seen=1; Path=/")

    web.pages["/page"] = page
    assert ask(f"{web.url}/page").kind == "ok"
    assert web.requests["/page"] == 2


def test_a_cookie_stays_with_its_host(web, ask, say):
    web.pages["/a"] = say(302, Location=f"http://other.test:{web.port}/b", Set_Cookie="secret=1")
    web.pages["/b"] = say(text=FINE)
    assert ask(f"http://one.test:{web.port}/a", names=("one.test", "other.test")).kind == "ok"
    assert "secret" not in web.heads[-1]


def test_the_request_names_the_checker_and_nothing_secret(web, ask, say):
    web.pages["/a%20b/%C3%BC?q=%C3%BC&x=%41"] = say(text=FINE)
    assert ask(f"http://höst.test:{web.port}/a b/ü?q=ü&x=%41", names=("xn--hst-sna.test",)).kind == "ok"
    head = web.heads[0]
    assert head.startswith("GET /a%20b/%C3%BC?q=%C3%BC&x=%41 HTTP/1.1\r\n")
    assert f"Host: xn--hst-sna.test:{web.port}\r\n" in head
    assert "openbook-link-check" in head
    assert not {"authorization", "cookie", "referer"} & {line.partition(":")[0].lower() for line in head.split("\r\n")}


def test_the_whole_has_a_limit(web, ask):
    from dataclasses import replace

    from openbook.links.external.fetch import Limits

    def slowly(connection, _):
        time.sleep(0.3)
        return b"HTTP/1.1 302 Found\r\nLocation: /again%d\r\nContent-Length: 0\r\n\r\n" % len(web.heads)

    web.pages = {f"/again{number}": slowly for number in range(20)}
    limits = replace(Limits(), header=5, body=5, whole=0.8, redirects=50)
    began = time.monotonic()
    verdict = ask(f"{web.url}/again0", limits=limits)
    assert verdict.kind == "unreachable"
    assert time.monotonic() - began < 1.2
