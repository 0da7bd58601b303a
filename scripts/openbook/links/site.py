"""The built site as files: what exists, exactly as it is spelt."""

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from openbook.findings import Misuse

PAGES = (".html", ".htm")


def folded(path: str) -> str:
    """Equal for paths that a case-insensitive or normalising file system takes for one."""
    return unicodedata.normalize("NFC", path).casefold()


@dataclass
class Site:
    """The files below `root`, by their path relative to it, with `/` between the parts."""

    root: Path
    files: frozenset[str]
    folders: frozenset[str]
    _folded: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path) -> "Site":
        if not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise Misuse(f"{root} {what}: --site wants the folder of a built site (python -m mkdocs build)")
        files, folders = set(), set()

        def no_access(problem: OSError) -> None:
            raise Misuse(f"{problem.filename}: {problem.strerror}") from problem

        seen, start = set(), str(root)
        for folder, inner, names in os.walk(start, onerror=no_access, followlinks=True):
            status = os.stat(folder)
            if (real := (status.st_dev, status.st_ino)) in seen:  # a symbolic link leads back
                inner.clear()
                continue
            seen.add(real)
            here = folder[len(start) :].strip(os.sep).replace(os.sep, "/")
            prefix = here + "/" if here else ""
            folders.add(prefix.rstrip("/"))
            files.update(prefix + name for name in names)
            for name in inner:
                if name == "index.html":
                    raise Misuse(f"{root / prefix / name} is a folder where a page is expected")
        if not any(name.endswith(PAGES) for name in files):
            raise Misuse(f"{root} has no HTML page: --site wants the folder of a built site (python -m mkdocs build)")
        return cls(root, frozenset(files), frozenset(folders))

    @property
    def pages(self) -> list[str]:
        return sorted(name for name in self.files if name.endswith(PAGES))

    def bytes(self, file: str) -> bytes:
        try:
            with open(os.path.join(self.root, file), "rb") as content:  # quicker than Path.read_bytes
                return content.read()
        except OSError as problem:
            raise Misuse(f"{self.root / file} cannot be read: {problem.strerror}") from problem

    def page(self, file: str) -> bytes:
        """The HTML of a page; a page that is empty or not UTF-8 stops the run."""
        raw = self.bytes(file)
        if not raw.strip():
            raise Misuse(f"{self.root / file} is empty")
        try:
            raw.decode()
        except UnicodeDecodeError as problem:
            raise Misuse(f"{self.root / file} is not UTF-8: {problem.reason} at byte {problem.start}") from problem
        return raw.removeprefix(b"\xef\xbb\xbf")

    def file_for(self, path: str) -> str:
        """The file that a server sends for a path: a folder gives its index.html."""
        if not path or path.endswith("/"):
            return path + "index.html"
        return path if path in self.files or path not in self.folders else path + "/index.html"

    def spelt(self, file: str) -> str | None:
        """The file whose name differs from `file` only in letter case (or in how accents are encoded)."""
        if not self._folded:
            self._folded = {folded(name): name for name in sorted(self.files)}
        return self._folded.get(folded(file))
