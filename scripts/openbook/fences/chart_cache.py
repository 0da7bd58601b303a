"""Drawn charts, kept in .cache/charts by what they show: pygal is loaded only where something changed."""

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from openbook import ROOT
from openbook.fences.chart_draw import draw
from openbook.fences.chart_model import Chart

FOLDER = ROOT / ".cache" / "charts"


@cache
def _drawers() -> bytes:
    """What the drawing depends on beside the chart: pygal and the modules here."""
    sources = sorted(Path(__file__).parent.glob("chart_*.py"))
    return version("pygal").encode() + b"".join(source.read_bytes() for source in sources)


def drawn(chart: Chart, identifier: str) -> str:
    """The svg element, as `draw` makes it. A cache that cannot be read or written is no cache."""
    key = hashlib.sha256(_drawers() + repr((chart, identifier)).encode()).hexdigest()
    path = FOLDER / f"{key[:40]}.svg"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        kept = path.read_text(encoding="utf-8")
        if kept.startswith("<svg ") and kept.endswith("</svg>"):
            return kept
    made = draw(chart, identifier)
    with contextlib.suppress(OSError):
        FOLDER.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=FOLDER, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(made)
        os.replace(name, path)  # at once: another build may read it
    return made
