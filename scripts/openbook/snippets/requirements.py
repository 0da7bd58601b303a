"""What a machine may lack without the page being wrong, and where it comes from."""

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
MODULES = {"torch": TORCH, "numpy": "pip install numpy"}
SLURM = "sudo apt-get install slurm-wlm munge"
COMMANDS = {
    "torchrun": TORCH,
    "fio": "sudo apt-get install fio",
    "gdb": "sudo apt-get install gdb",
    "mpirun": "sudo apt-get install openmpi-bin",
    **dict.fromkeys(("gcc", "g++"), "sudo apt-get install gcc g++"),
    **dict.fromkeys(("sbatch", "srun", "sinfo", "squeue", "scontrol"), "sudo apt-get install slurm-client"),
}
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")  # of a Slurm of one's own


def nvcc() -> str | None:
    """NVIDIA's compiler: on the PATH, of the toolkit, or from the wheel nvidia-cuda-nvcc."""
    wheels = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/bin/nvcc"))
    return shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin") or next(
        map(str, wheels), None
    )


def missing(kind: str) -> str:
    """What fences of a kind need before they can start and this machine lacks; empty where it has everything."""
    if kind == "slurm":
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        lacking = [name for name in DAEMONS if shutil.which(name, path=path) is None]
        return f"needs {', '.join(lacking)}: {SLURM}" if lacking else ""
    if kind == "cuda" and nvcc() is None:
        return "needs nvcc: pip install nvidia-cuda-nvcc"
    return ""


def absent(output: str) -> str:
    """A known requirement that the output says is missing, and that is; with how to install it."""
    for name, source in MODULES.items():
        said = f"No module named '{name}'" in output or (name == "torch" and "PyTorch is missing" in output)
        if said and importlib.util.find_spec(name) is None:
            return f"{name}: {source}"
    for name, source in COMMANDS.items():
        if re.search(rf"\b{re.escape(name)}: (?:command )?not found", output) and shutil.which(name) is None:
            return f"{name}: {source}"
    return ""
