"""What an author expects of a fence: the closed vocabulary, and the mistakes in using it."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pymdownx.superfences import RE_HL_LINES, RE_LINENUMS

from openbook.findings import Finding
from openbook.render import Fence, attributes_of

CHECKS = ("skip", "parse", "lint", "compile", "run", "gpu")
EXPECTATIONS = ("check", "exit", "session", "timeout", "ranks", "reason")
RENDERED = ("title", "hl_lines", "linenums", "id")  # the renderer reads these
# `output` is the book's own; the rest are the theme's.
CLASSES = ("output", "annotate", "copy", "no-copy", "select", "no-select")
TIMEOUT = 20.0  # seconds, when a fence names none
LONGEST = 300.0
MOST_RANKS = 8


@dataclass(frozen=True)
class Expectation:
    """`level` is the dialect's own where the author names none. Seconds."""

    level: str
    exit: int = 0
    session: str = ""
    timeout: float = TIMEOUT
    reason: str = ""
    ranks: int = 0  # 0: one process, which knows of no others


def nearest(word: str, known: tuple[str, ...]) -> str:
    """A hint that names the allowed words, the likely one first."""
    like = difflib.get_close_matches(word, known, 1)
    return (f"did you mean {like[0]!r}? " if like else "") + "known: " + ", ".join(known)


def read(fence: Fence, levels: tuple[str, ...]) -> tuple[Expectation, list[Finding]]:
    """The expectation of a fence whose dialect offers `levels` (the first is the default), and mistakes."""
    mistakes = list(problems(fence, levels))
    values = fence.attributes
    level = values.get("check", levels[0])
    if level not in CHECKS or (level != "skip" and level not in levels):
        level = levels[0]
    return (
        Expectation(
            level=level,
            exit=int(values["exit"]) if re.fullmatch(r"\d{1,3}", values.get("exit", "")) else 0,
            session=values.get("session", "") if level in ("run", "lint") else "",
            timeout=seconds(values.get("timeout", "")) or TIMEOUT,
            reason=values.get("reason", ""),
            ranks=int(values["ranks"]) if level == "run" and several(values.get("ranks", "")) else 0,
        ),
        mistakes,
    )


def several(text: str) -> bool:
    return text.isdecimal() and 2 <= int(text) <= MOST_RANKS


def seconds(text: str) -> float | None:
    if re.fullmatch(r"\d+(\.\d+)?", text) and 0 < float(text) <= LONGEST:
        return float(text)
    return None


def problems(fence: Fence, levels: tuple[str, ...]) -> Iterator[Finding]:
    def found(rule: str, message: str, hint: str = "") -> Finding:
        return Finding(fence.path, fence.start, 0, rule, "error", message, hint)

    values, level = fence.attributes, fence.attributes.get("check")
    names = [key for key, _ in attributes_of(fence.info) if key != "."]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield found("repeated-attribute", f"{name} is given {names.count(name)} times")
    for name in values:
        if name not in (*EXPECTATIONS, *RENDERED):
            yield found("unknown-attribute", f"unknown attribute {name!r}", nearest(name, EXPECTATIONS + RENDERED))
    for name in fence.classes:
        if name not in CLASSES:
            yield found("unknown-class", f"unknown class {name!r}", nearest(name, CLASSES))
    if level is not None:
        if level not in CHECKS:
            yield found("unknown-value", f"check={level!r}", nearest(level, CHECKS))
        elif level != "skip" and level not in levels:
            hint = "possible here: " + ", ".join(sorted({"skip", *levels} & set(CHECKS)))
            yield found("unknown-value", f"a {fence.language} fence cannot have check={level}", hint)
    if level == "skip" and not values.get("reason", "").strip(" ."):
        yield found("skip-without-reason", "check=skip needs a reason", 'as in {check=skip reason="needs 8 GPUs"}')
    if "reason" in values and level not in ("skip", "gpu"):
        yield found("unused-attribute", "reason belongs to check=skip")
    for name in ("exit", "session", "timeout"):
        if name in values and level not in (("run", "lint") if name == "session" else ("run", "compile")):
            yield found("unused-attribute", f"{name} has an effect with check=run only")
    if "ranks" in values and (level != "run" or fence.language.lower() not in ("python", "py")):
        yield found("unused-attribute", "ranks has an effect in a python fence with check=run only")
    if "ranks" in values and "session" in values:
        yield found("unused-attribute", "ranks start afresh: they cannot share a session")
    yield from (found("unknown-value", *told) for told in wrong_values(fence))


def wrong_values(fence: Fence) -> Iterator[tuple[str, str]]:
    values = fence.attributes
    if "exit" in values and not (re.fullmatch(r"\d{1,3}", values["exit"]) and int(values["exit"]) < 256):
        yield f"exit={values['exit']!r}", "an exit code is a number from 0 to 255"
    if "timeout" in values and seconds(values["timeout"]) is None:
        yield f"timeout={values['timeout']!r}", f"seconds, above 0 and at most {LONGEST:.0f}"
    if "ranks" in values and not several(values["ranks"]):
        yield f"ranks={values['ranks']!r}", f"processes, from 2 to {MOST_RANKS}"
    if "session" in values and not re.fullmatch(r"[A-Za-z][\w-]*", values["session"]):
        yield f"session={values['session']!r}", "a name of letters, digits, - and _"
    if "linenums" in values and not RE_LINENUMS.fullmatch(values["linenums"]):
        yield f"linenums={values['linenums']!r}", 'the first number, as in linenums="1"'
    if "hl_lines" in values:
        last = fence.source.rstrip("\n").count("\n") + 1
        if not RE_HL_LINES.match(values["hl_lines"]):
            yield f"hl_lines={values['hl_lines']!r}", 'numbers and ranges, as in hl_lines="2 4-6"'
        elif any(not 1 <= int(number) <= last for number in re.findall(r"\d+", values["hl_lines"])):
            yield f"hl_lines={values['hl_lines']!r}", f"the fence has {last} lines"
