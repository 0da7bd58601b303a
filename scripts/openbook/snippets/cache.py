"""Runs that passed, by content: one empty file each. What failed is never kept."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

from openbook import ROOT

FOLDER = ROOT / ".cache" / "snippets"
VERSION = 1  # raise it when running changes its meaning


def key_of(**parts: object) -> str:
    """A digest of everything that a result depends on."""
    text = json.dumps({"cache": VERSION, **parts}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    def __init__(self, folder: Path = FOLDER):
        self.folder = folder

    def passed(self, key: str) -> bool:
        return (self.folder / key).is_file()

    def keep(self, key: str) -> None:
        """Written beside and moved, so that an interrupted run leaves nothing behind that counts."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=".new")
            os.close(handle)
            os.replace(name, self.folder / key)
        except OSError:
            pass  # a cache that cannot be written only costs time
