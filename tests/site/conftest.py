"""The built site, served on loopback and opened in headless Chromium."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from openbook import ROOT
from openbook.publish import publish

KINDS = ("", "compute/", "training/memory-and-time/", "reference/glossary/", "404.html")
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
CHROMIUM += ["--disable-component-update", "--disable-sync"]


def build(target: Path, **environment: str) -> str:
    """Build strictly; return what the build printed."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(target)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a directory under /book/, as a forge's pages do: the site is not at the root of its host."""

    def translate_path(self, path):
        return super().translate_path(path.removeprefix("/book"))

    def send_error(self, code, *rest, **also):
        if code != 404:
            return super().send_error(code, *rest, **also)
        body = (Path(self.directory) / "404.html").read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """(directory, address) of the site as it is published."""
    site = tmp_path_factory.mktemp("site")
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address = f"http://127.0.0.1:{server.server_port}/book/"
    build(site, SITE_URL=address)
    publish(site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield site, address
    server.shutdown()


@pytest.fixture(scope="session")
def serve_book():
    """serve_book(home, launch) → (directory, address): home/docs built by `python launch …` as the book is, published."""
    servers = []

    def serve_it(home: Path, launch: list[str]) -> tuple[Path, str]:
        config = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "docs", "watch": [], "nav": [{"Home": "index.md"}]}
        config["theme"] = {"custom_dir": str(ROOT / "scripts" / "openbook" / "theme")}
        (home / "mkdocs.yml").write_text(yaml.safe_dump(config))
        site = home / "site"
        done = subprocess.run(
            [sys.executable, *launch, "build", "--quiet", "-f", str(home / "mkdocs.yml"), "-d", str(site)],
            capture_output=True, text=True, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        publish(site)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return site, f"http://127.0.0.1:{servers[-1].server_port}/"

    yield serve_it
    for server in servers:
        server.shutdown()


@pytest.fixture(scope="session")
def offline(tmp_path_factory):
    site = tmp_path_factory.mktemp("offline")
    build(site, OFFLINE="true")
    return site


@pytest.fixture(scope="session")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("needs Chromium: sudo apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=found, args=CHROMIUM)
        yield started
        started.close()


class Watched:
    """A page that remembers what it asked for and what went wrong."""

    def __init__(self, context, own: str):
        self.page = context.new_page()
        self.foreign, self.errors = [], []
        self.page.on(
            "request", lambda r: None if r.url.startswith((own, "data:", "blob:")) else self.foreign.append(r.url)
        )
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))


@pytest.fixture
def open_page(browser, request):
    """open_page(address, own, **context options) → Watched, after the page's scripts have run."""
    contexts = []

    def open_it(address: str, own: str, **options) -> Watched:
        contexts.append(browser.new_context(**options))
        watched = Watched(contexts[-1], own)
        watched.page.goto(address, wait_until="load")
        watched.page.wait_for_timeout(300)
        return watched

    yield open_it
    for context in contexts:
        context.close()


def all_pages() -> list[str]:
    docs = ROOT / "docs"
    return sorted({address_of(page.relative_to(docs)) for page in docs.rglob("*.md")} | {"404.html"})


def address_of(source: Path) -> str:
    """`compute/index.md` → `compute/`, `compute/x.md` → `compute/x/`."""
    parts = source.with_suffix("").parts
    return "/".join(part for part in parts if part != "index") + ("/" if parts != ("index",) else "")


def changed_pages() -> list[str]:
    """Pages that differ from BASE_REF (a pull request's target), else from the commit before."""
    base = os.environ.get("BASE_REF") or "HEAD~1"
    done = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=d", base, "--", "docs"], cwd=ROOT, capture_output=True, text=True
    )
    names = done.stdout.split() if done.returncode == 0 else []
    return [address_of(Path(name).relative_to("docs")) for name in names if name.endswith(".md")]


def pytest_generate_tests(metafunc):
    """A test that takes `address` runs for one page of each kind and those changed, or for all with --all."""
    if "address" in metafunc.fixturenames:
        pages = all_pages() if metafunc.config.getoption("--all") else sorted({*KINDS, *changed_pages()})
        metafunc.parametrize("address", pages, ids=lambda address: address or "front-page")
