"""docs/compute/port_check.py: small source trees with known findings; the program is run as a reader runs it."""

import json
import os
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
        ('x = torch.zeros(1, device=f"cuda:{rank}")', "cuda-device"),
        ('x = torch.device("cuda:" + str(rank))', "cuda-device"),
        ('x = torch.device("cuda:{}".format(rank))', "cuda-device"),
        ("import cupy as cp", "cuda-python"),
        ("from numba import cuda", "cuda-python"),
        ("options = torch.distributed.ProcessGroupNCCL.Options()", "nccl-backend"),
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


def test_names_of_folders_plain_cpp_and_assignments_are_no_findings(tmp_path):
    text = "import os\np = os.path.join(d, 'cuda', 'nccl')\nq = p / 'cuda'\n"  # names of folders
    text += "from torch.utils.cpp_extension import load\nm = load(name='m', sources=['plain.cpp'])\n"
    text += "from triton.language.extra import libdevice as lib\nlib = None\n"
    assert kinds(tmp_path, "code.py", text) == {(6, "triton-cuda")}


def test_the_line_is_where_the_call_stands(tmp_path):
    assert kinds(tmp_path, "code.py", "x = (\n    make(1)\n    .cuda()\n)\n") == {(3, "cuda-device")}


@pytest.mark.parametrize(
    "line",
    [
        'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");',  # of AMD GPUs
        'asm volatile("pause" ::: "memory");',  # of CPUs
        "int32_t low = int32_t(value & 0xFFFFFFFF);",  # no mask of lanes
        "  File copied from <cutlass/epilogue/epilogue.h>",  # inside of a block comment
    ],
)
def test_c_that_is_not_nvidias(tmp_path, line):
    text = f"/*\n{line}\n*/\n" if line.startswith("  ") else f"{line}\n"
    assert kinds(tmp_path, "code.cpp", "cudaStream_t s;\n" + text) == set()


def test_cuda_and_c_sources(tmp_path):
    text = '// asm("x")\n/*\n * wmma::fragment\n */\n#define WARP_SIZE 32\nwmma::fragment f;\n__ballot_sync(m, p);\n'
    found = kinds(tmp_path, "kernel.cu", text)
    assert found == {(1, "cuda-source"), (5, "warp-32"), (6, "tensor-core"), (7, "warp-32")}
    assert kinds(tmp_path, "cpu.cpp", '__asm__("pause"); asm volatile("pause");\n') == set()  # the CPU's assembly
    text = 'unsigned mask = 0xffffffff;\n#define FULL_MASK 0xffffffffu\n__reduce_add_sync(m, v);\nasm("ld.global;");\n'
    found = {(1, "cuda-source"), (1, "warp-32"), (2, "warp-32"), (3, "warp-32"), (4, "ptx")}
    assert kinds(tmp_path, "mask.cuh", text) == found
    assert kinds(tmp_path, "host.cpp", "#include <cuda_runtime.h>\n") == {(1, "cuda-source")}


def test_scripts_and_images(tmp_path):
    assert kinds(tmp_path, "Dockerfile", "FROM nvcr.io/nvidia/pytorch:26.01-py3\n") == {(1, "environment")}
    assert kinds(tmp_path, "requirements.txt", "torch==2.9.0+cu128\nnumpy\n") == {(1, "environment")}
    script = "# nvidia-smi\nnvidia-smi -L\nexport NCCL_IB_HCA=mlx5\nTORCH_CUDA_ARCH_LIST=9.0 pip install .\n"
    assert kinds(tmp_path, "job.sbatch", script) == {(2, "nvml"), (3, "nccl-env"), (4, "arch-list")}
    assert kinds(tmp_path, "job.sh", "module load gcc CUDA/12.8\n") == {(1, "environment")}
    assert kinds(tmp_path, "run.yaml", "device: cuda\nbackend: 'nccl'\n") == {(1, "cuda-device"), (2, "nccl-backend")}


def test_a_notebook(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["x.cuda()"]},
        {"cell_type": "code", "source": ["import torch.cuda as tc\n", "%time\n", "!nvidia-smi\n", "x.cuda()"]},
        {"cell_type": "code", "source": "%%bash\nexport NCCL_DEBUG=INFO\n"},
        {"cell_type": "code", "source": "%%time\nfor i in x:\n    !ls\ntc.synchronize()"},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    report = json.loads(run(tmp_path, "--json").stdout)
    found = [(f["line"], f["kind"], f["text"].split(":")[0]) for f in report["findings"]]
    assert report["unreadable"] == []
    assert found == [
        (1, "cuda-api", "cell 2"),
        (3, "nvml", "cell 2"),
        (4, "cuda-device", "cell 2"),
        (2, "nccl-env", "cell 3"),
        (4, "cuda-api", "cell 4"),
    ]


