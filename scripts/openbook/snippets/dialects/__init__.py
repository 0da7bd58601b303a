"""The languages that a fence may have, one small module each."""

from openbook.snippets.dialects.base import Dialect
from openbook.snippets.dialects.bash import BASH
from openbook.snippets.dialects.console import CONSOLE
from openbook.snippets.dialects.display import DISPLAY
from openbook.snippets.dialects.dockerfile import DOCKERFILE
from openbook.snippets.dialects.fio import FIO
from openbook.snippets.dialects.ini import INI
from openbook.snippets.dialects.json import JSON
from openbook.snippets.dialects.pycon import PYCON
from openbook.snippets.dialects.python import PYTHON
from openbook.snippets.dialects.slurm import SLURM
from openbook.snippets.dialects.toml import TOML
from openbook.snippets.dialects.trees import CPP, CUDA, C
from openbook.snippets.dialects.yaml import YAML

EVERY = (PYTHON, PYCON, BASH, CONSOLE, SLURM, YAML, JSON, TOML, INI, FIO, C, CPP, CUDA, DOCKERFILE, *DISPLAY)
BY_NAME: dict[str, Dialect] = {name: dialect for dialect in EVERY for name in (dialect.name, *dialect.aliases)}
# Files beside pages that are checked whole.
BY_SUFFIX = {
    ".sbatch": SLURM,
    ".sh": BASH,
    ".yaml": YAML,
    ".yml": YAML,
    ".toml": TOML,
    ".fio": FIO,
    ".cu": CUDA,
    ".cpp": CPP,
    ".c": C,
}
