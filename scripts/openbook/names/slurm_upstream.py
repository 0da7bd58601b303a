"""Makes the lists in docs/data/names/slurm anew: `python -m openbook.names.slurm_upstream TREE MAN VERSION VERSION`.

TREE is a checkout of Slurm, whose option tables are read; MAN a folder with the manual pages of an older version
that readers still have (sbatch.1.gz …), for options that were dropped since.
"""

import argparse
import datetime
import gzip
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from openbook.findings import Misuse, run
from openbook.names.lists import FOLDER

LAUNCHERS = ("sbatch", "srun", "salloc")  # their options are in one table
TABLES = {
    "sacct": "sacct/options.c",
    "sacctmgr": "sacctmgr/sacctmgr.c",
    "sattach": "sattach/opt.c",
    "sbcast": "sbcast/opts.c",
    "scancel": "scancel/opt.c",
    "scontrol": "scontrol/scontrol.c",
    "sdiag": "sdiag/opts.c",
    "sinfo": "sinfo/opts.c",
    "sprio": "sprio/opts.c",
    "squeue": "squeue/opts.c",
    "sreport": "sreport/sreport.c",
    "sshare": "sshare/sshare.c",
    "sstat": "sstat/options.c",
}
VALUE = {"no_argument": "", "optional_argument": "[VALUE]", "required_argument": "VALUE"}
VALUE |= {"0": "", "1": "VALUE", "2": "[VALUE]"}
Options = dict[str, tuple[str, str]]  # long name → short name, value
ADDRESS = "https://github.com/SchedMD/slurm"


def launcher_options(text: str, command: str) -> Options:
    """From src/common/slurm_opt.c: whoever has a function that sets an option takes it."""
    found: Options = {}
    for body in re.findall(r"slurm_cli_opt_t slurm_opt_\w+ = \{(.*?)\n\};", text, re.S):
        name, argument, short = (
            re.search(pattern, body) for pattern in (r'\.name = "([^"]+)"', r"\.has_arg = (\w+)", r"\.val = '(.)'")
        )
        if name and re.search(rf"\.set_func(_{command})?\b", body):
            found[name[1]] = (short[1] if short else "", VALUE[argument[1] if argument else "no_argument"])
    return found


def table_options(text: str) -> Options:
    """From a `struct option long_options[]`."""
    table = re.search(r"struct option long_options\[\] = \{(.*?)\}\s*;", text, re.S)
    if table is None:
        raise Misuse("no long_options table: upstream has changed")
    rows = re.findall(r'\{\s*"([^"]+)",\s*(\w+),\s*[^,]+,\s*(?:\'(.)\'|\w+)\s*\}', table[1])
    return {name: (short, VALUE[argument]) for name, argument, short in rows}


def manual_options(text: str) -> Options:
    """From the option paragraphs of a manual page."""
    found: Options = {}
    for line in re.findall(r"^\.TP\n(\\f.*)$", text, re.M):
        plain = re.sub(r"\\f.", "", line).replace("\\-", "-")
        option = re.match(r"(?:-(\w) ?, )?--([A-Za-z][\w-]*)(\[=|=|)", plain)
        if option:
            found[option[2]] = (option[1] or "", {"[=": "[VALUE]", "=": "VALUE", "": ""}[option[3]])
    return found


def words_of(text: str, pattern: str) -> list[str]:
    return list(dict.fromkeys(re.findall(pattern, text)))


def write(name: str, title: str, source: str, version: str, lines: Sequence[str]) -> None:
    if not lines:
        raise Misuse(f"{name}: nothing found, upstream has changed")
    head = (title, f"source: {source}", f"version: {version}", f"read: {datetime.date.today()}")
    text = "".join(f"# {line}\n" for line in head) + "\n" + "".join(f"{line}\n" for line in lines)
    (FOLDER / "slurm" / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"{name}: {len(lines)}")


def option_lines(now: Options, before: Options, version: str) -> list[str]:
    lines = []
    for name in sorted(now.keys() | before.keys(), key=lambda name: (name.lower(), name)):
        short, value = now.get(name) or before[name]
        remark = " ".join(part for part in (f"-{short}" if short else "", value) if part)
        gone = "" if name in now else f"; in {version} only"
        lines.append(f"--{name}" + (f"  {remark}{gone}" if remark or gone else ""))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, type_ in (("tree", Path), ("man", Path), ("version", str), ("before", str)):
        parser.add_argument(name, type=type_)
    options = parser.parse_args(argv)
    source = options.tree / "src"
    launchers = (source / "common" / "slurm_opt.c").read_text()
    for command in (*LAUNCHERS, *TABLES):
        if command in LAUNCHERS:
            file, now = "common/slurm_opt.c", launcher_options(launchers, command)
        else:
            file = TABLES[command]
            now = table_options((source / file).read_text())
        page = options.man / f"{command}.1.gz"
        before = manual_options(gzip.decompress(page.read_bytes()).decode()) if page.exists() else {}
        address = f"{ADDRESS}/blob/master/src/{file} and {command}(1)"
        versions = f"{options.version}; {options.before}"
        write(command, f"Options of {command}", address, versions, option_lines(now, before, options.before))
    squeue = (options.tree / "doc" / "man" / "man1" / "squeue.1").read_text()
    states = squeue[squeue.index('.SH "JOB STATE CODES"') :]
    pairs = re.findall(r"^\\fB([A-Z]{1,3}) +([A-Z_]+)\\fR$", states, re.M)
    write("states", "States of a job, with the short code", "https://slurm.schedmd.com/squeue.html",
          options.version, [f"{name}  {code}" for code, name in pairs])  # fmt: skip
    reasons = words_of((source / "common" / "job_state_reason.c").read_text(), r'\.str = "(\w+)"')
    write("reasons", "Reasons that squeue gives for a job's state", f"{ADDRESS}/blob/master/src/common/job_state_reason.c",
          options.version, sorted(reasons))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
