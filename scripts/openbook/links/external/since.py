"""Which lines are new since a revision, as git tells it: the addresses there are the author's to mend."""

import os
import re
import subprocess
from pathlib import Path

from openbook.findings import Misuse

_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_IN_URL = re.compile(r"[^\s<>\"'`)\]]")


class NewLines:
    """Lines of the working tree that the common ancestor of HEAD and `revision` does not have."""

    def __init__(self, revision: str, folder: Path):
        self._folder = folder
        if revision.startswith("-"):
            raise Misuse(f"--new-since wants a revision, not {revision!r}")
        self._git("rev-parse", "--git-dir", fix="--new-since works in a git repository")
        self._root = Path(self._git("rev-parse", "--show-toplevel").strip())
        self._git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", fix=_fix(f"no revision {revision!r}"))
        no_base = _fix(f"no common ancestor of {revision} and HEAD is known")
        base = self._git("merge-base", revision, "HEAD", fix=no_base).strip()
        self.lines: dict[str, set[int]] = {}
        self._removed = ""
        self._read_diff(
            self._git(
                "-c", "core.quotePath=false", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv",
                "--find-renames", "--src-prefix=a/", "--dst-prefix=b/", base, "--",
            )
        )  # fmt: skip
        others = self._git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/")
        self._untracked = {self._absolute(name) for name in others.split("\0") if name}

    def has(self, path: str, line: int, url: str) -> bool:
        """Whether the address came with the line. One that only moved from another line is not new."""
        file = os.path.realpath(path)
        if file not in self._untracked and line not in self.lines.get(file, ()):
            return False
        start = 0
        while (at := self._removed.find(url, start)) >= 0:
            start = at + len(url)
            if not _IN_URL.match(self._removed, start):
                return False
        return True

    def _read_diff(self, diff: str) -> None:
        removed, current, left = [], set(), [0, 0]
        for line in diff.split("\n"):
            if left[0] and line.startswith("-"):
                left[0] -= 1
                removed.append(line[1:])
            elif left[1] and line.startswith("+"):
                left[1] -= 1
            elif hunk := _HUNK.match(line):
                old = re.match(r"@@ -\d+(?:,(\d+))?", line)[1]
                count = int(hunk[2] or 1)
                left = [int(old or 1), count]
                current.update(range(int(hunk[1]), int(hunk[1]) + count))
            elif line.startswith("+++ b/"):
                current = self.lines.setdefault(self._absolute(line[6:].removesuffix("\t")), set())
        self._removed = "\n".join(removed)

    def _absolute(self, name: str) -> str:
        return os.path.realpath(self._root / name)

    def _git(self, *arguments: str, fix: str = "") -> str:
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=self._folder, capture_output=True, encoding="utf-8", errors="replace"
            )
        except FileNotFoundError as problem:
            raise Misuse("git is missing, and --new-since asks it") from problem
        if done.returncode:
            raise Misuse(fix or f"git {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout


def _fix(problem: str) -> str:
    return f"{problem}: fetch it (git fetch origin; in a workflow, actions/checkout with fetch-depth: 0)"
