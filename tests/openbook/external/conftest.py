"""A server on the loopback interface that says exactly what a test wants, and a checker with short patience."""

import ipaddress
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter

import pytest

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class Web:
    """`pages` maps a path to the bytes of an answer, or to a function of the connection and the number of the request."""

    def __init__(self, context: ssl.SSLContext | None = None):
        self.pages, self.requests, self.heads = {}, Counter(), []
        self.times, self.open, self.most_open = [], 0, 0
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            with connection:
                if self.context is not None:
                    connection = self.context.wrap_socket(connection, server_side=True)
                head = b""
                while b"\r\n\r\n" not in head:
                    part = connection.recv(65536)
                    if not part:
                        return
                    head += part
                path = head.split(b" ", 2)[1].decode()
                self.requests[path] += 1
                self.times.append(time.monotonic())
                self.heads.append(head.decode())
                page = self.pages.get(path, answer(404))
                if callable(page):
                    page = page(connection, self.requests[path])
                if page is not None:
                    connection.sendall(page)
                connection.close()
        except OSError:
            pass
        finally:
            self.open -= 1


def answer(status=200, text="", **headers) -> bytes:
    body = text if isinstance(text, bytes) else text.encode()
    fields = {"Content-Type": "text/html; charset=utf-8", "Content-Length": len(body)}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@pytest.fixture
def say():
    return answer


@pytest.fixture
def web():
    server = Web()
    yield server
    server.listener.close()


@pytest.fixture
def ask():
    """Ask one address, as a run does; `names` are on this machine, `resolve` overrules that."""
    pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")
    from openbook.links.external.fetch import Fetcher, Limits
    from openbook.links.external.guard import Guard
    from openbook.links.external.pace import Pace
    from openbook.links.external.target import target_of
    from openbook.links.external.verdict import judge

    short = Limits(
        connect=0.5,
        header=0.4,
        body=0.4,
        whole=3,
        header_bytes=8192,
        body_bytes=65536,
        anchor_bytes=262144,
        retries=2,
        back_off=0.02,
        longest_wait=0.5,
    )

    def ask(
        url, fragment="", names=(), resolve=None, limits=short, allowed=LOOPBACK, spacing=0, context=None, pace=None
    ):
        table = {name: ["127.0.0.1"] for name in names}
        guard = Guard(allowed, resolve or (lambda host, port: table[host]))
        target = target_of(url)
        fetcher = Fetcher(guard, pace or Pace(spacing, 30), limits, context or ssl.create_default_context())
        return judge(fetcher.get(target, bool(fragment)), target.url, fragment)

    return ask


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A folder with certificates of site.test: good, expired, of an intermediate that is not sent, self-signed."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        try:
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip("needs openssl: sudo apt-get install openssl")

    def signed(name, subject, by, days="30", extension="subjectAltName=DNS:site.test"):
        (folder / f"{name}.ext").write_text(extension)
        openssl("req", *key, f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        openssl(*sign, f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-days", days, "-out", f"{name}.pem",
                "-extfile", f"{name}.ext")  # fmt: skip

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout")
    sign = ("x509", "-req", "-CAcreateserial", "-in")
    openssl("req", "-x509", *key, "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=Test CA")
    openssl("req", "-x509", *key, "self.key", "-out", "self.pem", "-days", "30", "-subj", "/CN=site.test",
            "-addext", "subjectAltName=DNS:site.test")  # fmt: skip
    signed("good", "/CN=site.test", "ca")
    signed("expired", "/CN=site.test", "ca", days="-1")
    signed("middle", "/CN=Test Intermediate", "ca", extension="basicConstraints=critical,CA:TRUE")
    signed("chain", "/CN=site.test", "middle")
    return folder


@pytest.fixture
def tls(certificates):
    """Start a TLS server with one of the certificates; returns it and a context that trusts the test's CA."""
    started = []

    def tls(name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
        server = Web(context)
        server.names = []
        context.sni_callback = lambda sock, host, _: server.names.append(host)
        started.append(server)
        return server, ssl.create_default_context(cafile=certificates / "ca.pem")

    yield tls
    for server in started:
        server.listener.close()
