"""Certificates: what is accepted, and what is said about the others."""

import pytest


@pytest.mark.parametrize(
    ("certificate", "kind", "says"),
    [
        ("good", "ok", ""),
        ("self", "tls", "self-signed certificate"),
        ("expired", "tls", "certificate has expired"),
        ("chain", "tls", "unable to get local issuer certificate"),
    ],
)
def test_certificates(tls, ask, say, certificate, kind, says):
    server, context = tls(certificate)
    server.pages["/"] = say(text="fine")
    verdict = ask(f"https://site.test:{server.port}/", names=["site.test"], context=context)
    assert verdict.kind == kind
    assert says in verdict.detail
    assert server.names == ["site.test"]  # although the socket was opened to a bare address
    assert verdict.counts == (certificate not in ("good", "chain")) or kind == "ok"
    assert server.requests["/"] == (kind == "ok")


def test_the_name_is_verified_not_the_address(tls, ask):
    server, context = tls("good")
    verdict = ask(f"https://other.test:{server.port}/", names=["other.test"], context=context)
    assert verdict.kind == "tls"
    assert "not valid for 'other.test'" in verdict.detail
    verdict = ask(f"https://127.0.0.1:{server.port}/", context=context)
    assert verdict.kind == "tls"


def test_an_incomplete_chain_never_becomes_an_error(tls, ask):
    server, context = tls("chain")
    assert not ask(f"https://site.test:{server.port}/", names=["site.test"], context=context).counts


def test_a_redirect_to_a_bad_certificate(web, tls, ask, say):
    server, context = tls("expired")
    web.pages["/"] = say(301, Location=f"https://site.test:{server.port}/")
    assert ask(f"http://site.test:{web.port}/", names=["site.test"], context=context).kind == "tls"


def test_no_tls_behind_https(web, ask, say):
    web.pages["/"] = say(text="plain")
    assert ask(f"https://site.test:{web.port}/", names=["site.test"]).kind in ("tls", "unreachable")


def test_a_handshake_that_never_ends(ask):
    import socket
    import time

    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        verdict = ask(f"https://site.test:{listener.getsockname()[1]}/", names=["site.test"])
    assert verdict.kind == "unreachable"
    assert "TLS handshake" in verdict.detail
    assert time.monotonic() - began < 1.5
