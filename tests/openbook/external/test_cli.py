"""The real program against a server on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

ROOT = Path(__file__).resolve().parents[3]
LOOPBACK = ("--external", "--allow-network", "127.0.0.0/8", "--spacing", "0", "--timeout", "2")
CONFIG = "site_name: x\nsite_url: https://book.dev/\nplugins: []\n"


def command(*arguments):
    return [sys.executable, ROOT / "scripts" / "check_links.py", *map(str, arguments)]


def run(*arguments, cwd, options=LOOPBACK):
    return subprocess.run(command(*options, *arguments), cwd=cwd, capture_output=True, text=True, timeout=60)


def found(done):
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    return [(each["path"], each["line"], each["rule"], each["severity"]) for each in findings]


def put(tmp_path, *lines, name="docs/index.md"):
    """A book and its site, with the same lines."""
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "site").mkdir(exist_ok=True)
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    (tmp_path / name).write_text("".join(f"[x]({line})\n" for line in lines))
    html = "".join(f'<a href="{line}">x</a>\n' for line in lines)
    (tmp_path / "site" / (Path(name).stem + ".html")).write_text(f"<main>{html}</main>")


@pytest.fixture
def place(tmp_path):
    return ("--site", tmp_path / "site", "--state", tmp_path / "state.json", "--format", "json")


def test_each_verdict_at_its_line(web, say, tmp_path, place):
    web.pages = {
        "/fine": say(text="<p id=a>x"),
        "/moved": say(301, Location="/fine"),
        "/wall": say(403),
        "/soft": say(text="<title>Not found</title>"),
    }
    names = ("fine", "fine#a", "fine#b", "moved", "wall", "soft", "gone")
    put(tmp_path, *(f"{web.url}/{name}" for name in names), "http://10.0.0.1/", "http://a..b/")
    done = run(*place, cwd=tmp_path)
    assert found(done) == [
        ("docs/index.md", 3, "external-anchor-missing", "warning"),
        ("docs/index.md", 4, "external-moved", "warning"),
        ("docs/index.md", 5, "external-blocked", "notice"),
        ("docs/index.md", 6, "external-suspicious", "warning"),
        ("docs/index.md", 7, "external-gone", "warning"),
        ("docs/index.md", 8, "external-refused", "error"),
        ("docs/index.md", 9, "external-malformed", "error"),
    ]
    assert done.returncode == 1
    assert f"write {web.url}/fine" in done.stdout
    assert f"https://web.archive.org/web/{web.url}/gone" in done.stdout
    assert web.requests["/fine"] == 2  # for three addresses, and from the one that moved
    assert "\x1b" not in done.stderr
    assert "1 moved, 2 ok, 1 refused, 1 suspicious; 0 known to be good" in done.stderr


def test_what_is_good_is_not_asked_again_and_what_fails_is_proved_slowly(web, say, tmp_path, place):
    web.pages["/fine"] = say(text="x")
    put(tmp_path, f"{web.url}/fine", f"{web.url}/gone")
    for failed in (1, 2, 3):
        done = run(*place, cwd=tmp_path)
        severity = "error" if failed == 3 else "warning"
        assert found(done) == [("docs/index.md", 2, "external-gone", severity)]
        assert done.returncode == (failed == 3)
        state = json.loads((tmp_path / "state.json").read_text())
        entry = state["addresses"][f"{web.url}/gone"]
        assert entry["count"] == failed
        for name in ("first_bad", "last_bad"):  # four days pass
            entry[name] = (datetime.fromisoformat(entry[name]) - timedelta(days=4)).isoformat()
        (tmp_path / "state.json").write_text(json.dumps(state))
    assert dict(web.requests) == {"/fine": 1, "/gone": 3}
    assert "failed in 3 runs since" in done.stdout


def test_new_addresses_of_a_change_fail_at_once(web, tmp_path, place):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@a.test", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    put(tmp_path, f"{web.url}/old", "http://10.0.0.1/")
    git("init", "-q", "-b", "main")
    old_entry = "- pattern: a.dev\n  reason: closed\n  expires: 2020-01-01\n"
    (tmp_path / "ignore.yml").write_text(old_entry)
    git("add", "docs", "mkdocs.yml", "ignore.yml")
    git("commit", "-qm", "x")
    long_ago = (datetime.now(UTC) - timedelta(days=9)).isoformat()
    known = {"first_bad": long_ago, "last_bad": long_ago, "count": 5, "verdict": "gone", "seen": long_ago}
    (tmp_path / "state.json").write_text(json.dumps({"version": 1, "addresses": {f"{web.url}/old": known}}))
    done = run(*place, "--new-since", "main", cwd=tmp_path)
    assert [severity for *_, severity in found(done)] == ["warning", "warning"]
    assert done.returncode == 0
    closed = "http://127.0.0.1:1/"
    put(tmp_path, f"{web.url}/old", "http://10.0.0.1/", f"{web.url}/new", closed)
    done = run(*place, "--new-since", "main", cwd=tmp_path)
    assert [severity for *_, severity in found(done)] == ["warning", "warning", "error", "warning"]
    assert done.returncode == 1
    (tmp_path / "ignore.yml").write_text(old_entry + old_entry.replace("a.dev", "b.dev"))
    done = run(*place, "--new-since", "main", "--ignore", "ignore.yml", cwd=tmp_path)
    assert found(done)[-2:] == [
        ("ignore.yml", 1, "ignore-unused", "warning"),
        ("ignore.yml", 4, "ignore-unused", "error"),
    ]
    done = run(*place, "--new-since", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "no revision 'nowhere'" in done.stderr


def test_ignored_addresses(web, tmp_path, place):
    put(tmp_path, f"{web.url}/a", "http://10.0.0.1/x")
    entries = [("127.0.0.1", "2099-01-01"), ("http://10.*", "2020-01-01"), ("*.unused.dev", "2099-01-01")]
    text = "".join(f"- pattern: '{pattern}'\n  reason: closed\n  expires: {day}\n" for pattern, day in entries)
    (tmp_path / "ignore.yml").write_text(text)
    done = run(*place, "--ignore", "ignore.yml", cwd=tmp_path)
    assert found(done) == [
        ("docs/index.md", 2, "external-refused", "error"),
        ("ignore.yml", 4, "ignore-expired", "error"),
        ("ignore.yml", 7, "ignore-unused", "error"),
    ]
    assert not web.requests
    (tmp_path / "ignore.yml").write_text("- x")
    done = run(*place, "--ignore", "ignore.yml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ignore.yml:1: an entry has" in done.stderr


def test_a_damaged_state_file_does_not_stop_a_run(web, say, tmp_path, place):
    web.pages["/"] = say(text="x")
    put(tmp_path, f"{web.url}/")
    (tmp_path / "state.json").write_text('{"version": 1, "addr')
    done = run(*place, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "state.json is damaged" in done.stderr
    assert json.loads((tmp_path / "state.json").read_text())["addresses"][f"{web.url}/"]["verdict"] == "ok"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_keeps_what_it_learnt(web, say, tmp_path, place, name):
    def slow(connection, _):
        time.sleep(20)

    web.pages = {"/a": say(text="x"), "/b": slow}
    put(tmp_path, f"{web.url}/a", f"{web.url}/gone", f"{web.url}/b", f"{web.url}/c")
    process = subprocess.Popen(
        command(*LOOPBACK, *place),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    while not web.requests["/b"]:
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    kept = json.loads((tmp_path / "state.json").read_text())["addresses"]
    assert {url.rpartition("/")[2]: entry["verdict"] for url, entry in kept.items()} == {"a": "ok", "gone": "gone"}
    assert "interrupted before 2 more" in err
    assert '"external-gone"' in out
    assert "Traceback" not in err


def test_an_offline_machine_learns_nothing(tmp_path, place):
    put(tmp_path, *(f"http://127.0.0.{number}:1/" for number in (1, 2, 3)), "http://10.0.0.1/")
    done = run(*place, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is this machine online" in done.stderr
    assert not (tmp_path / "state.json").exists()


def test_one_host_that_is_down_is_learnt(tmp_path, place):
    put(tmp_path, "http://127.0.0.1:1/")
    done = run(*place, cwd=tmp_path)
    assert found(done) == [("docs/index.md", 1, "external-unreachable", "warning")]
    assert json.loads((tmp_path / "state.json").read_text())["addresses"]["http://127.0.0.1:1/"]["count"] == 1


def test_loopback_is_not_reached_without_leave(web, tmp_path, place):
    put(tmp_path, f"{web.url}/", f"http://localhost:{web.port}/")
    done = run(*place, cwd=tmp_path, options=("--external",))
    assert [rule for _, _, rule, _ in found(done)] == ["external-refused"] * 2
    assert not web.requests


def test_time_that_is_up(web, say, tmp_path, place):
    web.pages = {f"/{number}": say(text="x") for number in range(30)}
    put(tmp_path, *(f"{web.url}/{number}" for number in range(30)))
    done = run(*place, "--spacing", "0.3", "--time", "1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the next run asks for them" in done.stderr
    assert 2 <= sum(web.requests.values()) <= 5


def test_lines_of_a_branch_are_a_warning(web, tmp_path, place):
    (tmp_path / "ignore.yml").write_text("- pattern: github.com\n  reason: no network here\n  expires: 2099-01-01\n")
    put(tmp_path, "https://github.com/o/r/blob/main/f.py#L10")
    done = run(*place, "--ignore", "ignore.yml", cwd=tmp_path)
    assert found(done) == [("docs/index.md", 1, "unpinned-lines", "warning")]
    assert done.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal(web, say, tmp_path, place):
    import pty

    web.pages["/"] = say(text="x")
    put(tmp_path, f"{web.url}/")
    master, slave = pty.openpty()
    done = subprocess.run(command(*LOOPBACK, *place), cwd=tmp_path, stdout=subprocess.PIPE, stderr=slave, timeout=60)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert done.stdout == b""
    assert "1 of 1 addresses, 0 not good" in shown
    assert shown.rindex("\x1b[K") > shown.rindex("1 of 1 addresses")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--new-since", "HEAD"], "belong to --external"),
        (["--external", "--allow-network", "home"], "--allow-network wants a network"),
        (["--external", "--spacing", "-1"], "invalid"),
        (["--external", "--time", "long"], "invalid"),
        (["--external", "--state", "site/index.html/x.json"], "the state file cannot be kept"),
    ],
)
def test_misuse(tmp_path, arguments, says):
    put(tmp_path)
    done = run("--site", "site", *arguments, cwd=tmp_path, options=())
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
