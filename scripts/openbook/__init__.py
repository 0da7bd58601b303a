"""The machinery of the book: one renderer, findings, reporters."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
