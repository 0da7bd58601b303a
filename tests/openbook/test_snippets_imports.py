"""Names that the libraries do not have: found without running anything of the page."""

import json
import subprocess
import sys
import textwrap

import pytest

from openbook.snippets import names, tools
from openbook.snippets.cache import Cache
from openbook.snippets.dialects import BY_NAME, imports
from openbook.snippets.dialects.base import Snippet


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "Cache", lambda: Cache(tmp_path / "cache"))


def check(source, **options):
    found = BY_NAME["python"].check([Snippet(textwrap.dedent(source), **options)])
    return sorted((problem.line, problem.rule) for _, problem in found)


@pytest.mark.parametrize(
    "source",
    [
        "import os.path, json as j\nj.dumps\nos.path.join\nfrom concurrent.futures import ThreadPoolExecutor",
        "import a_library_of_somebody.else_\nfrom vllm import LLM\nLLM.nothing",
        "try:\n    import json.nothing\nexcept ImportError:\n    pass",
        "import json\ndef f(json):\n    json.nothing",
        "import json\njson = 3\njson.nothing",
        "import json\njson.dumps(1).nothing\njson.own = 1",
        "from . import sibling\nfrom .sibling import x",
        "import xml\nxml.etree.ElementTree",  # a module that nothing has imported yet
        "import antigravity, this",
    ],
)
def test_sound(source):
    assert check(source) == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os\n\nos.path.jion('a')", 3),
        ("import json.nothing", 1),
        ("from json import (\n    dumps,\n    laods,\n)", 3),
        ("import concurrent.futures as f\nf.ThreadPool", 2),
        ("from os import path\npath.jion", 2),
    ],
)
def test_missing(source, line):
    assert check(source) == [(line, "python-name")]


def test_a_session_shares_its_imports():
    assert check("json.laods", before="import json\njson.dmups") == [(1, "python-name")]
    assert check("json.loads", before="import json") == []


def test_pytorch():
    pytest.importorskip(
        "torch", reason="needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    sound = """\
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        torch.distributed.checkpoint.save
        torch.cuda.memory._dump_snapshot
        torch.backends.cudnn.benchmark
        torch.ops.mine.kernel
        torch.version.hip.split
        dist.ReduceOp.SUM
        """
    assert check(sound) == []
    wrong = "torch.cuda.memory_summry()\nfrom torch.distributed import chekpoint\nimport torch.distribted\n"
    found = [problem for _, problem in BY_NAME["python"].check([Snippet(wrong)])]
    assert sorted(problem.line for problem in found) == [1, 2, 3]
    assert "memory_summary" in next(problem.hint for problem in found if problem.line == 1)
    assert "torch.cuda (version 2" in next(problem.message for problem in found if problem.line == 1)


def test_what_was_found_once_is_not_asked_again(monkeypatch):
    assert check("import json\njson.dumps") == []
    monkeypatch.setattr(tools, "call", lambda *_, **__: pytest.fail("it asked"))
    assert check("\n\nimport json\njson.dumps") == []


def test_only_known_libraries_are_imported(tmp_path):
    """Whatever the page asks for: no module with a side effect, none from the working directory."""
    (tmp_path / "evil.py").write_text("open('proof', 'w')")
    (tmp_path / "json.py").write_text("open('proof', 'w')")
    asked = json.dumps([["evil"], ["json", "loads"], ["antigravity", "x"], ["this", "x"], ["sys", "exit", "nothing"]])
    done = subprocess.run(
        [sys.executable, "-I", names.__file__], input=asked, capture_output=True, text=True, cwd=tmp_path
    )
    assert json.loads(done.stdout)["missing"] == []
    assert not (tmp_path / "proof").exists()


def test_a_look_up_that_dies_is_told(monkeypatch):
    monkeypatch.setattr(tools, "missed", set())
    monkeypatch.setattr(imports, "WORKER", imports.WORKER.with_name("driver.py"))
    assert check("import json\njson.laods") == []
    assert tools.missed == {"names"}
