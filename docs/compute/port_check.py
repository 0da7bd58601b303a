#!/usr/bin/env python3
"""List what ties a source tree to NVIDIA, and what each line means on other accelerators.

    python3 port_check.py src/                          every finding, five targets
    python3 port_check.py src/ --target rocm            only AMD; exit code 0 if nothing needs work there
    python3 port_check.py . --exclude 'tests/*' --limit 0 --json

Reads Python and notebooks (syntax tree; nothing is imported or run), CUDA and C++ sources, shell, Docker, requirements,
TOML and YAML files. Hidden folders, build, dist and site-packages inside of the tree are left out. Targets: rocm (AMD GPUs), tpu (alias xla), neuron (AWS Trainium), hpu (Intel Gaudi), xpu (Intel GPUs).
Verdicts: works; change (a small edit, another package or a rebuild); blocks (rewrite, or do without).
It reads names, not behaviour: dynamic shapes, speed and numerics need a run. Standard library only.
Exit codes: 0 every file was read and nothing needs work on the targets; 1 something does, or a file could not be
read (it is named); 2 misuse.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import os
import re
import sys
import warnings
from pathlib import Path

TARGETS = ("rocm", "tpu", "neuron", "hpu", "xpu")
WORDS = {"w": "works", "c": "change", "b": "blocks"}
# kind: (verdict for each of TARGETS, what to do). Reasons and sources: the page "what porting costs" of the book.
KINDS = {
    "cuda-device": ("wcccc", 'take the device from torch.accelerator.current_accelerator(), not "cuda"'),
    "cuda-api": ("wcccc", "use the torch.accelerator function of the same name where there is one"),
    "cuda-amp": ("wcccc", "torch.amp.autocast(device.type), torch.amp.GradScaler(device.type); bf16 needs no scaler"),
    "cuda-visible": ("wcccc", "each runtime has its own variable for visible devices; better let the scheduler set it"),
    "cuda-graph": ("wcccc", "leave out behind a switch; torch.compile or the vendor's graphs take its place"),
    "capability": ("ccccc", "numbers of AMD and NVIDIA mean different things: test for the feature, not the number"),
    "compile": ("wcccw", 'torch.compile needs backend="tpu", "neuron" or "hpu_backend"; NVIDIA-only modes go'),
    "nccl-backend": ("wcccc", "leave the backend out of init_process_group: the device has a default"),
    "nccl-env": ("wcccc", "RCCL reads most NCCL_ variables, tuned values do not carry over; others ignore them"),
    "nvml": ("ccccc", "amdsmi or amd-smi, tpu-info, neuron-monitor, hl-smi; guard the import"),
    "environment": ("ccccc", "the vendor's image, wheel index and resource name (amd.com/gpu …)"),
    "arch-list": (
        "ccccc",
        "AMD: PYTORCH_ROCM_ARCH, CMAKE_HIP_ARCHITECTURES, such as gfx942; elsewhere the compiler decides",
    ),
    "fp8-ocp": ("cwccc", "MI300: e4m3fnuz, largest value 240; Neuron refuses e4m3fn: convert with scales; else test"),
    "cuda-source": ("cbbbb", "hipify converts most of it, and PyTorch's extension builder runs it; elsewhere rewrite"),
    "cuda-extension": ("cbbbb", "builds on ROCm if its sources convert; elsewhere Pallas, NKI, TPC or SYCL"),
    "warp-32": ("cbbbb", "a wavefront has 64 lanes on Instinct: 64-bit masks, ask warpSize at run time"),
    "ptx": ("bbbbb", "NVIDIA's instruction set: write the plain C++ or Triton fallback first"),
    "tensor-core": ("bbbbb", "CUTLASS, CuTe and wmma: call the matmul library, or rewrite (rocWMMA, CK, Triton)"),
    "triton-kernel": ("wbbbw", "runs on AMD and Intel GPUs, tune anew; Pallas on TPU, NKI on Neuron, TPC on Gaudi"),
    "triton-cuda": ("cbbbc", "tl.extra.cuda and its libdevice have counterparts per vendor: import them by target"),
    "apex": ("ccccc", "torch's own AMP and fused optimizers; ROCm has a fork"),
    "transformer_engine": ("cbbcb", "ROCm and Gaudi have their own; else torch's fp8 functions or bf16"),
    "attention": ("ccccc", "torch.nn.functional.scaled_dot_product_attention; flash_attn builds on ROCm (CK, Triton)"),
    "bitsandbytes": ("wbbcw", "from 0.50 for AMD and Intel GPUs; on Gaudi no 8-bit optimizers, and 4-bit in part"),
    "tensorrt": ("bbbbb", "NVIDIA only: the vendor's compiler or a serving framework"),
    "dali": ("ccccc", "rocAL on AMD; elsewhere decode on the CPU"),
    "cuda-python": ("cbbbb", "CuPy has ROCm builds; PyCUDA, Numba's CUDA target, RAPIDS: rewrite with torch or NumPy"),
}
PACKAGES = {"apex": "apex", "bitsandbytes": "bitsandbytes", "transformer_engine": "transformer_engine"}
PACKAGES.update(dict.fromkeys(("flash_attn", "flash_attn_interface", "xformers", "flashinfer"), "attention"))
PACKAGES.update(dict.fromkeys(("cupy", "pycuda", "cudf", "cuml", "cugraph"), "cuda-python"))
PACKAGES.update(dict.fromkeys(("tensorrt", "torch_tensorrt", "tensorrt_llm"), "tensorrt"))
PACKAGES.update(dict.fromkeys(("pynvml", "py3nvml", "nvidia_smi"), "nvml"), cutlass="tensor-core")
DOTTED = (  # the first pattern that fits the full name of an attribute or an import
    (re.compile(r"torch\.cuda\.amp\b"), "cuda-amp"),
    (re.compile(r"torch\.cuda\.(CUDAGraph|graphs?|make_graphed_callables|graph_pool_handle)\b"), "cuda-graph"),
    (re.compile(r"torch\.cuda\.get_device_capability$"), "capability"),
    (re.compile(r"torch\.cuda\b"), "cuda-api"),
    (re.compile(r"torch\.float8_e(4m3fn|5m2)$"), "fp8-ocp"),
    (re.compile(r"torch\.compile$"), "compile"),
    (re.compile(r"torch\.utils\.cpp_extension\.CUDAExtension$"), "cuda-extension"),
    (re.compile(r"torch\.distributed\.ProcessGroupNCCL\b"), "nccl-backend"),
    (re.compile(r"numba\.cuda\b"), "cuda-python"),
    (re.compile(r"triton\.language\.inline_asm_elementwise$"), "ptx"),
    (re.compile(r"triton\.language\.extra\.(cuda|libdevice)\b"), "triton-cuda"),
    (re.compile(r"triton\.jit$"), "triton-kernel"),
    (re.compile(r"nvidia\.dali\b"), "dali"),
)
STRINGS = (
    (re.compile(r"cuda(:(\d*|%[ds]|\{\w*\}))?$"), "cuda-device"),
    (re.compile(r"(.*[:,])?nccl$"), "nccl-backend"),
    (re.compile(r"NCCL_[A-Z0-9_]+$"), "nccl-env"),
    (re.compile(r"CUDA_VISIBLE_DEVICES$"), "cuda-visible"),
    (re.compile(r"(\S*/)?nvidia-smi(\s+-.*)?$"), "nvml"),
    (re.compile(r"TORCH_CUDA_ARCH_LIST$|(.*[=,])?(sm|compute)_\d{2,3}a?$|-gencode"), "arch-list"),
)
C_CODE = (
    (  # but not the instructions of AMD GPUs and of CPUs
        re.compile(
            r"\b(?:asm|__asm__)\b\s*(?:volatile|__volatile__)?\s*\("
            r"(?!\s*(?:R?\"(?:[\\nt;\s]*)(?:[sv]_\w|ds_|buffer_|pause|nop\"|rdtsc|cpuid|[lms]fence|yield|isb|dmb)|\"\"))"
        ),
        "ptx",
    ),
    (re.compile(r"\bwmma::|\bmma\.sync|[<\"](cutlass|cute)/"), "tensor-core"),
    (re.compile(r"__(shfl|ballot|any|all|match|reduce)\w*_sync\b|warp_?size\w*\W{1,8}32\b", re.I), "warp-32"),
    (re.compile(r"(mask\s*=\s*|mask\s+|warp.*|lane.*|shfl.*|ballot.*)\b0xf{8}u?\b", re.I), "warp-32"),  # not a hash
    (re.compile(r"#\s*include\s*[<\"](cuda\w*|cublas\w*|cudnn\w*|nccl|cub/|thrust/)"), "cuda-source"),
)
SCRIPTS = (
    (re.compile(r"\bnvidia-smi\b"), "nvml"),
    (re.compile(r"nvcr\.io|nvidia/cuda:|\+cu\d{2,3}\b|whl/cu\d+|nvidia-\w+-cu\d+|nvidia\.com/gpu"), "environment"),
    (
        re.compile(r"\b(pytorch-cuda|cudatoolkit|cupy-cuda\w+)\b|\bmodule\s+(load|add)\s.*\b(cuda|CUDA)\b"),
        "environment",
    ),
    (re.compile(r"\bdevice\w*[\"']?\s*[:=\s]\s*[\"']?cuda\b"), "cuda-device"),
    (re.compile(r"\bbackend[\"']?\s*[:=\s]\s*[\"']?nccl\b"), "nccl-backend"),
    (re.compile(r"TORCH_CUDA_ARCH_LIST|CMAKE_CUDA_ARCH|-gencode|\bsm_\d{2,3}"), "arch-list"),
    (re.compile(r"\bNCCL_[A-Z0-9_]+\s*[=:]"), "nccl-env"),
    (re.compile(r"\bCUDA_VISIBLE_DEVICES\b"), "cuda-visible"),
)
CUDA_BUILD = re.compile(r"\.cuh?\b|\bcuda_sources|\bwith_cuda|_cuda_cflags|__global__")  # else plain C++: portable
MAGIC = re.compile(r"(\s*)(?:(?:\w[\w, ]*=\s*)?(?:%[\w%]|![^\s=]).*|\?.+|[\w.]+\?{1,2}\s*)")  # a line of IPython's own
CUDA_FILES = (".cu", ".cuh")
C_FILES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl")
LARGEST = 20_000_000  # bytes; longer files are data
SCRIPT_FILES = (".sh", ".sbatch", ".slurm", ".toml", ".yaml", ".yml", ".cmake", ".def")
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}  # folders; hidden ones too


class PythonFile(ast.NodeVisitor):
    """Findings of one syntax tree: (line, kind, text), at most one of a kind in a line."""

    def __init__(self, text: str) -> None:
        self.text = text  # of the whole file
        self.found: dict[tuple[int, str], str] = {}
        self.names: dict[str, str] = {}  # local name → what it was imported as: tl → triton.language

    def add(self, line: int, kind: str, text: str) -> None:
        self.found.setdefault((line, kind), text)

    def name_of(self, node: ast.AST) -> str:
        """Full dotted name of an expression with the imports put in; "" if it is not one."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.names.get(node.id, node.id), *reversed(parts)])

    def check_name(self, line: int, name: str, imported: bool = False) -> None:
        kind = next((kind for pattern, kind in DOTTED if pattern.match(name)), None)
        if imported:  # a package counts where it is imported
            kind = kind or PACKAGES.get(name.split(".")[0])
        if kind:
            self.add(line, kind, name)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self.names[alias.asname] = alias.name
            self.check_name(node.lineno, alias.name, imported=True)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names if node.module and not node.level else ():
            full = f"{node.module}.{alias.name}"
            self.names[alias.asname or alias.name] = full
            if full not in ("torch.compile", "triton.jit"):  # these count where they are used
                self.check_name(node.lineno, full, imported=True)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.name_of(node)
        if name:
            self.check_name(node.lineno, name)
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            self.check_name(node.lineno, self.names[node.id])

    def visit_Call(self, node: ast.Call) -> None:
        name = self.name_of(node.func)
        if getattr(node.func, "attr", "") == "cuda" and name != "torch.cuda":
            self.add(node.func.end_lineno or node.lineno, "cuda-device", ".cuda()")
        builds = name in ("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")
        if builds and CUDA_BUILD.search(self.text):
            self.add(node.lineno, "cuda-extension", name)
        if name in ("os.path.join", "pathlib.Path"):  # a folder named cuda or nccl is no device
            for argument in node.args:
                if not isinstance(argument, ast.Constant):
                    self.visit(argument)
            return
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        for pattern, kind in STRINGS:
            if pattern.match(node.value):
                self.add(node.lineno, kind, repr(node.value)[:60])
        if "__global__" in node.value:  # CUDA source in a string
            self.add(node.lineno, "cuda-source", "__global__ in a string")
            for number, kind, text in scan(node.value.splitlines(), C_CODE, comment="//"):
                self.add(node.lineno + number - 1, kind, text)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring says nothing about the code
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if is_32(node.value) and any(re.search(r"warp_?size|per_?warp", name, re.I) for name in names):
            self.add(node.lineno, "warp-32", f"{names[0]} = 32")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        if any(map(is_32, sides)) and any("warp" in self.name_of(side).lower() for side in sides):
            self.add(node.lineno, "warp-32", "arithmetic with 32 and a number of warps")
        if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):  # a path / "cuda"
            self.visit(node.left)
        else:
            self.generic_visit(node)


