"""Snippets that nobody trusts: each of them ends soon, reaches nothing, and leaves nothing."""

import os
import time
from pathlib import Path

import pytest

from openbook.snippets import sandbox
from openbook.snippets.sandbox import Limits

pytestmark = pytest.mark.skipif(bool(sandbox.unusable()), reason=f"needs bubblewrap: {sandbox.unusable()}")


def shell(text, timeout=10, **options):
    return sandbox.run(
        ["bash", "snippet.sh"], {"snippet.sh": text}, Limits(timeout, **options.pop("limits", {})), **options
    )


def python(text, timeout=10, **limits):
    return sandbox.run(["python", "snippet.py"], {"snippet.py": text}, Limits(timeout, **limits))


def running(mark):
    """Processes of this machine whose command line holds the mark."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                found += [entry] if mark.encode() in Path("/proc", entry, "cmdline").read_bytes() else []
            except OSError:
                continue
    return found


def test_what_a_sound_snippet_gets():
    result = shell('echo "$HOME $PWD $USER"; id -u; echo hi > file; cat file; python -c "print(6 * 7)"; exit 3')
    assert result == sandbox.Result(3, "/work /work reader\n1000\nhi\n42\n")


def test_errors_and_output_come_in_order():
    assert shell("echo a; echo b >&2; echo c").output == "a\nb\nc\n"


def test_files_beside_the_page_are_there_and_read_only(tmp_path):
    (tmp_path / "data.txt").write_text("data\n")
    result = shell("cat data.txt; echo x > data.txt", beside={"data.txt": tmp_path / "data.txt"})
    assert "data\n" in result.output
    assert (tmp_path / "data.txt").read_text() == "data\n"


def test_localhost_works():
    text = "import socket\ns = socket.create_server(('localhost', 0))\nsocket.create_connection(s.getsockname())\nprint('ok')"
    assert python(text).output == "ok\n"


def test_no_network():
    result = python("import socket\nsocket.create_connection(('192.0.2.1', 53), timeout=3)")
    assert result.code == 1
    assert "unreachable" in result.output


@pytest.mark.parametrize(
    "text",
    [
        "while :; do :; done",
        "trap '' TERM INT HUP QUIT; while :; do sleep 1; done",
        "kill -STOP $$",
        "sleep 1000",
        "exec >&- 2>&-; sleep 1000",
    ],
)
def test_an_endless_snippet_is_ended(text):
    begun = time.monotonic()
    result = shell(text, timeout=1)
    assert result.ended == "timeout"
    assert time.monotonic() - begun < 6


def test_a_fork_bomb_stays_small():
    result = shell("f() { f | f & }; f; sleep 20", timeout=2)
    assert result.ended in ("timeout", "output")
    assert "fork" in result.output


def test_memory_is_limited():
    result = python("kept = []\nwhile True: kept.append(b'x' * 2**24)", timeout=60, memory=200 * sandbox.MB)
    assert result.ended == "memory"


def test_memory_of_children_counts():
    text = "import os, time\nfor n in range(6):\n    if not os.fork(): kept = b'x' * 2**26; break\ntime.sleep(60)"
    assert python(text, timeout=60, memory=200 * sandbox.MB).ended == "memory"


def test_address_space_is_limited():
    result = python(f"bytearray({2 * sandbox.ADDRESSES})")
    assert "MemoryError" in result.output


def test_a_flood_of_output_is_cut():
    result = shell("yes")
    assert result.ended == "output"
    assert len(result.output) == sandbox.OUTPUT


@pytest.mark.parametrize("place", ["/work/x", "/tmp/x", "/dev/shm/x"])
def test_a_flood_of_the_disk_is_cut(place):
    result = shell(f"for n in 1 2 3; do head -c 40M /dev/zero > {place}$n || exit 9; done", timeout=30)
    assert result.code == 9
    assert "No space left" in result.output


def test_nothing_stays_behind():
    mark = f"1234.{os.getpid()}"
    result = shell(f"setsid sleep {mark} & nohup sleep {mark} > /dev/null & disown; echo started")
    assert result.output == "started\n"
    deadline = time.monotonic() + 3
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(mark) == []


def test_nothing_of_the_host_is_readable(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    (tmp_path / "secret").write_text("hunter2")
    places = f"/etc/shadow {tmp_path}/secret {Path.home()}/.netrc {Path(__file__)} /proc/1/environ /proc/*/environ"
    result = shell(f"env; cat {places}; ls -la {Path.home()} /home; true")
    assert "hunter2" not in result.output
    assert "root:x:" not in result.output
    assert "Snippets that nobody trusts" not in result.output


def test_nothing_outside_is_writable(tmp_path):
    places = ["/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x", str(tmp_path / "x"), "/proc/sys/kernel/hostname"]
    result = shell(
        "for place in " + " ".join(places) + "; do (echo x > $place) 2> /dev/null && echo $place; done; true"
    )
    assert result.output == ""
    assert list(tmp_path.iterdir()) == []


def test_no_way_to_more_rights():
    result = shell(
        "unshare -Ur true && echo namespace; mount -t tmpfs x /tmp && echo mount; kill -9 1 && kill -0 1 && echo 1"
    )
    assert not {"namespace", "mount"} & set(result.output.split("\n"))
    assert "CapEff:\t0000000000000000" in shell("cat /proc/self/status").output


def test_temporary_folders_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    shell("true")
    shell("sleep 5", timeout=0.2)
    assert list(tmp_path.iterdir()) == []
