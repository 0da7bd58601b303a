"""object_bench.py against servers that misbehave: what is retried, counted, given up, and never written."""

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/storage/object_bench.py"
SIZE = 1 << 20
QUICK = ("--seconds", "0.3", "--parts", "64Ki", "--flight", "2")


class Store(BaseHTTPRequestHandler):
    """An object of SIZE bytes; the list `plan` says what goes wrong, request by request, then all is well."""

    protocol_version = "HTTP/1.1"
    plan: list[str]
    seen: list[tuple]
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def answer(self, status, body, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        with self.lock:
            self.seen.append((self.path, first, last, self.client_address[1]))
            if self.plan == ["unsized"]:
                return self.answer(206, b"x" * (last - first + 1), Content_Range=f"bytes {first}-{last}/*")
            trouble = (self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]) if last > first else "fine"
        body, span = bytes(last - first + 1), f"bytes {first}-{last}/{SIZE}"
        if trouble == "fine":
            self.answer(206, body, Content_Range=span)
        elif trouble == "short":
            self.answer(206, body[:100], length=len(body), Content_Range=span)
            self.close_connection = True
        elif trouble == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif trouble == "no range":
            self.answer(200, bytes(SIZE))
        elif trouble == "stall":
            threading.Event().wait(3)
            self.close_connection = True
        else:
            status, code = trouble.split()
            self.answer(int(status), f"<Error><Code>{code}</Code></Error>".encode())

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            self.seen.append((self.path, len(body), self.headers["Range"], 0))
        self.answer(200, b"")


