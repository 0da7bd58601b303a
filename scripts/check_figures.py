#!/usr/bin/env python3
"""Check the figures of the book: `check_figures.py --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from openbook.data.cli import main
    from openbook.findings import run
except ModuleNotFoundError as problem:
    print(f"error: {problem.name} is missing: use the book's environment, which scripts/test makes", file=sys.stderr)
    sys.exit(2)

if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(main))
