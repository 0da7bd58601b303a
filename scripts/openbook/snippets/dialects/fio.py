"""fio job files: what `fio --parse-only` says, where it is installed; else the rules of INI files.

To read an option that it does not know, fio loads the library that `ioengine` names: it happens in the sandbox.
"""

import difflib
import re
from collections.abc import Iterator, Sequence

from openbook.snippets import sandbox, tools
from openbook.snippets.dialects import ini
from openbook.snippets.dialects.base import Dialect, Problem, Snippet, words

ENGINE = re.compile(r"\s*ioengine\s*=\s*([\w-]+)")
MISTAKES = (
    re.compile(r"Bad option <(?P<about>[^>]*)>(?:\nDid you mean (?P<like>\S+)\?)?"),
    re.compile(r"failed parsing (?P<about>\S.*)"),
    re.compile(r"option <(?P<about>[^>]*)> outside of \[\] job section"),
)
# HOWTO.rst of fio, commit 002db503: engines, and those among them that a distribution may leave out.
ENGINES = words(
    "cpuio e4defrag falloc filecreate filedelete filestat ftruncate libaio mmap mtd net netsplice null posixaio psync "
    "pvsync pvsync2 sg splice sync vsync"
)
OPTIONAL = words(
    "dev-dax dfs exec external gfapi gfapi_async http ime_aio ime_psync ime_psyncv io_uring io_uring_cmd libblkio "
    "libcufile libhdfs libiscsi libpmem libzbc nbd nfs rados rbd rdma solarisaio windowsaio xnvme"
)


def check(snippets: Sequence[Snippet]) -> Iterator[tuple[Snippet, Problem]]:
    able = tools.find("fio") is not None and not sandbox.unusable()
    answers = tools.together(ask if able else (lambda one: list(ini.problems(one))), snippets)
    for snippet, problems in zip(snippets, answers, strict=True):
        for problem in (*problems, *engines(snippet.source)):
            yield snippet, problem


def engines(source: str) -> Iterator[Problem]:
    """fio looks for an engine only when it runs."""
    for number, line in enumerate(source.split("\n"), 1):
        match = ENGINE.match(line)
        if match and match[1] not in ENGINES | OPTIONAL:
            like = difflib.get_close_matches(match[1], ENGINES | OPTIONAL, 1)
            hint = f"did you mean {like[0]}?" if like else ""
            yield Problem(number, "fio-engine", f"no engine of fio is called {match[1]!r}", hint)


def ask(snippet: Snippet) -> list[Problem]:
    """Problems in the order in which fio names them. A fence of options alone belongs to some job."""
    source = snippet.source
    whole = snippet.whole or re.search(r"^\s*\[", source, re.M)
    text = source if whole else f"[job]\n{source}"
    result = sandbox.run(["fio", "--parse-only", "snippet.fio"], {"snippet.fio": text + "\n"}, sandbox.Limits())
    if result.code == 0:
        return []
    if any(match and match[1] in OPTIONAL for match in map(ENGINE.match, source.split("\n"))):
        return list(ini.problems(snippet))  # the options of an engine that may be missing here are unknown
    found = []
    for pattern in MISTAKES:
        for match in pattern.finditer(result.output):
            about, like = match["about"], match.groupdict().get("like")
            hint = f"did you mean {like}?" if like else ""
            found.append(Problem(line_of(about, source), "fio-option", f"fio says: {first(match[0])}", hint))
    if not found and not result.output.strip():
        found.append(Problem(0, "fio-option", "fio refuses the job file and does not say why"))
    return found


def first(text: str) -> str:
    return text.split("\n")[0]


def line_of(about: str, source: str) -> int:
    """The line that holds what fio quotes: an option, or the value of one."""
    wanted = re.sub(r"\s", "", about)
    for number, line in enumerate(source.split("\n"), 1):
        squeezed = re.sub(r"\s", "", line)
        if squeezed == wanted or squeezed.split("=")[-1] == wanted:
            return number
    return 0


FIO = Dialect("fio", check)
