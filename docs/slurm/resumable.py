#!/usr/bin/env python3
"""A stand-in for a training loop that can be stopped and continued: it counts steps.

After each step it looks for the stop file; once that exists it saves and ends. It resumes from its
checkpoint. Only rank 0 (SLURM_PROCID) saves. In a real program rank 0 looks for the file and
broadcasts what it saw, so that all ranks stop after the same step: a rank that leaves a collective
early hangs the others.

Exit codes: 0 finished, or saved because it was asked to; 1 the checkpoint cannot be read or written; 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path


def save(path: Path, step: int) -> None:
    """Write the checkpoint so that a kill in the middle leaves the old one whole."""
    part = path.with_suffix(".part")
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def load(path: Path) -> int:
    """Steps done so far; 0 without a checkpoint. Raises ValueError, KeyError or TypeError on a broken one."""
    step = int(json.loads(path.read_text(encoding="utf-8"))["step"]) if path.exists() else 0
    if step < 0:
        raise ValueError(f"negative step {step}")
    return step


def main() -> int:
    """Count from the checkpoint to --steps; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="JSON file to resume from and to save to")
    parser.add_argument("--stop-file", type=Path, required=True, help="save and stop once this file exists")
    parser.add_argument("--steps", type=int, default=600, help="steps in all (default 600)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a step (default 1)")
    options = parser.parse_args()
    if options.steps < 1 or not 0 <= options.seconds <= 3600:
        parser.error("--steps must be at least 1, and --seconds from 0 to 3600")
    rank = int(os.environ.get("SLURM_PROCID") or 0)
    try:
        step = load(options.checkpoint)
    except (ValueError, KeyError, TypeError):
        print(f"{options.checkpoint} is no checkpoint: remove it, or restore an older one", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"cannot read the checkpoint: {error}", file=sys.stderr)
        return 1

    print(f"rank {rank} starts at step {step}", flush=True)
    asked = False
    while step < options.steps and not asked:
        time.sleep(options.seconds)
        step += 1
        asked = options.stop_file.exists()
    if rank == 0:
        try:
            save(options.checkpoint, step)
        except OSError as error:
            print(f"cannot save step {step}: {error}", file=sys.stderr)
            return 1
    print(f"rank {rank} {'saves and stops' if asked else 'ends'} at step {step} of {options.steps}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
