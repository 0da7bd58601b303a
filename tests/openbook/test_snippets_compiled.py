"""C, C++, CUDA, Dockerfiles and fio job files: fragments pass, mistakes are found on their line."""

import importlib.util
import subprocess

import pytest

from openbook.snippets import sandbox, tools
from openbook.snippets.dialects import BY_NAME, trees
from openbook.snippets.dialects.base import Snippet

needs_trees = pytest.mark.skipif(
    not all(importlib.util.find_spec(f"tree_sitter{name}") for name in ("", "_cpp", "_cuda")),
    reason="needs tree-sitter: pip install tree-sitter tree-sitter-cpp tree-sitter-cuda",
)
needs_fio = pytest.mark.skipif(
    bool(sandbox.unusable()) or tools.where("fio") is None, reason="needs fio: sudo apt-get install fio bubblewrap"
)
KERNEL = """template <int N>
__global__ void __launch_bounds__(256) add(const __half2 *__restrict__ a, float *b) {
  extern __shared__ float tile[];
  asm volatile("cp.async.wait_all;");
#pragma unroll
  for (int i = 0; i < N; ++i) atomicAdd(&tile[i], reinterpret_cast<const float4 *>(a)[i].x);
  __syncthreads();
}
add<4><<<dim3(2),
         256, 0, stream>>>(a, b);
CHECK(cudaDeviceSynchronize());
"""


def check(language, source, **options):
    found = BY_NAME[language].check([Snippet(source, **options)])
    return sorted((problem.line, problem.rule) for _, problem in found)


@needs_trees
@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("c", '#include <stdio.h>\nint main(void) {\n  printf("%d\\n", 1);\n}'),
        ("c", "int x = 1;\nfor (int i = 0; i < 3; i++) {\n  f(i);\n}\nprintf(x);"),
        ("cpp", "template <class T> T f(T x) { return x; }\nauto g = [](auto x) { return x; };"),
        ("c++", "std::vector<int> v{1, 2};"),
        ("cuda", KERNEL),
        ("cuda", ""),
    ],
)
def test_code_that_a_compiler_reads(language, source):
    assert check(language, source) == []


@needs_trees
@pytest.mark.parametrize(
    ("language", "source", "line"),
    [
        ("c", "int main(void) {\n  return 0\n}", 2),
        ("c", "void f(int a) {\n  if (a {\n  }\n}", 2),
        ("cpp", "int x;\nclass A {\n public:\n", 2),
        ("cuda", KERNEL.replace("__syncthreads();", "__syncthreads()"), 7),
        ("cuda", KERNEL.replace("<<<", "<<"), 9),
    ],
)
def test_code_that_no_compiler_reads(language, source, line):
    ((found, rule),) = check(language, source)
    assert rule == "c-syntax"
    assert abs(found - line) <= 1  # the parser may stop at the next line's first word


def test_a_missing_grammar_is_told(monkeypatch):
    monkeypatch.setattr(tools, "missed", set())
    assert list(trees.checker("klingon")([Snippet("x")])) == []
    assert tools.missed == {"tree-sitter-klingon"}


@pytest.mark.parametrize(
    "source",
    [
        "ARG V=1\nFROM nvcr.io/nvidia/pytorch:25.01-py3 AS base\nRUN apt-get update \\\n  # why\n\n  && apt-get install -y gdb",
        "RUN --mount=type=cache,target=/root/.cache pip install torch\nCOPY --from=base /a /b\n",
        'FROM a\nENTRYPOINT ["python", "x.py"]\nCMD [ "--help" ]\nRUN [ -d /x ] && ls\nRUN [[ -d /x ]]\n',
        "FROM a\nRUN <<EOF\nnot an instruction\nEOF\nCOPY <<A <<B /x/\nfoo\nA\nbar\nB\nWORKDIR /x\n",
        "# escape=`\nFROM a\nRUN dir `\n  c:\\\nUSER me",
        "from a as b\nonbuild run ls\nenv A=1 B=2\nENV A 1",
        "",
    ],
)
def test_dockerfiles(source):
    assert check("dockerfile", source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("FORM a", [(1, "docker-instruction")]),
        ("FROM a\nRUN ls &&\n  rm x\n", [(3, "docker-instruction")]),
        ("RUN ls\nFROM a", [(1, "docker-order")]),
        ("FROM a b", [(1, "docker-arguments")]),
        ("FROM a\n\nCMD ['python']", [(3, "docker-arguments")]),
        ("CMD [1]", [(1, "docker-arguments")]),
        ("COPY a", [(1, "docker-arguments")]),
        ("RUN", [(1, "docker-arguments")]),
        ("RUN --mont=type=cache ls", [(1, "docker-arguments")]),
        ("SHELL bash", [(1, "docker-arguments")]),
        ("ENV A", [(1, "docker-arguments")]),
    ],
)
def test_mistakes_in_dockerfiles(source, found):
    assert check("dockerfile", source) == found


@needs_fio
def test_job_files():
    assert check("fio", "[global]\nioengine=libaio\nrw=randread\n[job]\nbs=4k\nsize=1g\n") == []
    assert check("fio", "rw=read\nbs=4k") == []  # options that stand in some job
    assert check("fio", "[job]\nioengine=libcufile\ngpu_dev_ids=0\nrw=read\n") == []  # Debian's fio lacks this engine


@needs_fio
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("[global]\nioengin=libaio\n[job]\nrw=read\n", [(2, "fio-option")]),
        ("[job]\nrw = raed\nbs=4k\n", [(2, "fio-option")]),
        ("[job]\nrw=read\nioengine = libiao\n", [(3, "fio-engine")]),
        ("bs=4k\n[job]\nrw=read\n", [(1, "fio-option")]),
    ],
)
def test_mistakes_in_job_files(source, found):
    assert check("fio", source) == found


@needs_fio
def test_a_job_file_loads_nothing_of_the_host(tmp_path):
    """To parse an option that it does not know, fio loads the library that `ioengine` names."""
    if tools.where("gcc") is None:
        pytest.skip("needs gcc: sudo apt-get install gcc")
    source, library, proof = tmp_path / "engine.c", tmp_path / "engine.so", tmp_path / "proof"
    source.write_text(f'#include <fcntl.h>\n__attribute__((constructor)) void f(void) {{ creat("{proof}", 0644); }}\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    job = f"[job]\nioengine={library}\nan_option_of_its_own=1\n"
    (tmp_path / "job.fio").write_text(job)
    subprocess.run(["fio", "--parse-only", tmp_path / "job.fio"], capture_output=True)
    assert proof.exists()  # so it is worth guarding against
    proof.unlink()
    check("fio", job)
    assert not proof.exists()


def test_without_fio_it_is_an_ini_file(monkeypatch):
    monkeypatch.setattr(tools, "find", lambda name: None)
    assert check("fio", "[job]\nrw=read\nrw=write\n") == [(3, "ini-syntax")]
    assert check("fio", "[job]\nanything=goes\n") == []
