"""Names of PyTorch and keyword arguments, without importing it."""

import pytest

from openbook.names import torch_calls, torch_names
from openbook.names.torch_names import Entry, Missing

NAMES = torch_names.names()


def found(document):
    return [(one.line, one.rule, one.message, one.hint) for one in torch_calls.check(document, NAMES)]


@pytest.mark.parametrize(
    "name",
    [
        *("torch.distributed.all_reduce", "torch.nn.Linear", "torch.nn.Linear.forward", "torch.Tensor.backward"),
        *("torch.float8_e4m3fn", "torch.distributed.ReduceOp.SUM", "torch.cuda.Event", "torch.OutOfMemoryError"),
        *("torch.distributed.run", "torch.distributed.fsdp.fully_shard", "torch.utils.data.DataLoader"),
        *("torch.distributed.device_mesh.init_device_mesh", "torch.nn.functional.scaled_dot_product_attention"),
        *("torch.distributed.ProcessGroupNCCL", "torch.backends.cuda.matmul", "torch.optim.AdamW", "torch.compile"),
    ],
)
def test_real_names(name):
    assert isinstance(NAMES.find(name), Entry)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("torch.distributed.allreduce", "all_reduce"),
        ("torch.cuda.synchronise", "synchronize"),
        ("torch.AdamW", "torch.optim.AdamW"),  # elsewhere
        ("torch.Tensor.backwards", "backward"),
        ("torch.distributed.fsdp.fully_shards", "fully_shard"),
    ],
)
def test_missing_names(name, like):
    missing = NAMES.find(name)
    assert isinstance(missing, Missing) and missing.alike[0] == like


@pytest.mark.parametrize(
    "name",
    [
        *("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.benchmark", "torch.ops.aten.mm"),
        *("torch._C.whatever", "torch.optim.AdamW.param_groups", "torch.version.cuda", "torch.npu.x", "torch.ao.x"),
    ],
)
def test_what_cannot_be_told(name):
    assert NAMES.find(name) is None


def python(page, code):
    return found(page(f"# T\n\n```python\n{code}\n```\n"))


@pytest.mark.parametrize(
    "code",
    [
        "import torch.distributed as dist\ndist.all_reduce(x, op=dist.ReduceOp.SUM, async_op=True)",
        "from torch import nn\nnn.Linear(4, 4, bias=False, device='cuda')",
        "torch.zeros(3, device='cuda', dtype=torch.bfloat16)",
        "torch.empty(2, pin_memory=True)\ntorch.matmul(a, b, out=c)",
        "torch.load(f, map_location='cpu', weights_only=True, anything=1)",  # **pickle_load_args
        "torch.compile(model, mode='max-autotune')",
        "import torchtitan\ntorchtitan.x(y=1)",
        "def f(torch):\n    return torch.nothing",
        "dist = thing()\ndist.nothing()",
        "import something as dist\ndist.nothing()",
        "try:\n    from torch.nothing import x\nexcept ImportError:\n    x = None",
        "nn.Linear(4, 4, **options)",
    ],
)
def test_code_that_is_right(page, code):
    assert python(page, code) == []


@pytest.mark.parametrize(
    ("code", "line", "rule", "hint"),
    [
        ("import torch.distributed as dist\ndist.all_reduce(x, oper=1)", 5, "torch-argument", "op"),
        ("dist.init_process_group('nccl',\n    timeouts=3)", 5, "torch-argument", "timeout"),
        ("torch.zeros(3, divice='cuda')", 4, "torch-argument", "device"),
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(m, device_id=[0])",
            5,
            "torch-argument",
            "device_ids",
        ),
        ("from torch.utils.data import DataLoader\nDataLoader(d, num_worker=2)", 5, "torch-argument", "num_workers"),
        ("torch.optim.AdamW(p, weight_decays=.1)", 4, "torch-argument", "weight_decay"),
        ("from torch.distributed import allreduce", 4, "torch-name", "all_reduce"),
        ("x = torch.cuda.synchronise()", 4, "torch-name", "synchronize"),
        ("import torch as t\nt.nothing_at_all", 5, "torch-name", ""),
        ("torch.cuda.amp.autocast()", 4, "torch-deprecated", "torch.amp.autocast"),
    ],
)
def test_code_that_is_wrong(page, code, line, rule, hint):
    [(where, what, _, told)] = python(page, code)
    assert (where, what) == (line, rule)
    assert hint in told


def test_imports_hold_for_later_fences(page):
    text = "# T\n\n```python\nimport torch.distributed.checkpoint as dcp\n```\n\n```python\ndcp.saves({})\n```\n"
    assert [(line, rule) for line, rule, *_ in found(page(text))] == [(8, "torch-name")]


@pytest.mark.parametrize(
    ("span", "count"),
    [
        *(("torch.distributed.allreduce", 1), ("dist.all_reduce(t, ops=1)", 1), ("python -m torch.distributed.rum", 1)),
        *(("torch.cuda.*", 0), ("torch.cuda.mem…", 0), ("torch.distributed.all_reduce(…)", 0), ("a/torch.whl", 0)),
        *(("torch.compile(model)", 0), ("nn.Nothing", 0), ("distance.x", 0), ("mytorch.x", 0)),
    ],
)
def test_inline_code(page, span, count):
    assert len(found(page(f"# T\n\n`{span}`\n"))) == count


def test_modules_that_a_shell_starts(page):
    text = "# T\n\n```bash\npython -m torch.distributed.run x.py\npython -m torch.distributed.runn x.py\n```\n"
    assert [line for line, *_ in found(page(text))] == [5]


def test_programs_have_no_usual_names(program):
    assert found(program("F.nothing()\ndist.nothing()\n")) == []
    assert [line for line, *_ in found(program("import torch\n\ntorch.nothing()\n"))] == [3]


def test_the_list_is_small_and_says_its_version():
    assert torch_names.FILE.stat().st_size <= 300_000
    assert NAMES.version == "2.13.0"