def is_32(node: ast.AST) -> bool:
    """Whether the expression is the number 32."""
    return isinstance(node, ast.Constant) and node.value == 32


def scan(lines: list[str], patterns: tuple, comment: str) -> list[tuple[int, str, str]]:
    """(line, kind, matched text) of each pattern that occurs before the comment sign of a line."""
    rows = []
    for number, line in enumerate(lines, 1):
        line = line[:2000]  # longer ones are data, and patterns would take long
        code = line.split(comment)[0] if comment == "//" else re.split(r"(?:^|\s)#", line)[0]
        if not line.lstrip().startswith("* "):  # inside of a block comment
            matches = ((kind, pattern.search(code)) for pattern, kind in patterns)
            rows += [(number, kind, match.group().strip()[:60]) for kind, match in matches if match]
    return rows


def lines_of(text: str) -> list[str]:
    """Lines as editors count them; str.splitlines() also breaks at form feeds."""
    return re.split(r"\r\n|\r|\n", text)


def notebook_findings(text: str) -> list[tuple[int, str, str]]:
    """(line in its cell, kind, text with the number of the cell) of a Jupyter notebook. Raises ValueError."""
    visitor, rows = PythonFile(text), []
    notebook = json.loads(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("no notebook of format 4")
    for count, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        lines = lines_of("".join(cell.get("source", [])))
        found = []
        if re.match(r"%%(bash|sh|script)\b", lines[0]):
            found = scan(lines, SCRIPTS, comment="#")
        elif not re.match(r"%%(?!time|capture|prun)", lines[0]):
            magics: list[re.Match | None] = []
            for before, line in zip(["", *lines], lines):  # a command may go on in the next line
                magics.append(magics[-1] if magics and before.endswith("\\") and magics[-1] else MAGIC.fullmatch(line))
            found = scan([line if magic else "" for line, magic in zip(lines, magics)], SCRIPTS, comment="#")
            visitor.found = {}
            try:
                tree = ast.parse("\n".join(lines))  # "% (a, b)" may begin a line of plain Python, too
            except SyntaxError:
                tree = ast.parse("\n".join(m[1] + "pass" if m else line for line, m in zip(lines, magics)))
            visitor.visit(tree)
            found += [(line, kind, what) for (line, kind), what in visitor.found.items()]
        rows += [(line, kind, f"cell {count}: {what}") for line, kind, what in sorted(found)]
    return rows


def findings_of(path: Path) -> list[tuple[int, str, str]] | None:
    """(line, kind, text) of a file; None for other kinds. Raises OSError, SyntaxError, ValueError and MemoryError."""
    name, suffix = path.name, path.suffix.lower()
    script = suffix in SCRIPT_FILES or name.startswith(("Dockerfile", "requirements", "CMakeLists", "Containerfile"))
    if suffix not in (".py", ".ipynb", *CUDA_FILES, *C_FILES) and not script:
        return None
    if not path.is_file():
        raise OSError("no regular file, or a link to nothing")
    if path.stat().st_size > LARGEST:
        raise OSError(f"larger than {LARGEST // 1_000_000} MB")
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError("NUL bytes in it: no text in UTF-8")
    text = raw.decode("utf-8-sig", errors="replace")
    if suffix == ".py":
        visitor = PythonFile(text)
        try:
            tree = ast.parse(raw)  # bytes: the coding line counts
        except SyntaxError:
            tree = ast.parse(text)
        visitor.visit(tree)
        return [(line, kind, what) for (line, kind), what in sorted(visitor.found.items())]
    if suffix == ".ipynb":
        return notebook_findings(text)
    if script:
        return scan(lines_of(text), SCRIPTS, comment="#")
    # block comments go, their line ends stay
    text = re.sub(r"/\*(?:.*?\*/|.*\Z)", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.S)
    rows = [(1, "cuda-source", f"{suffix} file")] if suffix in CUDA_FILES else []
    if rows or re.search(r"__(device|global)__|\bcuda|\bnccl", text):  # else asm() may be the CPU's
        rows += [r for r in scan(lines_of(text), C_CODE, comment="//") if not rows or r[1] != "cuda-source"]
    return rows


def files_of(roots: list[Path], excluded: list[str], problems: list[str]) -> list[tuple[Path, str]]:
    """(path, path shown) of all files below the roots but hidden, generated and excluded ones, each once."""
    found: dict[str, tuple[Path, str]] = {}
    for root in roots:
        if root.is_file():
            found.setdefault(os.path.realpath(root), (root, str(root)))
            continue
        for folder, folders, names in os.walk(root, onerror=lambda error: problems.append(str(error))):
            folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
            for path in (Path(folder) / name for name in sorted(names)):
                shown = path.relative_to(root).as_posix() if len(roots) == 1 else str(path)
                if not any(fnmatch.fnmatch(shown, pattern) for pattern in excluded):
                    found.setdefault(os.path.realpath(path), (path, shown))
    return list(found.values())


def report(result: dict, limit: int) -> None:
    """Print the lines that need work, hardest first, then the sums and what to do."""
    targets = result["targets"]
    weight = {"works": 0, "change": 1, "blocks": 9}
    findings = [(sum(weight[verdict] for verdict in f["verdicts"].values()), f) for f in result["findings"]]
    hardest = [f for work, f in sorted(findings, key=lambda pair: -pair[0]) if work]
    shown = hardest[: limit or None]
    width = max([len(f"{f['file']}:{f['line']}") for f in shown] or [8])
    print(f"{'where':{width}}  {'kind':18}" + "".join(f"{target:8}" for target in targets) + "what")
    for f in shown:
        verdicts = "".join(f"{f['verdicts'][target]:8}" for target in targets)
        print(f"{f['file'] + ':' + str(f['line']):{width}}  {f['kind']:18}{verdicts}{f['text']}")
    if len(hardest) > len(shown):
        print(f"... and {len(hardest) - len(shown)} more; --limit 0 shows all")
    print(f"\n{result['files']} files, {len(findings)} findings; lines by verdict:")
    for target in targets:
        print(f"  {target:7}" + "".join(f"{result['summary'][target][word]:7} {word}" for word in weight))
    kinds = [f["kind"] for f in hardest]
    if kinds:
        print("\nwhat to do, most frequent first:")
    for kind in sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind)):
        print(f"{kinds.count(kind):6} {kind:18}{KINDS[kind][1]}")
    for problem in result["unreadable"]:
        print(f"not read: {problem}")


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="+", type=Path, help="folder or file")
    parser.add_argument("--target", default=",".join(TARGETS), help="comma-separated: " + ", ".join(TARGETS))
    parser.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="path pattern to leave out")
    parser.add_argument("--limit", type=int, default=30, help="findings to list; 0: all (default 30)")
    parser.add_argument("--json", action="store_true", help="one JSON document, all findings")
    options = parser.parse_args(arguments)
    names = [target.strip() for target in options.target.split(",")]
    targets = list(dict.fromkeys("tpu" if name == "xla" else name for name in names))
    for target in (target for target in targets if target not in TARGETS):
        parser.error(f"unknown target {target!r}: choose from {', '.join(TARGETS)}")
    for path in [path for path in options.path if not os.path.exists(path)]:
        parser.error(f"{path} does not exist")
    if options.limit < 0:
        parser.error("--limit must be 0 or more")
    result: dict = {"targets": targets, "files": 0, "summary": {}, "unreadable": [], "findings": []}
    for path, shown in files_of(options.path, options.exclude, result["unreadable"]):
        try:
            rows = findings_of(path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, TypeError) as problem:
            result["unreadable"].append(f"{shown}: {str(problem) or type(problem).__name__}")
            continue
        result["files"] += rows is not None
        for line, kind, text in rows or ():
            verdicts = {t: WORDS[KINDS[kind][0][TARGETS.index(t)]] for t in targets}
            result["findings"].append({"file": shown, "line": line, "kind": kind, "text": text, "verdicts": verdicts})
    if not result["files"] and not result["unreadable"]:
        parser.error("no Python, notebook, C++, CUDA or script file there")
    verdicts = [(t, finding["verdicts"][t]) for finding in result["findings"] for t in targets]
    result["summary"] = {t: {word: verdicts.count((t, word)) for word in WORDS.values()} for t in targets}
    print(json.dumps(result, indent=1)) if options.json else report(result, options.limit)
    return int(any(verdict != "works" for _, verdict in verdicts) or bool(result["unreadable"]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the scanned code, such as invalid escapes
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = main()
        sys.stdout.flush()
    except OSError as problem:  # the reader of a pipe left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1 if isinstance(problem, BrokenPipeError) else 2
        if code == 2:
            print(f"port_check.py: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
