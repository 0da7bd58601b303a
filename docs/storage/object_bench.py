#!/usr/bin/env python3
"""Measure ranged GETs (or PUTs) of an object store: latency, throughput, retries by reason.

    object_bench.py 'https://HOST/BUCKET/shard-{000..099}.tar'       public or gateway URLs
    object_bench.py --list presigned.txt --parts 1Mi,8Mi --flight 1,16,64
    object_bench.py --put --yes 'http://HOST/BUCKET/bench-{00..63}'  overwrites these objects
    object_bench.py --serve-demo 8099 --latency-ms 30 --rate 90M     a store to try it on

Every cell of the sweep keeps --flight requests going for --seconds, each on a connection of its own,
from random places, so that caches help little. Refused, broken and short answers are retried with full
jitter and counted. No proxies. Requests can cost money: the last line says how many were sent.
Exit codes: 0 measured, 1 some requests failed for good, 2 misuse.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import math
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

RETRIED = {408, 429, 500, 502, 503, 504}  # what the stores' own clients retry
BASE, CAP = 0.1, 5.0  # seconds of backoff: first, longest
MOST = 100_000  # names of one pattern
REASONS: Any = (
    (http.client.IncompleteRead, "short read"),
    ((ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected), "connection reset"),
    (socket.timeout, "timeout"),  # TimeoutError from Python 3.10 on
)
HEAD = """   MiB flight     MB/s  req/s first byte ms with retries ms for 1 GB/s  retried
                                50/90/99 %      50/90/99 %     flight"""
UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 1024, "MI": 1024**2, "GI": 1024**3}


class Misuse(Exception):
    """The request makes no sense here; the message names the fix (exit code 2)."""


class Refused(Exception):
    """An answer without data: its status, the store's error code, seconds that it asks to wait."""


def byte_count(text: str) -> int:
    """Parse `8Mi` (2**20) or `90M` (10**6) into bytes."""
    match = re.fullmatch(r"(\d+)([KMG]?i?)B?", text, re.I)
    size = int(match[1]) * UNITS.get(match[2].upper(), 0) if match else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 256Ki, 8Mi or 90M")
    return size


def whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 4096")
    return int(text)


