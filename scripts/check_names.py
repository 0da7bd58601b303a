#!/usr/bin/env python3
"""Check that variables, options and calls on pages are real: `check_names.py --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from openbook.findings import run
    from openbook.names.cli import main
except ModuleNotFoundError as problem:
    print(f"error: {problem.name} is missing: use the book's environment, which scripts/test makes", file=sys.stderr)
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(run(main))
