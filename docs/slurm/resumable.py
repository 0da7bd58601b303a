#!/usr/bin/env python3
"""A stand-in for a training loop that can be stopped and continued: it counts steps.

Between two steps it looks for the stop file and for SIGUSR1; either makes it save and exit with
code 85, which the batch script takes as "unfinished, requeue me". It resumes from its checkpoint.
Only rank 0 (SLURM_PROCID) saves; a real program must also agree on the step at which all ranks
stop, because a rank that leaves a collective early hangs the others.

Exit codes: 0 all steps done, 85 saved but unfinished, 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

UNFINISHED = 85  # any code that neither Python, the shell nor Slurm uses


def save(path: Path, step: int) -> None:
    """Write the checkpoint so that a kill in the middle leaves the old one whole."""
    part = path.with_suffix(".part")
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def load(path: Path) -> int:
    """Steps done so far; 0 without a checkpoint."""
    return json.loads(path.read_text(encoding="utf-8"))["step"] if path.exists() else 0


def main() -> int:
    """Count from the checkpoint to --steps; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="JSON file to resume from and to save to")
    parser.add_argument("--stop-file", type=Path, help="save and stop once this file exists")
    parser.add_argument("--steps", type=int, default=600, help="steps in all (default 600)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a step (default 1)")
    options = parser.parse_args()

    asked = []
    signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))  # only notes it: saving here is unsafe
    rank = int(os.environ.get("SLURM_PROCID", "0"))
    step = load(options.checkpoint)
    print(f"rank {rank} starts at step {step}", flush=True)
    while step < options.steps:
        time.sleep(options.seconds)
        step += 1
        stop = bool(asked) or (options.stop_file is not None and options.stop_file.exists())
        if rank == 0 and (stop or step == options.steps):
            save(options.checkpoint, step)
        if stop and step < options.steps:
            print(f"rank {rank} saved and stops at step {step} of {options.steps}", flush=True)
            return UNFINISHED
    print(f"rank {rank} is done at step {step}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
