"""External links against a server on this machine that misbehaves in every known way."""

import threading
import time
from collections import Counter
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")
pytest.importorskip("urllib3", reason="needs urllib3: pip install urllib3==2.8.0")

from openbook.findings import Misuse
from openbook.links.external_fetch import Fetcher
from openbook.links.external_policy import (
    Answer,
    Memory,
    Verdict,
    anchor_verdict,
    exemptions,
    judge,
    remember,
    remembered,
    wants_anchor,
)
from openbook.links.external_visit import Visit, expired
from openbook.links.run import external_findings, findings
from openbook.links.site import Site

TODAY = date(2026, 11, 30)


class Faults(BaseHTTPRequestHandler):
    """One fault for each path; `asked` counts the requests."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self):
        name = self.path.strip("/").partition("?")[0]
        self.asked[name] += 1
        first = self.asked[name] == 1
        if name == "503once" and first:
            return self.say(503)
        if name == "429once" and first:
            return self.say(429, {"Retry-After": "1"})
        if name == "429always":
            return self.say(429, {"Retry-After": "3600"})
        if name == "challenge":
            return self.say(403, {"cf-mitigated": "challenge"})
        if name.isdigit():
            return self.say(int(name))
        if name == "loop":
            return self.say(302, {"Location": "/loop"})
        if name == "moved":
            return self.say(301, {"Location": "/fine"})
        if name == "found":
            return self.say(302, {"Location": "/fine"})
        if name == "home":
            return self.say(301, {"Location": "/"})
        if name == "away":
            return self.say(302, {"Location": "file:///etc/passwd"})
        if name == "soft404":
            return self.say(200, text="<title>Page not found</title>")
        if name == "anubis":
            return self.say(200, text="<title>Making sure you're not a bot!</title>")
        if name == "app":
            return self.say(200, text='<div id="root"></div><script src="x.js"></script>')
        if name == "slow":
            time.sleep(1.5)
            return self.say(200)
        if name == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            return None
        if name == "endless":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                return None
        return self.say(200, text="<title>Fine</title><h2 id='part'>x</h2><a name=old></a><p id='user-content-readme'>")

    def say(self, status, headers=None, text=""):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    instance = ThreadingHTTPServer(("127.0.0.1", 0), Faults)
    instance.daemon_threads = True
    thread = threading.Thread(target=instance.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{instance.server_port}"
    instance.shutdown()


@pytest.fixture
def fetcher():
    return Fetcher(
        spacing=0, connect=1, read=0.5, each=8, retries=2, backoff=0.05, longest_wait=1.5, size=200_000, private=True
    )


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/fine", "ok"),
        ("/503once", "ok"),
        ("/429once", "ok"),
        ("/429always", "rate-limited"),
        ("/challenge", "blocked"),
        ("/401", "blocked"),
        ("/403", "blocked"),
        ("/999", "blocked"),
        ("/404", "gone"),
        ("/410", "gone"),
        ("/500", "unreachable"),
        ("/loop", "unreachable"),
        ("/slow", "unreachable"),
        ("/cut", "unreachable"),
        ("/moved", "moved"),
        ("/found", "ok"),
        ("/home", "suspicious"),
        ("/soft404", "suspicious"),
        ("/anubis", "blocked"),
        ("/away", "refused"),
        ("/endless", "ok"),
    ],
)
def test_each_fault_has_its_verdict(server, fetcher, path, kind):
    start = time.monotonic()
    assert judge(server + path, fetcher.get(server + path)).kind == kind
    assert time.monotonic() - start < 8
    assert Faults.asked[path[1:]] <= 6


def test_who_asks_for_a_long_wait_is_not_asked_again(server, fetcher):
    before = Faults.asked["429always"]
    assert fetcher.get(server + "/429always").status == 429
    assert Faults.asked["429always"] == before + 1


def test_a_closed_port_and_an_unknown_name(fetcher):
    assert judge("x", fetcher.get("http://127.0.0.1:1/")).kind == "unreachable"
    assert judge("x", fetcher.get("http://no-such-host.invalid/")).kind == "unreachable"


def test_tls_problems_are_their_own_kind(server, fetcher):
    address = server.replace("http://", "https://")
    assert judge(address, fetcher.get(address)).kind in ("tls", "unreachable")
    assert judge("x", Answer(0, "x", error="tls")).kind == "tls"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_private_addresses_are_refused_and_hear_nothing(server, scheme):
    before = sum(Faults.asked.values())
    answer = Fetcher(connect=1, read=1).get(f"{scheme}://localhost:{server.rpartition(':')[2]}/fine")
    assert answer.error == "refused"
    assert sum(Faults.asked.values()) == before


def test_little_is_read_of_an_endless_page(server, fetcher):
    assert len(fetcher.get(server + "/endless").text) == 200_000


@pytest.mark.parametrize(
    ("url", "anchor"),
    [
        ("https://x.example/a#part", "part"),
        ("https://x.example/a#part:~:text=y", "part"),
        ("https://x.example/a#:~:text=y", ""),
        ("https://github.com/o/r/blob/main/x.py#L10-L20", ""),
        ("https://github.com/o/r#readme", ""),
        ("https://x.example/a.pdf#page=3", ""),
        ("https://x.example/#/route", ""),
        ("https://x.example/#!route", ""),
        ("https://x.example/", ""),
    ],
)
def test_anchors_that_can_be_looked_up(url, anchor):
    assert wants_anchor(url) == anchor


@pytest.mark.parametrize(
    ("anchor", "path", "kind"),
    [
        ("part", "/fine", "ok"),
        ("old", "/fine", "ok"),
        ("readme", "/fine", "ok"),
        ("p%61rt", "/fine", "ok"),
        ("no", "/fine", "anchor-missing"),
        ("no", "/app", "ok"),
    ],
)
def test_anchors(server, fetcher, anchor, path, kind):
    assert anchor_verdict(anchor, fetcher.get(server + path), True).kind == kind


def test_a_page_cut_off_cannot_tell():
    assert anchor_verdict("no", Answer(200, "x", text="<p id=a>"), False).kind == "ok"


def test_an_address_is_an_error_after_three_runs_over_a_week():
    memory = Memory()
    days = [0, 1, 2, 6, 7]
    proved = []
    for day in days:
        memory = memory.after(Verdict("unreachable"), TODAY + timedelta(days=day))
        proved.append(memory.proved_bad(TODAY + timedelta(days=day)))
    assert proved == [False, False, False, False, True]
    assert memory.after(Verdict("blocked"), TODAY).bad_runs == 5
    assert memory.after(Verdict("ok"), TODAY).bad_runs == 0
    late = Memory().after(Verdict("gone"), TODAY).after(Verdict("gone"), TODAY + timedelta(days=30))
    assert not late.proved_bad(TODAY + timedelta(days=30))


def test_only_good_answers_are_kept_and_not_for_ever():
    good = Memory().after(Verdict("ok"), TODAY)
    assert good.fresh("u", TODAY + timedelta(days=4))
    assert not good.fresh("u", TODAY + timedelta(days=10))
    assert not good.after(Verdict("gone"), TODAY).fresh("u", TODAY)


def test_memories_survive_and_damage_is_said(tmp_path):
    file = tmp_path / "deep" / "state.json"
    memories = {"https://x.example/": Memory("2026-11-30", final="https://y.example/")}
    remember(file, memories)
    assert remembered(file) == memories
    assert remembered(tmp_path / "none.json") == {}
    file.write_text("{")
    with pytest.raises(Misuse, match="delete it to start afresh"):
        remembered(file)


def test_exemptions_need_a_reason_and_end(tmp_path):
    file = tmp_path / "x.toml"
    assert exemptions(file) == []
    file.write_text('[[ignore]]\npattern = "https://x.example/*"\nreason = "needs a login"\nexpires = 2026-11-01\n')
    (entry,) = exemptions(file)
    assert entry.covers("https://x.example/a") and not entry.covers("https://y.example/a")
    (finding,) = expired([entry], file, TODAY)
    assert (finding.rule, finding.line) == ("expired-exemption", 1)
    assert list(expired([entry], file, date(2026, 10, 1))) == []
    file.write_text('[[ignore]]\npattern = "x"\nexpires = 2026-11-01\n')
    with pytest.raises(Misuse, match="a pattern, a reason and expires"):
        exemptions(file)


def site_with(folder: Path, *urls: str) -> Site:
    links = "\n".join(f'<a href="{url}">x</a>' for url in urls)
    (folder / "index.html").write_text(f"<main>\n{links}\n</main>")
    return Site.read(folder)


def visit(folder: Path, urls: list[str], fetcher: Fetcher, memories: dict[str, Memory], **options):
    site = site_with(folder, *urls)
    result, _ = findings(site, None)
    run = Visit(fetcher, memories, today=options.pop("today", TODAY), skip=lambda url: False, **options)
    found = external_findings(run, result, site, None)
    return [(f.line, f.rule, f.severity, f.target) for f in sorted(found)], run


def test_a_run_mentions_first_and_fails_when_proved(server, fetcher, tmp_path):
    urls = [server + path for path in ("/404", "/fine", "/fine#no", "/moved", "/403")]
    memories: dict[str, Memory] = {}
    first, _ = visit(tmp_path, urls, fetcher, memories)
    assert first == [
        (2, "external-gone", "notice", urls[0]),
        (4, "external-anchor-missing", "notice", urls[2]),
        (5, "external-moved", "notice", urls[3]),
        (6, "external-blocked", "notice", urls[4]),
    ]
    asked = Faults.asked["moved"]
    for day in (4, 8):
        later, _ = visit(tmp_path, urls, fetcher, memories, today=TODAY + timedelta(days=day))
    assert [(rule, severity) for _, rule, severity, _ in later if severity == "error"] == [
        ("external-gone", "error"),
        ("external-anchor-missing", "error"),
    ]
    assert Faults.asked["moved"] <= asked + 2


def test_a_new_address_that_is_gone_fails_at_once(server, fetcher, tmp_path):
    known = {server + "/404": Memory(last_ok="2026-01-01")}
    urls = [server + path for path in ("/404", "/410", "/500")]
    found, run = visit(tmp_path, urls, fetcher, known, new_only=True)
    assert found == [(3, "external-gone", "error", urls[1]), (4, "external-unreachable", "notice", urls[2])]
    assert run.left == []


def test_lines_of_a_branch_are_to_be_pinned(fetcher, tmp_path):
    urls = [f"https://github.com/o/r/blob/{ref}/x.py#L3" for ref in ("main", "0123abc", "v1.0")]
    memories = {url: Memory(last_ok=TODAY.isoformat()) for url in urls}
    found, _ = visit(tmp_path, urls, fetcher, memories)
    assert found == [(2, "unpinned-lines", "warning", urls[0])]


def test_reserved_names_are_not_asked_for(fetcher, tmp_path):
    site = site_with(
        tmp_path, "https://example.org/", "https://x.example/", "http://localhost:8000/", "http://127.0.0.1/"
    )
    run = Visit(fetcher, {}, today=TODAY)
    assert list(external_findings(run, findings(site, None)[0], site, None)) == []
    assert run.memories == {}


def test_equal_addresses_are_asked_for_once_and_hosts_are_spared(server, tmp_path):
    fetcher = Fetcher(spacing=0.15, private=True)
    before, start = Faults.asked["fine"], time.monotonic()
    heard = []
    fetcher.all([f"{server}/fine?{n}#{m}" for n in range(4) for m in "ab"], lambda url, answer: heard.append(url))
    assert len(heard) == 4
    assert Faults.asked["fine"] == before + 4
    assert time.monotonic() - start >= 3 * 0.15


def test_a_run_ends_when_its_time_is_up(server):
    fetcher = Fetcher(spacing=0.1, total=0.25, private=True)
    left = fetcher.all([f"{server}/fine?{n}" for n in range(20)], lambda url, answer: None)
    assert 10 < len(left) < 20
