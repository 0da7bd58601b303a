"""No connection leads into a private network, however the address is written and whatever the name server says."""

import ipaddress
import socket

import pytest

pytest.importorskip("hypothesis", reason="needs hypothesis: pip install hypothesis==6.170.17")
from hypothesis import given, settings
from hypothesis import strategies as st

from openbook.links.external.guard import Guard, Refused, is_public
from openbook.links.external.target import Malformed, target_of

PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
    198.51.100.1 203.0.113.1 224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::10.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:10.0.0.1
    64:ff9b::10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::8.8.8.8 100::1 2001::1 2001:0:4136:e378:8000:63bf:f5ff:fffe
    2001:db8::1 2002:7f00:1:: 2002:a00:1:: 2002:c0a8:101::1 2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:192.168.1.1
    3fff::1 4000::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 ff0e::1
""".split()  # noqa: SIM905
PUBLIC = """
    1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 192.167.255.255 169.253.1.1 223.255.255.254
    ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2606:4700:4700::1111 2a00:1450:4001::1
""".split()  # noqa: SIM905


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused(address):
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(Refused, match="no public address"):
        Guard().connect(address, 80, 1)
    with pytest.raises(Refused, match="no public address"):
        Guard(resolve=lambda *_: ["8.8.8.8", address]).addresses("name.test", 80, 1)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not(address):
    assert is_public(ipaddress.ip_address(address))


NETWORKS = [ipaddress.ip_network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")]
V4 = st.sampled_from(NETWORKS).flatmap(lambda net: st.ip_addresses(network=net))
HIDDEN = [
    lambda v4: ipaddress.IPv6Address(0xFFFF << 32 | v4),
    lambda v4: ipaddress.IPv6Address(v4),
    lambda v4: ipaddress.IPv6Address(0x64FF9B << 96 | v4),
    lambda v4: ipaddress.IPv6Address(0x2002 << 112 | v4 << 80 | 1),
    lambda v4: ipaddress.IPv6Address(0x20010000 << 96 | v4 << 64),
    lambda v4: ipaddress.IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | v4 ^ 0xFFFFFFFF),
    lambda v4: ipaddress.IPv6Address(0x2A001450 << 96 | 0x5EFE << 32 | v4),
]


@settings(deadline=None)
@given(V4, st.sampled_from(HIDDEN))
def test_private_addresses_inside_of_others(address, hide):
    assert not is_public(hide(int(address)))


def _shapes(value: int) -> list[str]:
    a, b, c, d = value.to_bytes(4)
    return [
        f"{a}.{b}.{c}.{d}", f"{a}.{b}.{c}.{d}.", str(value), hex(value), f"0{value:o}", f"{a}.{value & 0xFFFFFF}",
        f"0x{a:x}.0{b:o}.{c << 8 | d}", f"0{a:o}.{b}.{c}.{d}", f"%{ord(str(a)[0]):02x}{str(a)[1:]}.{b}.{c}.{d}",
        "".join(chr(ord(char) + 0xFEE0) if char.isdigit() else "。" for char in f"{a}.{b}.{c}.{d}"),
    ]  # fmt: skip


@settings(deadline=None)
@given(V4, st.integers(0, 9))
def test_each_notation_is_the_same_address(address, shape):
    assert target_of(f"http://{_shapes(int(address))[shape]}/x").host == str(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[::ffff:999.0.0.1]/", "http://1.2.3.4.5/",
        "http://256.256.256.256/", "http://4294967296/", "http://0x100000000/", "http://08/", "http://1.2.3.x.4/",
        "http://a:99999/", "http://a:0/", "http://a:b/", "http://", "http:///x", "http://./", "http://a..b/",
        "http://a b/", "http://a%20b/", "http://a%2fb/", "http://a<b/", "http://a^b/", "http://user@host.test/",
        "http://user:word@host.test/", "http://host.test@10.0.0.1/", "http://10.0.0.1\\@host.test/",
        "http://host.test\\x", "http://host.test/a\\b", "http://" + "a" * 64 + ".test/", "http://host.test/" + "a" * 9000, "ftp://host.test/",
        "file:///etc/passwd", "http:/\\10.0.0.1/", "http://%zz/", "http://a\u2100b\udcff/", "http://a%00b/",
    ],
)  # fmt: skip
def test_malformed_addresses(url):
    with pytest.raises(Malformed, match=r"^(is|has|names) "):
        target_of(url)


@settings(deadline=None)
@given(st.text(max_size=80), st.sampled_from(["", "http://", "https://", "//", "http://[", "http://a/", "http://1."]))
def test_any_text_is_an_address_or_is_malformed(text, start):
    try:
        target = target_of(start + text)
    except Malformed:
        return
    request = f"GET {target.path} HTTP/1.1 {target.authority}"
    assert request.isascii() and request.isprintable() and request.count(" ") == 3
    assert target_of(target.url) == target


@pytest.mark.parametrize(
    ("url", "host", "url_again"),
    [
        ("HTTP://Host.Test", "host.test", "http://host.test/"),
        (" https://host.test:443/a\n/b ", "host.test", "https://host.test/a/b"),
        ("//host.test:8443?q=a b", "host.test", "https://host.test:8443/?q=a%20b"),
        ("http://bücher.test/ä#ü", "xn--bcher-kva.test", "http://xn--bcher-kva.test/%C3%A4"),
        ("http://[2606:4700:4700:0::1111]:80/", "2606:4700:4700::1111", "http://[2606:4700:4700::1111]/"),
        ("http://host_name.test./a(b)%41[c]", "host_name.test.", "http://host_name.test./a(b)%41%5Bc%5D"),
    ],
)
def test_addresses_as_a_browser_reads_them(url, host, url_again):
    assert target_of(url).host == host
    assert target_of(url).url == url_again


def test_a_name_that_leads_elsewhere_the_second_time(web, ask, say):
    web.pages["/"] = say(text="fine")
    answers = [["127.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]]
    assert ask(f"http://rebind.test:{web.port}/", resolve=lambda *_: answers.pop(0)).kind == "ok"
    assert len(answers) == 2  # one connection, one question: what was judged was used
    verdict = ask(f"http://rebind.test:{web.port}/", resolve=lambda *_: answers.pop(0))
    assert verdict.kind == "refused"
    assert not verdict.certain
    assert web.requests["/"] == 1


def test_each_redirect_is_resolved_and_judged_anew(web, ask, say):
    web.pages["/"] = say(302, Location="/again")
    answers = [["127.0.0.1"], ["192.168.1.1"]]
    verdict = ask(f"http://rebind.test:{web.port}/", resolve=lambda *_: answers.pop(0))
    assert (verdict.kind, dict(web.requests)) == ("refused", {"/": 1})
    web.pages["/"] = say(302, Location=f"http://inside.test:{web.port}/secret")
    table = {"outside.test": ["127.0.0.1"], "inside.test": ["127.0.0.1", "fd00::1"]}
    verdict = ask(f"http://outside.test:{web.port}/", resolve=lambda host, port: table[host])
    assert verdict.kind == "refused"
    assert "inside.test" in verdict.detail
    assert "/secret" not in web.requests


def test_retries_are_judged_anew(web, ask, say):
    web.pages["/"] = say(503)
    answers = [["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"]]
    assert ask(f"http://rebind.test:{web.port}/", resolve=lambda *_: answers.pop(0)).kind == "refused"
    assert web.requests["/"] == 2


def test_loopback_is_refused_unless_a_test_allows_it(web, ask, say):
    web.pages["/"] = say(text="fine")
    for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"):
        verdict = ask(f"http://{host}:{web.port}/", allowed=(), resolve=lambda *_: ["127.0.0.1"])
        assert (verdict.kind, verdict.certain) == ("refused", True), host
    verdict = ask(f"http://name.test:{web.port}/", allowed=(), names=["name.test"])
    assert (verdict.kind, verdict.certain) == ("refused", False)
    assert not web.requests
    assert ask(f"http://[::ffff:127.0.0.1]:{web.port}/").kind == "ok"
    with pytest.raises(Refused):
        Guard((ipaddress.ip_network("127.0.0.0/8"),)).addresses("10.0.0.1", 80, 1)


def test_the_next_address_is_tried(web):
    guard = Guard((ipaddress.ip_network("127.0.0.0/8"),), lambda *_: ["127.0.0.9", "127.0.0.1"])
    with guard.connect("name.test", web.port, 1) as sock:
        assert sock.getpeername()[0] == "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        guard.connect("name.test", port, 1)