def notebook(folder: Path, *sources: str) -> dict:
    """The report on a notebook of these code cells."""
    cells = [{"cell_type": "code", "source": source} for source in sources]
    (folder / "a.ipynb").write_text(json.dumps({"cells": cells}))
    return json.loads(run(folder, "--json").stdout)


@pytest.mark.parametrize(
    "line",
    [
        "print('%d' % 3)",
        "if 1 != 2: pass",
        "x = (3\n  %(4))",
        "print(1\n  != 2)",
        "%time x = 1",
        "model?",
        "?model",
        "!pip install \\\n    torch",
        "files = !ls\nif files != 2: pass",
    ],
)
def test_a_notebook_with_percent_signs_and_lines_of_ipython(tmp_path, line):
    report = notebook(tmp_path, f"{line}\nmodel.cuda()")
    assert report["unreadable"] == []
    assert [finding["text"] for finding in report["findings"]] == ["cell 1: .cuda()"]


def test_a_notebook_with_a_long_line_takes_no_time(tmp_path):
    report = notebook(tmp_path, f"x = '{'iVBORw0K' * 25_000}'", f"y = (1 +{' ' * 50_000}2)", "model.cuda()")
    assert (report["unreadable"], len(report["findings"])) == ([], 1)


@pytest.mark.parametrize("name", ["a.cpp", "a.sh", "requirements.txt"])
def test_a_file_in_utf_16_is_named_as_not_read(tmp_path, name):
    (tmp_path / name).write_bytes("nvidia-smi\ncudaMalloc();\n".encode("utf-16"))
    done = run(tmp_path)
    assert done.returncode == 1 and f"not read: {name}: NUL bytes" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written(tmp_path):
    (tmp_path / "a.py").write_text("model.cuda()")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, PROGRAM, tmp_path], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


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


def test_a_file_that_cannot_be_read_is_named_and_is_no_clean_result(tmp_path):
    (tmp_path / "old.py").write_text("print 'x'\n")
    (tmp_path / "zero.py").write_bytes(b"x = 1\0")
    (tmp_path / "deep.py").write_text("x = " + "-" * 100_000 + "1\n")
    (tmp_path / "lost.py").symlink_to("nothing")
    (tmp_path / "list.ipynb").write_text("[]")
    (tmp_path / "null.ipynb").write_text('{"cells": [{"cell_type": "code", "source": null}]}')
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    result = run(tmp_path)
    assert result.returncode == 1 and result.stderr == ""
    named = {line.split(": ")[1] for line in result.stdout.splitlines() if line.startswith("not read")}
    assert named == {"old.py", "zero.py", "deep.py", "lost.py", "list.ipynb", "null.ipynb", "pipe.py"}


def test_encodings(tmp_path):
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfx.cuda()\n")
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\ns = '\xe9'\nx.cuda()\n")
    (tmp_path / "wrong.py").write_bytes(b"# \xe9\nx.cuda()\n")
    report = json.loads(run(tmp_path, "--json").stdout)
    assert [(f["file"], f["line"]) for f in report["findings"]] == [("bom.py", 1), ("latin.py", 3), ("wrong.py", 2)]


def test_a_long_line_of_letters_takes_no_time(tmp_path):
    (tmp_path / "data.h").write_text("__device__\n" + "a" * 300_000 + "\n")
    assert run(tmp_path).returncode == 0  # run() stops after 60 seconds


def test_a_file_named_twice_counts_once(tmp_path):
    (tmp_path / "a.py").write_text("x.cuda()\n")
    report = json.loads(run(tmp_path, tmp_path / "a.py", "--target", "rocm, rocm,xla", "--json").stdout)
    assert report["summary"] == {
        "rocm": {"works": 1, "change": 0, "blocks": 0},
        "tpu": {"works": 0, "change": 1, "blocks": 0},
    }


def test_a_reader_that_leaves_and_a_terminal_without_unicode(tmp_path):
    (tmp_path / "a.py").write_text("x.cuda()\n" * 20_000)
    (tmp_path / "Dockerfile").write_text("FROM nvidia/cuda:12\n")
    command = f"'{sys.executable}' '{PROGRAM}' '{tmp_path}' --limit 0 | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stdout.startswith("where") and result.stderr == ""
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, str(PROGRAM), str(tmp_path), "--limit", "1"]
    result = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and result.stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["missing"], "does not exist"),
        (["empty", "--limit=-1"], "0 or more"),
        ([".", "--target", "cuda"], "unknown target 'cuda'"),
        (["empty"], "no Python"),
    ],
)
def test_misuse(tmp_path, options, message):
    (tmp_path / "empty").mkdir()
    result = run(*[tmp_path / name if name != "." and "-" not in name and name != "cuda" else name for name in options])
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
