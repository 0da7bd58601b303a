"""docs/compute/port_check.py: small source trees with known findings; the program is run as a reader runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/compute/port_check.py"


def run(*options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-S", PROGRAM, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def kinds(folder: Path, name: str, text: str) -> set[tuple[int, str]]:
    """(line, kind) of one file."""
    (folder / name).write_text(text)
    report = json.loads(run(folder / name, "--json").stdout)
    assert report["unreadable"] == []
    return {(finding["line"], finding["kind"]) for finding in report["findings"]}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('x = t.to("cuda:1")', "cuda-device"),
        ("x = model.cuda()", "cuda-device"),
        ("torch.cuda.synchronize()", "cuda-api"),
        ("with torch.cuda.amp.autocast(): pass", "cuda-amp"),
        ("g = torch.cuda.CUDAGraph()", "cuda-graph"),
        ("big = torch.cuda.get_device_capability() >= (9, 0)", "capability"),
        ("step = torch.compile(step)", "compile"),
        ('init_process_group(backend="nccl")', "nccl-backend"),
        ('init_process_group("cpu:gloo,cuda:nccl")', "nccl-backend"),
        ('os.environ["NCCL_ALGO"] = "Ring"', "nccl-env"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"', "cuda-visible"),
        ('run(["nvidia-smi", "-q"])', "nvml"),
        ("import pynvml", "nvml"),
        ("from apex.optimizers import FusedAdam", "apex"),
        ("import transformer_engine.pytorch as te", "transformer_engine"),
        ("from flash_attn import flash_attn_func", "attention"),
        ("import xformers.ops", "attention"),
        ("import bitsandbytes as bnb", "bitsandbytes"),
        ("import tensorrt_llm", "tensorrt"),
        ("w = w.to(torch.float8_e4m3fn)", "fp8-ocp"),
        ('flags = ["-gencode=arch=compute_90,code=sm_90"]', "arch-list"),
        ("WARP_SIZE = 32", "warp-32"),
        ("threads = num_warps * 32", "warp-32"),
    ],
)
def test_a_line_of_python(tmp_path, line, kind):
    found = kinds(tmp_path, "code.py", f"import os, torch\n{line}\n")
    assert (2, kind) in found


def test_kernels_are_seen_through_the_names_they_were_imported_as(tmp_path):
    text = '''\
import triton as t
import triton.language as tl
from torch.utils.cpp_extension import load_inline as build

@t.jit
def kernel(x):
    return tl.inline_asm_elementwise("rcp", "=r", [x], tl.float32, True, 1)

module = build(name="m", cuda_sources="""
__global__ void k(int *p) {
    asm volatile("nop;");
    int v = __shfl_xor_sync(0xffffffff, *p, 1);
}""")
'''
    found = kinds(tmp_path, "code.py", text)
    assert {(5, "triton-kernel"), (7, "ptx"), (9, "cuda-extension"), (9, "cuda-source")} <= found
    assert {(11, "ptx"), (12, "warp-32")} <= found  # lines inside of the string


def test_prose_and_portable_code_are_no_findings(tmp_path):
    text = '"""Runs on cuda with nccl and __global__."""\nimport torch\nd = torch.accelerator.current_accelerator()\n'
    text += "# x.cuda()\nprint('no nvidia-smi, so no clock', 'barracuda', d)\nnum_warps = 32\n"
    assert kinds(tmp_path, "code.py", text) == set()


def test_cuda_and_c_sources(tmp_path):
    text = '// asm("x")\n/*\n * wmma::fragment\n */\n#define WARP_SIZE 32\nwmma::fragment f;\n__ballot_sync(m, p);\n'
    found = kinds(tmp_path, "kernel.cu", text)
    assert found == {(1, "cuda-source"), (5, "warp-32"), (6, "tensor-core"), (7, "warp-32")}
    assert kinds(tmp_path, "cpu.cpp", '__asm__("pause"); asm volatile("pause");\n') == set()  # the CPU's assembly
    assert kinds(tmp_path, "host.cpp", "#include <cuda_runtime.h>\n") == {(1, "cuda-source")}


def test_scripts_and_images(tmp_path):
    assert kinds(tmp_path, "Dockerfile", "FROM nvcr.io/nvidia/pytorch:26.01-py3\n") == {(1, "environment")}
    assert kinds(tmp_path, "requirements.txt", "torch==2.9.0+cu128\nnumpy\n") == {(1, "environment")}
    script = "# nvidia-smi\nnvidia-smi -L\nexport NCCL_IB_HCA=mlx5\nTORCH_CUDA_ARCH_LIST=9.0 pip install .\n"
    assert kinds(tmp_path, "job.sbatch", script) == {(2, "nvml"), (3, "nccl-env"), (4, "arch-list")}


def test_exit_code_follows_the_target(tmp_path):
    (tmp_path / "code.py").write_text("x = x.cuda()\n")
    assert run(tmp_path, "--target", "rocm").returncode == 0
    assert run(tmp_path, "--target", "xla").returncode == 1
    (tmp_path / "code.py").write_text("x = x.to(device)\n")
    assert run(tmp_path).returncode == 0


def test_report_lists_the_hardest_first_and_sums_by_target(tmp_path):
    (tmp_path / "a.py").write_text("import tensorrt\n" + "x.cuda()\n" * 3)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/b.py").write_text("x.cuda()\n")
    result = run(tmp_path, "--exclude", "tests/*", "--limit", 2)
    rows = result.stdout.splitlines()
    assert rows[1].split()[:3] == ["a.py:1", "tensorrt", "blocks"]
    assert "... and 2 more" in result.stdout and "1 files, 4 findings" in result.stdout
    assert "  rocm         3 works      0 change      1 blocks" in rows
    report = json.loads(run(tmp_path, "--json").stdout)
    assert report["summary"]["tpu"] == {"works": 0, "change": 4, "blocks": 1} and len(report["findings"]) == 5


def test_a_file_that_does_not_parse_is_named(tmp_path):
    (tmp_path / "old.py").write_text("print 'x'\n")
    result = run(tmp_path)
    assert result.returncode == 0 and "not read: old.py" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [(["missing"], "does not exist"), ([".", "--target", "cuda"], "unknown target 'cuda'"), (["empty"], "no Python")],
)
def test_misuse(tmp_path, options, message):
    (tmp_path / "empty").mkdir()
    result = run(*[tmp_path / name if name != "." and "-" not in name and name != "cuda" else name for name in options])
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
