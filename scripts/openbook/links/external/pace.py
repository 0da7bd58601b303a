"""When a host is asked: one request at a time, with a pause between two, longer when it wants that."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TypeVar

T, R = TypeVar("T"), TypeVar("R")


class OutOfTime(Exception):
    """The run ends, so nothing can be said about this address."""


@dataclass
class _Host:
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0
    limiting: bool = False


class Pace:
    """Spacing in seconds between two requests to one host; `seconds` is the time of the whole run."""

    def __init__(self, spacing: float = 1.0, seconds: float = 1500.0):
        self.spacing = spacing
        self.end = time.monotonic() + seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}

    def _host(self, name: str) -> _Host:
        with self._lock:
            return self._hosts.setdefault(name, _Host())

    @property
    def left(self) -> float:
        return -1.0 if self._stop.is_set() else self.end - time.monotonic()

    def stop(self) -> None:
        """Wake all that wait, with OutOfTime."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        if self._stop.wait(max(0.0, min(seconds, self.left))) or self.left <= 0:
            raise OutOfTime

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Have the host to oneself for one request."""
        host = self._host(name)
        while not host.lock.acquire(timeout=0.2):
            self.wait(0)
        try:
            self.wait(host.free_at - time.monotonic())
            yield
        finally:
            host.free_at = max(host.free_at, time.monotonic() + self.spacing)
            host.lock.release()

    def hold(self, name: str, seconds: float) -> None:
        """Nobody asks the host for that long."""
        host = self._host(name)
        host.free_at = max(host.free_at, time.monotonic() + seconds)

    def limit(self, name: str) -> None:
        """The host wants no more requests in this run."""
        self._host(name).limiting = True

    def is_limiting(self, name: str) -> bool:
        return self._host(name).limiting


def in_groups(
    groups: Sequence[Sequence[T]], ask: Callable[[T], R], pace: Pace, workers: int = 16
) -> Iterator[tuple[T, R]]:
    """Ask for every item, those of a group in order and groups side by side; ends early when the time is up.

    The threads are left behind then: each holds one request, which has its own limits.
    """
    waiting: SimpleQueue[Sequence[T]] = SimpleQueue()
    for group in groups:
        waiting.put(group)
    answers: SimpleQueue[tuple[T, R] | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            while pace.left > 0:
                for item in waiting.get_nowait():
                    answers.put((item, ask(item)))
        except (Empty, OutOfTime):
            pass
        except BaseException as problem:
            answers.put(problem)
        finally:
            answers.put(None)

    running = min(workers, len(groups))
    for _ in range(running):
        threading.Thread(target=work, daemon=True).start()
    while running:
        try:
            answer = answers.get(timeout=0.2)  # short, so that Ctrl-C is heard on every system
        except Empty:
            if pace.left < -1:
                return
            continue
        if answer is None:
            running -= 1
        elif isinstance(answer, BaseException):
            raise answer
        else:
            yield answer
