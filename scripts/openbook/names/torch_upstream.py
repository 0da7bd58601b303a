"""Makes docs/data/names/torch.txt.gz anew from the installed PyTorch: `python -m openbook.names.torch_upstream`.

One name a line: `module torch.nn`, `def torch.add(input, other, *, alpha, out)`, `class torch.nn.Linear(in_features, …)`,
`name torch.float32`. `(?)` means that the parameters are not known, a `+` that there is more below
a name than the list says, `< torch.Tensor` that what this class has is not repeated. After ` => ` stands what PyTorch itself says about a deprecated name.
"""

import ast
import enum
import gzip
import importlib
import inspect
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

from openbook.names.torch_names import FILE

# Modules whose classes are told with their members, wherever these come from.
PARENTS = (
    "torch",
    "torch.nn",
    "torch.cuda",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.optim",
    "torch.profiler",
)
# Not gone through: what nobody writes in a book about training, what is made when asked for.
OPEN = (
    *("torch.ao", "torch.classes", "torch.contrib", "torch.masked", "torch.ops", "torch.quantization", "torch.testing"),
    *("torch.return_types", "torch.version", "torch.sparse", "torch.utils.hipify", "torch.utils.tensorboard"),
)
# What other packages put there, and what only builds for other devices have.
ELSEWHERE = (
    *("module torch.hpu +", "module torch.npu +", "module torch.musa +", "module torch.mlu +"),
    *(f"class torch.distributed.ProcessGroup{kind}(?) +" for kind in ("NCCL", "MPI", "UCC", "XCCL")),
)
LONGEST = 160  # characters of what PyTorch says about a deprecated name


def modules(name: str = "torch") -> Iterator[types.ModuleType]:
    """The public modules at and below a name, without entering private ones."""
    try:
        module = importlib.import_module(name)
    except BaseException:  # needs a package or a device that is not here
        return
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        below = f"{name}.{found.name}"
        if not found.name.startswith("_") and below not in OPEN:
            yield from modules(below)


def stub_parameters(torch_folder: Path) -> dict[str, str]:
    """Of functions written in C, from the type stubs: the parameters of all overloads together."""
    found: dict[str, list[str]] = {}
    for stub, module in (("_VariableFunctions.pyi", "torch"), ("_nn.pyi", "torch.nn.functional")):
        tree = ast.parse((torch_folder / "_C" / stub).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                names = [one.arg for one in every if one.arg not in ("self", "cls")]
                names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
                known = found.setdefault(f"{module}.{node.name}", [])
                known += [name for name in names if name not in known]
    return {name: ", ".join(parameters) for name, parameters in found.items()}


def parameters(value: object) -> str | None:
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return ", ".join(signs.get(one.kind, "") + one.name for one in signature.parameters.values())


def opaque(value: type) -> bool:
    """Does a class have members that dir() does not tell? The old tensor types have those of Tensor."""
    import torch

    asked = [vars(base).get(name) for base in value.__mro__ for name in ("__getattr__", "__getattribute__")]
    return any(isinstance(one, types.FunctionType) for one in asked) or isinstance(value, type(torch.FloatTensor))


def line(name: str, value: object, stubs: dict[str, str]) -> str:
    if isinstance(value, type):
        known = None if issubclass(value, enum.Enum) else parameters(value)
        head = f"class {name}({'?' if known is None else known})" + (" +" if opaque(value) else "")
        head += "".join(f" < torch.{base}" for base, kind in shared().items() if kind in value.__mro__[1:])
    elif callable(value) and not isinstance(value, types.ModuleType):
        known = stubs.get(name) if isinstance(value, types.BuiltinFunctionType) else parameters(value)
        head = f"def {name}({'?' if known is None else known})"
    else:
        head = f"name {name}"
    message = inspect.getattr_static(value, "__deprecated__", None)
    told = isinstance(message, str) and f"Use `{name.rpartition('.')[2]}`" not in message  # that one is the new name
    return head + (f" => {' '.join(message.split())[:LONGEST]}" if told else "")


def shared() -> dict[str, type]:
    """Classes that many others extend."""
    import torch

    return {
        "nn.Module": torch.nn.Module,
        "Tensor": torch.Tensor,
        "distributions.Distribution": torch.distributions.Distribution,
    }


def members(name: str, value: type, stubs: dict[str, str]) -> Iterator[str]:
    """What a class has beside what it has from the shared ones."""
    found = set(dir(value)) - set(dir(object))
    for base in value.__mro__[:-1]:
        annotated = vars(base).get("__annotations__")  # attributes that only instances have
        found |= set(annotated) if isinstance(annotated, dict) else set()
    for kind in shared().values():
        found -= set(dir(kind)) if kind in value.__mro__[1:] else set()
    for member in sorted(found):
        if not member.startswith("_"):
            yield line(f"{name}.{member}", inspect.getattr_static(value, member, None), stubs)


def lines() -> Iterator[str]:
    import torch

    old = type(torch.FloatTensor)
    stubs = stub_parameters(Path(torch.__file__).parent)
    yield from (f"module {name} +" for name in OPEN)
    yield from ELSEWHERE
    for module in sorted(modules(), key=lambda one: one.__name__):
        # torch itself has a __getattr__ for modules that it loads late; those are gone through anyway.
        made_up = type(module) is not types.ModuleType or (hasattr(module, "__getattr__") and module is not torch)
        yield f"module {module.__name__}" + (" +" if made_up else "")
        for key in dir(module):
            name, value = f"{module.__name__}.{key}", inspect.getattr_static(module, key, None)
            if isinstance(value, types.ModuleType):
                if value.__name__.startswith("torch") and name not in OPEN:
                    yield f"module {name}" + (f" = {value.__name__}" if value.__name__ != name else "")
            elif not key.startswith("__") and offered(value):
                yield line(name, value, stubs)
                if (
                    isinstance(value, type)
                    and not isinstance(value, old)
                    and (value.__module__ == module.__name__ or module.__name__ in PARENTS)
                ):
                    yield from members(name, value, stubs)


def offered(value: object) -> bool:
    """Not what a module merely imported from elsewhere."""
    home = getattr(value, "__module__", None) if callable(value) else None
    return not isinstance(home, str) or home.startswith(("torch", "builtins"))


def main() -> int:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted(set(lines()))
    text = f"# Public names of PyTorch\n# source: https://pypi.org/project/torch/\n# version: {torch.__version__.partition('+')[0]}\n\n"
    data = gzip.compress("\n".join([text.rstrip(), *found, ""]).encode(), 9, mtime=0)
    FILE.write_bytes(data)
    print(f"{FILE.name}: {len(found)} names, {len(data) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
