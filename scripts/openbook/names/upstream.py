"""Makes the lists of variables anew from upstream's source: `python -m openbook.names.upstream nccl TREE VERSION`.

TREE is a checkout, or an unpacked wheel. The lists that have no recipe here were read by hand; their heads say where.
"""

import argparse
import datetime
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbook.findings import Misuse, run
from openbook.names.lists import FOLDER, read

SOURCES = (".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".hh", ".py", ".rst", ".md", ".1", ".5", ".8", ".shtml")
SLURM_WORDS = (
    *("SLURM", "SLURMD", "SLURMCTLD", "SLURMDBD", "SBATCH", "SRUN", "SALLOC", "SQUEUE", "SINFO", "SACCT"),
    *("SCONTROL", "SCANCEL", "SPRIO", "SSTAT", "SREPORT", "SSHARE", "SCRUN", "SDIAG"),
)
SLURM_NAME = rf"(?:{'|'.join(SLURM_WORDS)})_[A-Z][A-Z0-9_]*[A-Z0-9]"


def texts(tree: Path, folders: Sequence[str] = (".",)) -> Iterator[str]:
    for folder in folders:
        for path in sorted((tree / folder).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                yield path.read_text(encoding="utf-8", errors="replace")


def matches(pattern: str, found: Iterable[str]) -> set[str]:
    """Group 1 of every match."""
    return {match[1] for text in found for match in re.finditer(pattern, text)}


def nccl(tree: Path) -> dict[str, str]:
    code = list(texts(tree, ("src", "plugins")))
    names = {f"NCCL_{name}" for name in matches(r'NCCL_PARAM\(\s*\w+,\s*"(\w+)"', code)}
    names |= matches(r"DEFINE_NCCL_PARAM\(\s*\w+,[^,]+,\s*(NCCL_\w+)", code)
    names |= matches(r'[gG]et_?[eE]nv\(\s*"(NCCL_\w+)"', code)
    names |= matches(r'ncclGetLevel\([^"]*"(NCCL_\w+)"', code) | matches(r'ncclGetLevel\([^)]*"(NCCL_\w+)"\)', code)
    names |= matches(r"(?m)^(NCCL_[A-Z0-9_]+)\s*\n-{4,}", texts(tree, ("docs",)))
    return dict.fromkeys(names, "")


def rccl(tree: Path) -> dict[str, str]:
    code = list(texts(tree, ("src",)))
    names = {f"RCCL_{name}" for name in matches(r'RCCL_PARAM\(\s*\w+,\s*"(\w+)"', code)}
    names |= {f"NCCL_{name}" for name in matches(r'NCCL_PARAM\(\s*\w+,\s*"(\w+)"', code)}
    names |= matches(r'[gG]et_?[eE]nv\(\s*"([NR]CCL_\w+)"', code) | matches(r"\b(RCCL_[A-Z0-9_]*[A-Z0-9])\b", code)
    return dict.fromkeys(names, "")


def aws_ofi_nccl(tree: Path) -> dict[str, str]:
    pattern = r'OFI_NCCL_PARAM{}\(\s*[\w:<>]+,\s*\w+,\s*"(\w+)"'
    code = list(texts(tree, ("include", "src")))
    names = {f"OFI_NCCL_{name}": "" for name in matches(pattern.format(""), code)}
    gone = matches(pattern.format("_(?:DEPRECATED|REMOVED)"), code)
    return names | {f"OFI_NCCL_{name}": " => -" for name in gone}


def libfabric(tree: Path) -> dict[str, str]:
    """Variables are FI_<PROVIDER>_<PARAMETER>; constants of the headers share the prefix."""
    return dict.fromkeys(
        matches(r"\b(FI_[A-Z0-9_]*[A-Z0-9])\b", texts(tree, ("include/rdma", "man"))) | fi_parameters(tree), ""
    )


def fi_parameters(tree: Path) -> set[str]:
    names = set()
    for path in sorted((tree / "prov").rglob("*.[ch]")):
        provider = path.relative_to(tree / "prov").parts[0]
        text = path.read_text(encoding="utf-8", errors="replace")
        for parameter in re.findall(r'fi_param_(?:define|get\w*)\(\s*&\w+,\s*"(\w+)"', text):
            names.add(f"FI_{provider}_{parameter}".upper())
    core = (tree / "src").rglob("*.c")
    for path in core:
        for parameter in re.findall(r'fi_param_define\(\s*NULL,\s*"(\w+)"', path.read_text(errors="replace")):
            names.add(f"FI_{parameter}".upper())
    return names


def rocm(tree: Path) -> dict[str, str]:
    """Of HIP's runtime (clr) and ROCr; TREE holds both."""
    code = list(texts(tree))
    names = matches(r'[gG]et_?[eE]nv(?:Var)?\(\s*"([A-Z][A-Z0-9]+_[A-Z0-9_]+)"', code)
    names |= matches(r"(?m)^(?:release|debug|release_on_stg)\([^,\n]+,\s*([A-Z][A-Z0-9_]+),", code)
    return dict.fromkeys((name for name in names if name.startswith(("AMD_", "GPU_", "HIP_", "HSA_", "ROC"))), "")


def slurm(tree: Path) -> dict[str, str]:
    """From the manual pages and from what the source sets or reads."""
    names = matches(rf"\b({SLURM_NAME})\b", texts(tree, ("doc",)))
    names |= matches(rf'"({SLURM_NAME})[="]', texts(tree, ("src",)))
    return dict.fromkeys(names, "")


def pytorch(tree: Path) -> dict[str, str]:
    """From the wheel: what Python reads, what headers name, and strings of the libraries."""
    beginning = r"(?:TORCH\w*|PYTORCH|GLOO|AOT_INDUCTOR|TRITON)_[A-Z0-9_]*[A-Z0-9]"
    headers = list(texts(tree, ("torch/include/torch", "torch/include/c10", "torch/include/ATen")))
    python = [path.read_text(encoding="utf-8") for path in (tree / "torch").rglob("*.py")]
    names = matches(rf"""["']({beginning})["']""", headers) | matches(rf"""["']({beginning})["']""", python)
    for library in sorted((tree / "torch" / "lib").glob("lib*.so")):
        strings = subprocess.run(["strings", "-n", "8", library], capture_output=True, text=True, check=True).stdout
        names |= matches(rf"(?m)^({beginning})$", [strings])
    found = dict.fromkeys(names, "")
    # getCvarString({"NEW", "OLD", …}): the first name counts, the others are still read.
    for text in headers:
        for group in re.findall(r'\{\s*("[A-Z_0-9]+"(?:,\s*"[A-Z_0-9]+")+)\s*\}', text):
            new, *old = re.findall(r'"(\w+)"', group)
            found |= {name: f" => {new}" for name in old if "_" in name}
    return found


def hugging_face(tree: Path) -> dict[str, str]:
    """TREE holds the unpacked wheels of huggingface_hub, transformers, datasets and accelerate."""
    return dict.fromkeys(matches(r"""["'](HF_[A-Z0-9_]+)["']""", texts(tree)), "")


def jax(tree: Path) -> dict[str, str]:
    names = matches(r"""["']((?:JAX|XLA|TPU)_[A-Z0-9_]+)["']""", texts(tree))
    names |= {name.upper() for name in matches(r"""["'](jax_\w+)["']""", texts(tree))}
    return dict.fromkeys(names, "")


@dataclass(frozen=True)
class Recipe:
    collect: Callable[[Path], dict[str, str]]
    title: str
    source: str
    families: str
    others: str = ""


GITHUB = "https://github.com"
RECIPES = {
    "nccl": Recipe(
        nccl,
        "Environment variables of NCCL, documented or not",
        f"{GITHUB}/NVIDIA/nccl",
        "NCCL_",
        "NCCL_ALGO_ NCCL_PROTO_ NCCL_FUNC_ NCCL_VERSION_ NCCL_LOG_ NCCL_TOPO_NODE_",
    ),
    "rccl": Recipe(rccl, "Environment variables of RCCL", f"{GITHUB}/ROCm/rccl", "RCCL_"),
    "aws-ofi-nccl": Recipe(
        aws_ofi_nccl, "Environment variables of the AWS OFI NCCL plugin", f"{GITHUB}/aws/aws-ofi-nccl", "OFI_NCCL_"
    ),
    "libfabric": Recipe(
        libfabric, "Environment variables and constants of libfabric", f"{GITHUB}/ofiwg/libfabric", "FI_"
    ),
    "rocm": Recipe(
        rocm,
        "Environment variables of ROCm: HIP's runtime and ROCr",
        f"{GITHUB}/ROCm/clr {GITHUB}/ROCm/rocm-systems/tree/develop/projects/rocr-runtime",
        "HIP_ HSA_ ROCR_ AMD_",
        "HSA_STATUS_ HSA_AMD_ HSA_EXT_ HSA_MACHINE_MODEL_ HSA_PROFILE_ HIP_ERROR_ HIP_VERSION HIP_R_ AMD_DBGAPI_",
    ),
    "slurm": Recipe(
        slurm,
        "Environment variables of Slurm: input, output, prolog and epilog",
        f"{GITHUB}/SchedMD/slurm",
        " ".join(f"{word}_" for word in SLURM_WORDS),
        "SLURM_SPANK_ SLURM_ERROR SLURM_SUCCESS SLURM_PROTOCOL_",
    ),
    "pytorch": Recipe(
        pytorch,
        "Environment variables of PyTorch, as the wheel names them",
        "https://pypi.org/project/torch/",
        "TORCH_ PYTORCH_ TORCHELASTIC_ TORCHDYNAMO_ TORCHINDUCTOR_ GLOO_",
        "TORCH_VERSION PYTORCH_VERSION TORCH_CHECK TORCH_WARN TORCH_INTERNAL_ASSERT TORCH_LIBRARY",
    ),
    "hugging-face": Recipe(
        hugging_face,
        "Environment variables of the Hugging Face libraries",
        "https://pypi.org/project/transformers/",
        "HF_",
    ),
    "jax": Recipe(jax, "Environment variables of JAX", "https://pypi.org/project/jax/", "JAX_ XLA_"),
}


def written(recipe: Recipe, version: str, names: dict[str, str], today: datetime.date) -> str:
    head = [recipe.title, f"source: {recipe.source}", f"version: {version}", f"read: {today}"]
    head += [f"families: {recipe.families}"] + ([f"others: {recipe.others}"] if recipe.others else [])
    return "".join(f"# {line}\n" for line in head) + "\n" + "".join(f"{n}{names[n]}\n" for n in sorted(names))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("tree", type=Path)
    parser.add_argument("version", help="as the head of the list shall say it")
    options = parser.parse_args(argv)
    recipe, path = RECIPES[options.recipe], FOLDER / "variables" / f"{options.recipe}.txt"
    names = recipe.collect(options.tree)
    if not names:
        raise Misuse(f"{options.tree}: no names found, is it the right tree?")
    before = read(path)[0].names if path.exists() else {}
    path.write_text(written(recipe, options.version, names, datetime.date.today()), encoding="utf-8")
    print(f"{path.name}: {len(names)} names, {len(names.keys() - before)} new, {len(before.keys() - names)} gone")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
