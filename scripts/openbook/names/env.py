"""Environment variables: a name of a known family that no list has, and names that something took over."""

import ast
import difflib
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from openbook.findings import Finding
from openbook.names.documents import SETTINGS, SHELL, Document, Piece
from openbook.names.lists import Variables

TOKEN = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?![A-Za-z0-9])")
AFTER = re.compile(r"_?[*…{<\[?#]|_?\.\.\.|_|\(")  # the beginning of names, or a macro
ASSIGNED = re.compile(r"(?:^|[\s;&|(\"'])([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=")
# Alone on its line, so not for a command; a quote may go on below.
PLAIN = re.compile(r"""^\s*([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=(?:\S*|(["']).*\2|["'][^"']*)\s*(?:#.*)?$""")
EXPORT = re.compile(r"\b(?:export|env|declare -x)\b")
EXPANDED = re.compile(r"\$\{?([A-Z][A-Z0-9_]*)")
C_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
IN_GROUP = re.compile(r"_(?:HET|PACK)_GROUP_(?:\d+|#)?$")  # srun's, in a heterogeneous job
C_LIKE = frozenset({"c", "c++", "cpp", "cc", "cxx", "cuda", "cu"})
ALIKE, SURE = 0.6, 0.9
SHORTEST = 8  # characters of a name outside the families that is compared at all


@dataclass(frozen=True)
class Use:
    name: str
    line: int  # of code; of inline code it is looked up when it matters
    how: str  # "inline", "code", or "set" for what a shell assigns
    prefix: bool = False  # only the beginning of names: NCCL_IB_*
    nth: int = 0  # how often the page's inline code had it before


def in_text(text: str) -> Iterator[tuple[str, int, bool]]:
    """Name, offset and whether it is a beginning, of what looks like a variable."""
    for match in TOKEN.finditer(text):
        after = AFTER.match(text, match.end())
        if after is None:
            yield match[0], match.start(), False
        elif after[0] in ("*", "_*"):
            yield match[0] + after[0][:-1], match.start(), True


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Strings and comments of a program, with their lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return  # a finding of the snippet checker
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            many = node.end_lineno != node.lineno and "\n" in node.value
            for offset, line in enumerate(node.value.split("\n") if many else [node.value]):
                yield node.lineno + offset, line
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, IndentationError):
        return


def texts(piece: Piece) -> Iterator[tuple[int, str]]:
    if piece.language == "python":
        yield from python_texts(piece.text)
    elif piece.language in C_LIKE:
        for number, line in enumerate(piece.text.split("\n"), 1):
            yield from ((number, string) for string in C_STRING.findall(line))
    elif piece.language in SHELL.values() or piece.language in SETTINGS:
        yield from enumerate(piece.text.split("\n"), 1)


def script_variables(document: Document) -> set[str]:
    """What a script sets for itself: assigned on a line of its own, never exported, read again."""
    shell = [piece.text for piece in document.pieces if piece.language in SHELL.values()]
    lines = [line for text in shell for line in text.split("\n")]
    assigned = {match[1] for line in lines if (match := PLAIN.match(line))}
    exported = {name for line in lines if EXPORT.search(line) for name, _, _ in in_text(line)}
    return (assigned - exported) & {name for line in lines for name in EXPANDED.findall(line)}


def uses(document: Document) -> Iterator[Use]:
    seen: dict[str, int] = {}
    for span in document.inline:
        for name, _, prefix in in_text(span):
            yield Use(name, 0, "inline", prefix, seen.get(name, 0))
            seen[name] = seen.get(name, 0) + 1
    for piece in document.pieces:
        for number, text in texts(piece):
            shell = piece.language in SHELL.values()
            set_here = set(ASSIGNED.findall(text)) if shell else set()
            for name, _, prefix in in_text(text):
                yield Use(name, piece.line_of(number), "set" if name in set_here else "code", prefix)


def check(document: Document, known: Variables) -> Iterator[Finding]:
    every = list(uses(document))
    named = {use.name for use in every}
    told, own = set(), script_variables(document)
    for use in every:
        finding = problem(use, known, named)
        if finding is None or (use.name in own and use.name not in known.names):
            continue
        line = place(use, document) if use.how == "inline" else use.line
        if (use.name, line) not in told:
            told.add((use.name, line))
            rule, message, hint = finding
            yield Finding(document.path, line, 0, rule, "error", message, hint, use.name)


def place(use: Use, document: Document) -> int:
    """The line of the source; 0 when it cannot be found there."""
    places = document.places(use.name)
    return places[min(use.nth, len(places) - 1)] if places else 0


def problem(use: Use, known: Variables, named: set[str]) -> tuple[str, str, str] | None:
    """Rule, message and hint."""
    name = IN_GROUP.sub("", use.name)
    entry = known.names.get(name)
    if use.prefix:
        return beginning(use.name, known)
    if entry is not None:
        if not entry.replacement or (entry.replacement == "-" and use.how == "inline"):
            return None
        if entry.replacement == "-":
            return "old-variable", f"{name} has no effect any more", entry.remark
        if entry.replacement in named:
            return None  # the text tells both
        hint = f"{entry.remark}; name both where a reader may still meet the old one" if entry.remark else ""
        return "old-variable", f"{name} is now {entry.replacement}", hint
    if name.startswith(known.others):
        return None
    family = next(
        (family for family in known.families if name.startswith(family) and len(name) > len(family) + 1), None
    )
    if family:
        return "unknown-variable", f"no list of real names has the variable {name}", nearest(name, family, known)
    if "_" in name and len(name) >= SHORTEST:
        meant = misspelt_family(name, known)
        if meant is None and use.how == "set":
            meant = next(iter(difflib.get_close_matches(name, known.names, 1, SURE)), None)
        if meant:
            return "unknown-variable", f"no list of real names has the variable {name}", f"did you mean {meant}?"
    return None


def beginning(name: str, known: Variables) -> tuple[str, str, str] | None:
    if name.startswith(known.families) and not any(one.startswith(name) for one in known.names):
        if name.startswith(known.others):
            return None
        return "unknown-variable", f"no variable begins with {name}", ""
    return None


def nearest(name: str, family: str, known: Variables) -> str:
    own = [one for one in known.names if one.startswith(family)]
    like = difflib.get_close_matches(name, own, 2, ALIKE) or difflib.get_close_matches(name, known.names, 1, ALIKE)
    if like:
        return f"did you mean {' or '.join(like)}?"
    return "if it is real, add it to docs/data/names/variables with its source"


def misspelt_family(name: str, known: Variables) -> str | None:
    """`NCLL_DEBUG` → `NCCL_DEBUG`: another first word, and a real name comes out."""
    first, rest = name.split("_", 1)
    for family in known.families:
        word = family.rstrip("_")
        if f"{word}_{rest}" in known.names and difflib.SequenceMatcher(None, first, word).ratio() >= 0.75:
            return f"{word}_{rest}"
    return None