@contextmanager
def store(*plan):
    """Yields the address and the list of what was asked; the last of the plan goes on for ever."""
    handler = type("Planned", (Store,), {"plan": list(plan), "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/bucket", handler.seen
    finally:
        server.shutdown()
        server.server_close()


def run(*arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


def report(*arguments, code=0):
    result = run(*arguments, "--json")
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def test_reads_whole_parts_of_every_object_on_kept_connections():
    with store("fine") as (url, seen):
        found = report(f"{url}/shard-{{08..11}}.tar?sig=a%2Fb", *QUICK)
    assert {path for path, *_ in seen} == {f"/bucket/shard-{n:02d}.tar?sig=a%2Fb" for n in (8, 9, 10, 11)}
    parts = [(first, last) for _, first, last, _ in seen if last > first]
    assert all(last - first + 1 == 65536 and first % 65536 == 0 and last < SIZE for first, last in parts)
    assert len({first for first, _ in parts}) > 4  # from many places
    (cell,) = found["cells"]
    assert cell["requests"] == len(parts)
    assert found["requests_sent"] == len(seen) == len(parts) + 4  # one of each asks for the size
    assert cell["connections"] == 2
    assert cell["mb_per_second"] == pytest.approx(len(parts) * 65536 / cell["seconds"] / 1e6, rel=0.05)
    assert not cell["retried"] and not cell["failed"]


def test_refused_short_and_broken_answers_are_retried_on_new_connections_and_counted():
    with store("503 SlowDown", "short", "429 TooMany", "reset", "400 RequestTimeout", "fine") as (url, seen):
        found = report(f"{url}/a", "--seconds", "0.3", "--parts", "64Ki", "--flight", "1", code=1)
    (cell,) = found["cells"]
    assert cell["retried"] == {"503 SlowDown": 1, "short read": 1, "429 TooMany": 1, "connection reset": 1}
    assert cell["failed"] == {"400 RequestTimeout": 1}  # a status that is not retried
    assert len({port for *_, port in seen[1:6]}) == 5
    assert cell["requests_sent"] == cell["requests"] + 5 if cell["requests"] else cell["requests_sent"] == 5


def test_retried_requests_take_longer_and_do_not_count_twice():
    with store("503 SlowDown", "503 SlowDown", "503 SlowDown", "fine") as (url, _):
        (cell,) = report(f"{url}/a", "--seconds", "0.01", "--parts", "64Ki", "--flight", "1")["cells"]
    assert cell["retried"] == {"503 SlowDown": 3}
    assert cell["requests_sent"] == cell["requests"] + 3
    assert cell["whole_ms"]["p99"] > cell["first_byte_ms"]["p99"] + 10


def test_gives_up_after_the_attempts():
    with store("503 SlowDown") as (url, _):
        (cell,) = report(f"{url}/a", *QUICK, "--attempts", "2", code=1)["cells"]
        shown = run(f"{url}/a", *QUICK, "--attempts", "1")
    assert cell["retried"] == {"503 SlowDown": 2} and cell["failed"] == {"503 SlowDown": 2}
    assert cell["requests"] == 0 and "whole_ms" not in cell
    assert shown.returncode == 1 and "2 x FAILED 503 SlowDown" in shown.stdout


def test_a_stalled_answer_is_a_timeout():
    with store("stall", "fine") as (url, _):
        (cell,) = report(f"{url}/a", "--seconds", "0.3", "--parts", "64Ki", "--flight", "1", "--timeout", "1")["cells"]
    assert cell["retried"] == {"timeout": 1}


@pytest.mark.parametrize(
    ("trouble", "says"), [("403 ExpiredToken", "403 ExpiredToken"), ("no range", "200 the server ignores Range")]
)
def test_what_no_retry_mends_stops_the_sweep(trouble, says):
    with store(trouble) as (url, seen):
        (cell,) = report(f"{url}/a", *QUICK, code=1)["cells"]
    assert cell["failed"] == {says: 2} and not cell["retried"]
    assert len(seen) == 3


def test_puts_only_with_yes_and_of_the_size_asked():
    with store("fine") as (url, seen):
        asked = run("--put", f"{url}/bench-{{1..3}}", *QUICK)
        assert asked.returncode == 0 and "--yes" in asked.stdout and not seen
        found = report("--put", "--yes", f"{url}/bench-{{1..3}}", *QUICK)
    assert {entry[:3] for entry in seen} == {(f"/bucket/bench-{n}", 65536, None) for n in (1, 2, 3)}
    assert found["requests_sent"] == len(seen) == found["cells"][0]["requests"]


def test_urls_from_a_list(tmp_path):
    with store("fine") as (url, seen):
        (tmp_path / "urls").write_text(f"{url}/x?X-Amz-Signature=1\n\n{url}/y\n")
        report("--list", tmp_path / "urls", *QUICK)
    assert {path for path, *_ in seen} == {"/bucket/x?X-Amz-Signature=1", "/bucket/y"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to read"),
        (("s3://bucket/key",), "presign"),
        (("--list", "/nowhere"), "/nowhere"),
        (("http://127.0.0.1:9/a", "--attempts", "1"), "refused"),
        (("http://h/a", "--parts", "8Q"), "size like"),
        (("http://h/a", "--flight", "0"), "whole number"),
        (("http://h/a", "--seconds", "-1"), "number from 0"),
        (("--serve-demo", "99999"), "port"),
        (("http://h/{000000000..999999999}",), "more than 100,000"),
        (("http://h/{0..99999}{0..99999}",), "more than 100,000"),
        (("http://h/{9..1}",), "counts down: write {1..9}"),
        (("http://h/a", "--seconds", "0"), "--seconds 0 measures nothing"),
        (("--put", "--yes", "http://127.0.0.1:9/a", "--parts", "900000G"), "no memory"),
        (("http://[::1/a",), "http://[::1/a: Invalid IPv6"),
        (("http://127.0.0.1:port/a", "--attempts", "1"), "port"),
    ],
)
def test_misuse(arguments, says):
    result = run(*arguments)
    assert result.returncode == 2
    assert says in result.stderr and "Traceback" not in result.stderr


def test_a_list_that_is_not_text_is_misuse(tmp_path):
    (tmp_path / "urls").write_bytes(b"\xff\xfe\x00")
    result = run("--list", tmp_path / "urls")
    assert result.returncode == 2 and "urls is no text in UTF-8" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("wrong", ["s3://b/k", "http://[::1/a?key", "http://h/{0..99999}{0..9}", "http://h/ä"])
def test_the_line_of_a_list_is_named_and_no_key_is_shown(tmp_path, wrong):
    (tmp_path / "urls").write_text(f"http://h/a?key=secret\n\n{wrong}?key=secret\n", encoding="utf-8")
    result = run("--list", tmp_path / "urls")
    assert result.returncode == 2 and f"urls:3: {wrong.partition('?')[0]}" in result.stderr
    assert "secret" not in result.stderr and "Traceback" not in result.stderr


def test_a_list_with_a_byte_order_mark(tmp_path):
    with store("fine") as (url, _):
        (tmp_path / "urls").write_text(f"{url}/x\n", encoding="utf-8-sig")
        report("--list", tmp_path / "urls", *QUICK)


def test_an_object_of_unknown_size_is_misuse():
    with store("unsized") as (url, _):
        result = run(f"{url}/a", "--attempts", "1")
    assert result.returncode == 2 and "/a: its Content-Range tells no size" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, PROGRAM, "--put", "http://h/a"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_client_that_leaves_is_no_traceback_of_the_demo_store():
    process = subprocess.Popen(
        [sys.executable, PROGRAM, "--serve-demo", "0", "--latency-ms", "200"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.sendall(b"GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9999999\r\n\r\n")
    time.sleep(1)
    process.terminate()
    assert process.communicate(timeout=20)[1] == ""


def test_an_address_that_is_not_escaped_is_misuse():
    with store("fine") as (url, _):
        result = run(f"{url}/ä")
    assert result.returncode == 2 and "not ASCII" in result.stderr and "Traceback" not in result.stderr


def test_parts_to_put_may_be_large():
    with store("fine") as (url, seen):
        report("--put", "--yes", f"{url}/a", "--parts", "257Mi", "--flight", "1", "--seconds", "0.01")
    assert seen[0][1] == 257 << 20


def test_ctrl_c_ends_it_at_once_and_keeps_the_lines():
    with store("fine", "fine", "stall") as (url, seen):
        process = subprocess.Popen(
            [sys.executable, PROGRAM, f"{url}/a", "--parts", "64Ki", "--flight", "1", "--seconds", "5"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        head = process.stdout.readline()
        while len(seen) < 3:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, errors = process.communicate(timeout=20)
    assert "MiB" in head and "Traceback" not in errors
    assert time.monotonic() - start < 1
    assert process.returncode in (130, -signal.SIGINT)


def test_a_reader_may_leave_early():
    with store("fine") as (url, _):
        line = f"{sys.executable} {PROGRAM} {url}/a --parts 64Ki --flight 1,1,1 --seconds 0.1 | head -1"
        result = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""


def test_parts_larger_than_the_objects_are_misuse():
    with store("fine") as (url, _):
        result = run(f"{url}/a", "--parts", "2Mi")
    assert result.returncode == 2 and "2,097,152 bytes" in result.stderr


@contextmanager
def demo(*options):
    process = subprocess.Popen(
        [sys.executable, PROGRAM, "--serve-demo", "0", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().split()[1].replace("ANY-NAME", "shard-{0..3}")
    finally:
        process.terminate()
        process.wait()


def test_the_demo_store_has_the_latency_and_the_rate_that_were_set():
    with demo("--latency-ms", "40", "--rate", "20M") as url:
        small, large = report(url, "--seconds", "1", "--parts", "4Ki,1Mi", "--flight", "4")["cells"]
    assert 25 < small["first_byte_ms"]["p50"] < 80
    assert 10 < large["mb_per_second"] / 4 < 20  # 52 ms for 1 MiB and 40 ms before it
    assert large["whole_ms"]["p50"] > 70
    assert small["in_flight_for_1_gb_per_second"] > 50 * large["in_flight_for_1_gb_per_second"]


def test_the_demo_store_refuses_by_chance_and_above_its_limit():
    with demo("--latency-ms", "1", "--refuse", "30") as url:
        (cell,) = report(url, *QUICK)["cells"]
        assert cell["retried"]["503 SlowDown"] > 0 and not cell["failed"]
    with demo("--latency-ms", "1", "--limit", "50") as url:
        (cell,) = report(url, "--seconds", "2", "--parts", "4Ki", "--flight", "4", "--attempts", "20")["cells"]
    assert cell["retried"]["503 SlowDown"] > 0
    assert cell["requests_per_second"] < 80