def amount(text: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 0 to 999999")
    return float(text)


def expand(pattern: str) -> Iterator[str]:
    """`shard-{08..11}.tar` stands for four names, as in a shell and in WebDataset."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if not match:
        yield pattern
        return
    names = range(int(match[1]), int(match[2]) + 1)
    if not names:
        raise Misuse(f"{pattern} counts down: write {{{match[2]}..{match[1]}}}")
    for n in names:
        yield from expand(pattern[: match.start()] + str(n).zfill(len(match[1])) + pattern[match.end() :])


def addresses(args: argparse.Namespace) -> list[SplitResult]:
    """The URLs of the command line and of --list. Raises Misuse, which names the line, and no key of a presigned URL."""
    named = [("", url) for url in args.url]
    if args.list:
        try:
            text = Path(args.list).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as problem:
            raise Misuse(f"{args.list} is no text in UTF-8: {problem}") from None
        lines = enumerate(text.splitlines(), 1)
        named += [(f"{args.list}:{number}: ", url) for number, line in lines for url in line.split()]
    found: list[SplitResult] = []
    for place, pattern in named:
        shown = place + pattern.partition("?")[0]
        urls = list(itertools.islice(expand(pattern), MOST + 1))
        if len(urls) > MOST:
            raise Misuse(f"{shown} stands for more than {MOST:,} names")
        try:
            targets = [urlsplit(url) for url in urls]
        except ValueError as problem:
            raise Misuse(f"{shown}: {problem}") from None
        if any(target.scheme not in ("http", "https") or not target.hostname for target in targets):
            raise Misuse(f"{shown}: http and https URLs only; presign s3://, for example with `aws s3 presign`")
        if not pattern.isascii():
            raise Misuse(f"{shown}: escape what is not ASCII, as in %C3%B6")
        found += targets
    if not found:
        raise Misuse("nothing to read: give URLs, --list FILE, or --serve-demo PORT for a store to try")
    return found


def percentiles(seconds: list[float]) -> dict[str, float]:
    ranked = sorted(seconds)  # nearest rank, in ms
    return {f"p{p}": round(1000 * ranked[math.ceil(p / 100 * len(ranked)) - 1], 1) for p in (50, 90, 99)}


class Client:
    """One connection that is kept, and what happened on it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.timeout, self.attempts = args.timeout, args.attempts
        self.connection, self.server = None, ("", "")
        self.sent = self.connections = 0
        self.first: list[float] = []
        self.took: list[float] = []
        self.retried, self.failed = Counter[str](), Counter[str]()

    def connect(self, target: SplitResult) -> None:
        if self.connection and self.server == (target.scheme, target.netloc):
            return
        self.drop()
        kind: Any = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(target.netloc, timeout=self.timeout)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server = (target.scheme, target.netloc)
        self.connections += 1

    def drop(self) -> None:
        """A connection that failed is not used again: the next may reach another server."""
        if self.connection:
            self.connection.close()
        self.connection = None

    def once(self, target: SplitResult, at: int, part: int, body: Any) -> Any:
        """GET the part, or PUT the body: seconds to the first byte, headers. Raises Refused, OSError, HTTPException."""
        self.connect(target)
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        self.sent += 1
        start = time.perf_counter()
        headers = {} if body else {"Range": f"bytes={at}-{at + part - 1}"}
        self.connection.request("PUT" if body else "GET", path, body, headers)
        answer = self.connection.getresponse()
        first = time.perf_counter() - start
        if answer.status not in ((200, 201, 204) if body else (206,)):
            code = re.search(rb"<Code>(\w+)</Code>", b"" if answer.status == 200 else answer.read(65536))
            pause = re.fullmatch(r"\d+", answer.getheader("Retry-After", ""))
            self.drop()
            why = code[1].decode() if code else "the server ignores Range" if answer.status == 200 else ""
            raise Refused(answer.status, why, int(pause[0]) if pause else 0)
        got = sum(len(chunk) for chunk in iter(lambda: answer.read(1 << 20), b""))
        if not body and got != part:
            raise http.client.IncompleteRead(b"", part - got)
        return first, answer.headers

    def request(self, target: SplitResult, at: int, part: int, body: Any = None) -> Any:
        """The same with retries and full jitter; the headers, or None after the last attempt."""
        begin = time.perf_counter()
        for attempt in range(self.attempts):
            wait = 0
            try:
                first, answer = self.once(target, at, part, body)
                self.first.append(first)
                self.took.append(time.perf_counter() - begin)  # with its retries: what the loader waits
                return answer
            except Refused as refusal:
                status, code, wait = refusal.args
                reason = f"{status} {code}".strip()
                if status not in RETRIED:
                    break
            except (http.client.HTTPException, OSError) as problem:
                self.drop()
                reason = next((name for kind, name in REASONS if isinstance(problem, kind)), repr(problem))
            if attempt + 1 < self.attempts:
                self.retried[reason] += 1
                time.sleep(max(min(wait, 4 * CAP), random.uniform(0, min(CAP, BASE * 2**attempt))))
        self.failed[reason] += 1
        return None


def size_of(target: SplitResult, args: argparse.Namespace) -> int:
    """Bytes of an object, by a GET of its first byte: a presigned GET is no HEAD. Raises Misuse."""
    client = Client(args)
    headers = client.request(target, 0, 1)
    client.drop()
    if headers is None:
        raise Misuse(f"{target.geturl().partition('?')[0]}: {', '.join(client.failed)}")
    size = headers.get("Content-Range", "/").rpartition("/")[2]
    if not size.isdecimal():
        raise Misuse(f"{target.geturl().partition('?')[0]}: its Content-Range tells no size")
    return int(size)


def cell(args: argparse.Namespace, targets: list[SplitResult], sizes: list[int], part: int, flight: int) -> dict:
    """Keep `flight` requests of `part` bytes going for --seconds."""
    usable = [n for n in range(len(targets)) if sizes[n] >= part]
    if not usable:
        raise Misuse(f"no object has the {part:,} bytes of one of --parts")
    clients = [Client(args) for _ in range(flight)]
    body = os.urandom(part) if args.put else None
    turn, start = itertools.count(), time.perf_counter()

    def work(client: Client) -> None:
        while time.perf_counter() < start + args.seconds and (client.took or not client.failed):
            n = usable[next(turn) % len(usable)]
            client.request(targets[n], random.randrange(sizes[n] // part) * part, part, body)
        client.drop()

    with ThreadPoolExecutor(flight) as pool:
        list(pool.map(work, clients))
    return summary(clients, part, flight, time.perf_counter() - start)


def summary(clients: list[Client], part: int, flight: int, seconds: float) -> dict[str, Any]:
    took = [value for client in clients for value in client.took]
    found: dict[str, Any] = {
        "part": part,
        "in_flight": flight,
        "seconds": round(seconds, 3),
        "requests": len(took),
        "requests_sent": sum(client.sent for client in clients),
        "connections": sum(client.connections for client in clients),
        "requests_per_second": round(len(took) / seconds, 1),
        "mb_per_second": round(len(took) * part / seconds / 1e6, 1),
        "retried": dict(sum((client.retried for client in clients), Counter())),
        "failed": dict(sum((client.failed for client in clients), Counter())),
    }
    if took:
        found["first_byte_ms"] = percentiles([value for client in clients for value in client.first])
        found["whole_ms"] = percentiles(took)
        found["in_flight_for_1_gb_per_second"] = math.ceil(1e9 / part * sum(took) / len(took))
    return found


def show(found: dict[str, Any]) -> str:
    times = ["/".join(f"{v:.0f}" for v in found.get(name, {}).values()) for name in ("first_byte_ms", "whole_ms")]
    troubles = [f"{n} x {why}" for why, n in found["retried"].items()]
    troubles += [f"{n} x FAILED {why}" for why, n in found["failed"].items()]
    return (
        f"{found['part'] / 2**20:>6g} {found['in_flight']:>6} {found['mb_per_second']:>8,.1f}"
        f" {found['requests_per_second']:>6,.0f} {times[0]:>13} {times[1]:>15}"
        f" {found.get('in_flight_for_1_gb_per_second', '-'):>10}  {', '.join(troubles)}"
    ).rstrip()


class Demo(BaseHTTPRequestHandler):
    """Any path is an object of --size zero bytes: slow to start, limited per connection, refused by 503."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    args: argparse.Namespace
    lock, second, count = threading.Lock(), 0, 0

    def log_message(self, *_: Any) -> None: ...

    def answer(self, status: int, length: int, span: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Range", span)
        self.end_headers()

    def admitted(self) -> bool:
        """Wait for the first byte's time; or send SlowDown, by chance or where --limit is reached."""
        with Demo.lock:
            now = int(time.time())
            Demo.second, Demo.count = now, Demo.count + 1 if now == Demo.second else 1
            over = 0 < self.args.limit < Demo.count
        if over or random.random() * 100 < self.args.refuse:
            text = b"<Error><Code>SlowDown</Code></Error>"
            self.answer(503, len(text))
            self.wfile.write(text)
            return False
        time.sleep(self.args.latency_ms / 1000 * random.lognormvariate(0, 0.35))  # one in a hundred: 2.3 times it
        return True

    def paced(self, size: int) -> Iterator[int]:
        """Pieces of at most 256 KiB, as fast as --rate allows."""
        start, done = time.perf_counter(), 0
        while done < size:
            piece = min(1 << 18, size - done)
            done += piece
            yield piece
            time.sleep(max(0.0, start + done / self.args.rate - time.perf_counter()))

    def do_GET(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(match[1]), int(match[2])) if match else (0, self.args.size)
        length = min(last, self.args.size - 1) - first + 1
        if self.admitted():
            self.answer(206 if match else 200, length, f"bytes {first}-{first + length - 1}/{self.args.size}")
            for piece in self.paced(length):
                self.wfile.write(bytes(piece))

    def do_PUT(self) -> None:
        for piece in self.paced(int(self.headers.get("Content-Length", 0))):
            self.rfile.read(piece)
        if self.admitted():
            self.answer(200, 0)


def serve(args: argparse.Namespace) -> int:
    Demo.args = args
    ThreadingHTTPServer.request_queue_size = 1024
    ThreadingHTTPServer.handle_error = lambda *_: None  # a client that leaves early is no news
    with ThreadingHTTPServer(("127.0.0.1", args.serve_demo), Demo) as server:
        print(f"serving http://127.0.0.1:{server.server_port}/bucket/ANY-NAME until Ctrl+C", flush=True)
        server.serve_forever()
    return 0


def measure(args: argparse.Namespace) -> int:
    targets = addresses(args)
    if not args.seconds:
        raise Misuse("--seconds 0 measures nothing: give each cell some time")
    if args.put and not args.yes:
        print(f"would overwrite {len(targets)} objects with {args.parts} bytes, over and over: add --yes")
        return 0
    targets = targets if args.put else targets[:: -(-len(targets) // 64)]  # each is asked for its size
    sizes = [max(args.parts) if args.put else size_of(target, args) for target in targets]
    cells, say = [], (lambda _: None) if args.json else (lambda line: print(line, flush=True))
    say(HEAD)
    for part, flight in itertools.product(args.parts, args.flight):
        cells.append(cell(args, targets, sizes, part, flight))
        say(show(cells[-1]))
    sent = (0 if args.put else len(sizes)) + sum(found["requests_sent"] for found in cells)
    say(f"{sent:,} requests sent to {len(targets)} objects")
    if args.json:
        print(json.dumps({"put": args.put, "objects": len(targets), "requests_sent": sent, "cells": cells}), flush=True)
    return int(any(found["failed"] for found in cells))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("url", nargs="*", help="objects; {000..099} is expanded")
    add("--list", metavar="FILE", help="a file of URLs, presigned ones for example, one a line")
    add("--parts", type=lambda t: [byte_count(p) for p in t.split(",")], default="256Ki,1Mi,8Mi", help="request sizes")
    add("--flight", type=lambda t: [whole(p) for p in t.split(",")], default="1,8,32", help="requests at a time")
    add("--seconds", type=amount, default=5.0, help="for each cell (default 5)")
    add("--timeout", type=whole, default=20, help="seconds without data (default 20)")
    add("--attempts", type=whole, default=6, help="of a request (default 6)")
    add("--put", action="store_true", help="write these objects instead of reading them")
    add("--yes", action="store_true", help="really write")
    add("--json", action="store_true", help="print one JSON document")
    add = parser.add_argument_group("a store to try it on").add_argument
    add("--serve-demo", type=int, metavar="PORT", help="serve one on 127.0.0.1; 0 takes a free port")
    add("--latency-ms", type=amount, default=30.0, help="median time to the first byte (default 30)")
    add("--rate", type=byte_count, default="90M", help="bytes per second of a connection (default 90M)")
    add("--refuse", type=amount, default=0.0, help="percent of requests answered with 503")
    add("--limit", type=amount, default=0.0, help="requests per second above which 503 is sent")
    add("--size", type=byte_count, default="64Mi", help="of every object (default 64Mi)")
    args = parser.parse_args()
    try:
        return measure(args) if args.serve_demo is None else serve(args)
    except BrokenPipeError:  # `| head` has read enough; the sockets' own are dealt with in request()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError:
        print("object_bench.py: no memory for a body of --parts: smaller ones", file=sys.stderr)
        return 2
    except (Misuse, OSError, OverflowError, ValueError) as problem:
        print(f"object_bench.py: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once, not when the requests in flight have timed out
    try:
        code = main()
        sys.stdout.flush()
    except OSError as problem:  # the reader of a pipe left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 141 if isinstance(problem, BrokenPipeError) else 2
        if code == 2:
            print(f"object_bench.py: {problem}", file=sys.stderr)
    sys.exit(code)
