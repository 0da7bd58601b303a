#!/usr/bin/env python3
"""Check the code blocks of the book: `check_snippets.py --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from openbook.findings import run
    from openbook.snippets.cli import main
except ModuleNotFoundError as problem:
    print(f"error: {problem.name} is missing: use the book's environment, which scripts/test makes", file=sys.stderr)
    sys.exit(2)

if __name__ == "__main__":
    try:
        code = run(main)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
