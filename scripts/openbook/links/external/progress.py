"""One line on a terminal that says how far the run is; nothing in a log."""

import os
import sys
import time
from typing import TextIO


class Progress:
    def __init__(self, total: int, out: TextIO | None = None):
        self.total, self.done, self.bad = total, 0, 0
        self._out = out or sys.stderr
        self._shown = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._began = self._last = time.monotonic()

    def step(self, url: str, good: bool) -> None:
        self.done += 1
        self.bad += not good
        now = time.monotonic()
        if self._shown and (now - self._last > 0.1 or self.done == self.total):
            self._last = now
            line = f"{self.done} of {self.total} addresses, {self.bad} not good, {now - self._began:.0f} s  {url}"
            self._out.write(f"\r\x1b[K{line[: _width() - 1]}")
            self._out.flush()

    def end(self) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
