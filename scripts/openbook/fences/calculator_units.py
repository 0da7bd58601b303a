"""Units of a calculator's formulas: what may be added, compared and given as a result.

Formulas compute in base units (bytes, seconds, FLOP/s, …), so none of them holds a factor such as 1e9. A
dimension is a product of powers: bandwidth is B¹·s⁻¹. Counts have none.
"""

from collections.abc import Mapping
from fractions import Fraction

from openbook.data.units import UNITS
from openbook.expressions import Tree

Powers = dict[str, Fraction]
Kind = Powers | str | None  # a dimension, TEXT or TRUTH; None for 0, which has any unit

TEXT, TRUTH = "text", "a condition"
_PER_SECOND = {
    "throughput": "FLOP", "integer throughput": "OP", "bandwidth": "B", "transfers": "transfer", "price": "USD",
    "rate": "", "frequency": "", "operations rate": "", "tokens rate": "",
}  # fmt: skip
_PLAIN = {
    "number": {}, "operations": {"FLOP": 1}, "operations per clock": {"FLOP": 1}, "memory": {"B": 1}, "time": {"s": 1},
    "device time": {"s": 1}, "power": {"W": 1}, "energy": {"W": 1, "s": 1}, "energy per bit": {"W": 1, "s": 1, "bit": -1},
    "bits": {"bit": 1}, "money": {"USD": 1}, "length": {"m": 1}, "area": {"m": 2},
    "energy price": {"USD": 1, "W": -1, "s": -1}, "memory price": {"USD": 1, "B": -1}, "emissions": {"kgCO2e": 1},
    "emission intensity": {"kgCO2e": 1, "W": -1, "s": -1},
}  # fmt: skip


class WrongUnit(ValueError):
    """A formula whose units do not fit; the message says where."""


def base_factor(unit: str) -> float:
    """value × factor is the value in base units; 1 for text."""
    factor = UNITS[unit].factor
    return factor / 3600 if UNITS[unit].dimension == "price" else factor  # the list has it per hour


def kind_of(unit: str) -> Kind:
    """The dimension of a unit of the list."""
    name = UNITS[unit].dimension
    if name == "text":
        return TEXT
    if name in _PER_SECOND:
        counted = {_PER_SECOND[name]: Fraction(1)} if _PER_SECOND[name] else {}
        return {**counted, "s": Fraction(-1)}
    return {symbol: Fraction(power) for symbol, power in _PLAIN.get(name, {name: 1}).items()}


def shown(kind: Kind) -> str:
    """B/s, FLOP, a plain number."""
    if isinstance(kind, str):
        return kind
    if not kind:
        return "a plain number"
    up = [f"{symbol}{_power(power)}" for symbol, power in sorted(kind.items()) if power > 0]
    down = [f"{symbol}{_power(-power)}" for symbol, power in sorted(kind.items()) if power < 0]
    return ("·".join(up) or "1") + ("/" + "/".join(down) if down else "")


def _power(power: Fraction) -> str:
    return "" if power == 1 else f"^{power}"


def check(tree: Tree, names: Mapping[str, Kind], wanted: Kind) -> None:
    """Raises WrongUnit where the formula's parts do not fit together or its result is not what is wanted."""
    found = result(tree, names)
    if found is not None and found != wanted:
        raise WrongUnit(f"the result is {shown(found)}, the unit says {shown(wanted)}")


def result(tree: Tree, names: Mapping[str, Kind]) -> Kind:
    """The kind of a formula's result. Raises WrongUnit."""
    if "number" in tree:
        return {} if tree["number"] else None
    if "text" in tree:
        return TEXT
    if "name" in tree:
        return names[tree["name"]]
    kinds = [result(one, names) for one in tree["args"]]
    if "compare" in tree:
        _same(kinds, "compares")
        return TRUTH
    what = tree.get("call") or tree["op"]
    if what in ("and", "or", "not"):
        _same([*kinds, TRUTH], f"{what}: joins")
        return TRUTH
    if what == "if":
        _same([kinds[0], TRUTH], "if: the condition is")
        return _same(kinds[1:], "if: chooses between")
    if wrong := next((kind for kind in kinds if isinstance(kind, str)), None):
        raise WrongUnit(f"{what}: calculates with {wrong}")
    return _calculated(what, kinds, tree)


def _calculated(what: str, kinds: list[Kind], tree: Tree) -> Kind:
    if what in ("+", "-", "%", "min", "max", "neg", "abs"):
        return _same(kinds, f"{what}: joins")
    if what == "//":
        _same(kinds, "//: divides")
        return {}
    if what in ("*", "/"):
        return _product(kinds, 1 if what == "*" else -1)
    if what == "sqrt":
        return _raised(kinds[0], Fraction(1, 2))
    if what == "**" and kinds[0]:
        if "number" not in tree["args"][1]:
            raise WrongUnit(f"**: the exponent of {shown(kinds[0])} must be a number that is written out")
        return _raised(kinds[0], Fraction(tree["args"][1]["number"]).limit_denominator(100))
    if any(kinds):
        raise WrongUnit(f"{what}: takes plain numbers, not {', '.join(shown(kind) for kind in kinds)}; divide first")
    return {}


def _same(kinds: list[Kind], what: str) -> Kind:
    known = [kind for kind in kinds if kind is not None]
    for other in known[1:]:
        if other != known[0]:
            raise WrongUnit(f"{what} {shown(known[0])} and {shown(other)}")
    return known[0] if known else None


def _product(kinds: list[Kind], sign: int) -> Kind:
    if None in kinds:
        return None
    powers = {**kinds[0]}
    for symbol, power in kinds[1].items():
        powers[symbol] = powers.get(symbol, Fraction(0)) + sign * power
    return {symbol: power for symbol, power in powers.items() if power}


def _raised(kind: Kind, exponent: Fraction) -> Kind:
    return None if kind is None else {symbol: power * exponent for symbol, power in kind.items() if exponent}
