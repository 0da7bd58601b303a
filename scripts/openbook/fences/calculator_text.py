"""Formulas and numbers as a reader sees them. docs/assets/js/calculator.js does the same with live numbers."""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context

from openbook.data.show import number, unit_shown
from openbook.expressions import Tree, evaluate

SIGNS = {"*": "×", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "-": "−", "**": "^"}
STRENGTH = {"if": 0, "or": 1, "and": 2, "not": 3, "compare": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6,
            "neg": 7, "**": 8}  # fmt: skip
ATOM = 9


def significant(value: float, digits: int) -> float:
    """The value with so many significant digits, halves away from zero as in a browser's toPrecision."""
    return float(Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(value)) + 0.0  # no −0


def with_unit(value: float | str, unit: str) -> str:
    """31.41 GB; the unit follows after a space that does not break."""
    text = value if isinstance(value, str) else number(float(value))
    return f"{text}\u00a0{unit_shown(unit)}" if unit_shown(unit) else text


def formula_text(tree: Tree) -> str:
    """The formula with its names: parameters × weight / (ranks if stage ≥ 3 else 1)."""
    return _text(tree, lambda name: name, None)[0]


def numbers_text(tree: Tree, shown: Mapping[str, str], values: Mapping[str, float | str]) -> str:
    """The formula with the numbers put in; of a condition only the branch that is taken."""
    return _text(tree, lambda name: shown[name], values)[0]


def _text(tree: Tree, name: Callable[[str], str], values: Mapping[str, float | str] | None) -> tuple[str, int]:
    """The text and how strongly it holds together."""
    if "number" in tree:
        return number(tree["number"]), ATOM
    if "text" in tree:
        return f"“{tree['text']}”", ATOM
    if "name" in tree:
        return name(tree["name"]), ATOM

    def part(one: Tree, least: int) -> str:
        text, strength = _text(one, name, values)
        return text if strength >= least else f"({text})"

    args = tree["args"]
    if "call" in tree:
        return f"{tree['call']}({', '.join(part(one, 0) for one in args)})", ATOM
    what = "compare" if "compare" in tree else tree["op"]
    strength = STRENGTH[what]
    if what == "if":
        if values is not None:
            return _text(args[1] if evaluate(args[0], values) else args[2], name, values)
        return f"{part(args[1], 1)} if {part(args[0], 1)} else {part(args[2], 0)}", strength
    if what == "neg":
        return f"−{part(args[0], strength)}", strength
    if what == "not":
        return f"not {part(args[0], strength)}", strength
    if what == "**":
        return f"{part(args[0], ATOM)} ^ {part(args[1], strength - 1)}", strength
    text = part(args[0], strength + (what == "compare"))
    signs = tree.get("compare") or [what] * (len(args) - 1)
    for sign, one in zip(signs, args[1:]):
        text += f" {SIGNS.get(sign, sign)} {part(one, strength + 1)}"
    return text, strength
