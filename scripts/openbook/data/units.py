"""The units that figures may have: a closed list, each with its dimension and factor.

GB is 10⁹ bytes, GiB 2³⁰; Gb/s is bits. A throughput (FLOP/s) is not a count (FLOP).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """`factor` leads to the dimension's base unit: value × factor."""

    symbol: str
    dimension: str
    factor: float


class UnitError(ValueError):
    """Two units that cannot be converted, or one that is not in the list."""


WORDS = ("text", "date")  # columns that hold no number
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}


def _prefixed(dimension: str, symbol: str, prefixes: str, scale: float = 1.0) -> dict[str, tuple[str, float]]:
    return {f"{p}{symbol}": (dimension, _DECIMAL[p] * scale) for p in ["", *prefixes]}


_TABLE: dict[str, tuple[str, float]] = {
    "text": ("text", 1.0),
    "date": ("date", 1.0),
    "1": ("number", 1.0),
    "thousand": ("number", 1e3),
    "million": ("number", 1e6),
    "billion": ("number", 1e9),
    "trillion": ("number", 1e12),
    "%": ("number", 1e-2),
    "bit": ("bits", 1.0),
    **_prefixed("throughput", "FLOP/s", "MGTPEZ"),
    **_prefixed("integer throughput", "OP/s", "GTPE"),
    **_prefixed("operations", "FLOP", "GTPEZ"),
    "FLOP/clock": ("operations per clock", 1.0),
    **_prefixed("memory", "B", "kMGTPE"),
    **{f"{p}B": ("memory", factor) for p, factor in _BINARY.items()},
    **_prefixed("bandwidth", "B/s", "kMGTPE"),
    **{f"{p}B/s": ("bandwidth", factor) for p, factor in _BINARY.items()},
    **_prefixed("bandwidth", "b/s", "kMGTP", 1 / 8),
    **_prefixed("transfers", "T/s", "MGT"),
    "baud": ("symbols", 1.0),
    "GBd": ("symbols", 1e9),
    **_prefixed("power", "W", "kMG"),
    "J": ("energy", 1.0),
    "pJ/bit": ("energy per bit", 1e-12),
    **_prefixed("energy", "Wh", "kMG", 3600.0),
    **_prefixed("frequency", "Hz", "kMG"),
    "nm": ("length", 1e-9),
    "mm": ("length", 1e-3),
    "cm": ("length", 1e-2),
    "m": ("length", 1.0),
    "km": ("length", 1e3),
    "U": ("rack units", 1.0),
    "mm²": ("area", 1e-6),
    "kg": ("mass", 1.0),
    "ns": ("time", 1e-9),
    "µs": ("time", 1e-6),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
    "min": ("time", 60.0),
    "h": ("time", 3600.0),
    "day": ("time", 86_400.0),
    "year": ("time", 365.25 * 86_400.0),
    "device-h": ("device time", 3600.0),
    "device-day": ("device time", 86_400.0),
    "thousand device-h": ("device time", 3.6e6),
    "million device-h": ("device time", 3.6e9),
    "1/day": ("rate", 1 / 86_400.0),
    "1/h": ("rate", 1 / 3600.0),
    "1/year": ("rate", 1 / (365.25 * 86_400.0)),
    "%/year": ("rate", 1e-2 / (365.25 * 86_400.0)),
    "1/1000 node-day": ("rate", 1e-3 / 86_400.0),
    "1/device-year": ("rate", 1 / (365.25 * 86_400.0)),
    "IOPS": ("operations rate", 1.0),
    "kIOPS": ("operations rate", 1e3),
    "MIOPS": ("operations rate", 1e6),
    "token/s": ("tokens rate", 1.0),
    "DWPD": ("drive writes", 1.0),
    "USD": ("money", 1.0),
    "USD/h": ("price", 1.0),
    "USD/kWh": ("energy price", 1 / 3.6e6),
    "USD/GB": ("memory price", 1e-9),
    "USD/GiB": ("memory price", 2.0**-30),
    "USD/thousand": ("money", 1e-3),  # of requests: a count has no dimension
    "USD/million": ("money", 1e-6),
    "°C": ("temperature", 1.0),
    "V": ("voltage", 1.0),
    "A": ("current", 1.0),
    "kgCO2e": ("emissions", 1.0),
    "tCO2e": ("emissions", 1e3),
    "gCO2e/kWh": ("emission intensity", 1e-3 / 3.6e6),
}
UNITS: dict[str, Unit] = {symbol: Unit(symbol, *rest) for symbol, rest in _TABLE.items()}

# What a reader may want instead of a column's unit; the page offers these.
SWITCHES: tuple[tuple[str, ...], ...] = (
    ("GB", "GiB"),
    ("MB", "MiB"),
    ("TB", "TiB"),
    ("GB/s", "Gb/s"),
    ("TB/s", "GB/s"),
    ("TFLOP/s", "PFLOP/s"),
    ("W", "kW"),
)


def unit_of(symbol: str) -> Unit:
    """Raises UnitError for a unit that is not in the list."""
    try:
        return UNITS[symbol]
    except KeyError:
        raise UnitError(f"unknown unit {symbol!r}") from None


def factor(source: str, target: str) -> float:
    """By what a value in `source` is multiplied to be in `target`. Raises UnitError."""
    one, other = unit_of(source), unit_of(target)
    if one.dimension != other.dimension:
        raise UnitError(f"{source} ({one.dimension}) cannot be given in {target} ({other.dimension})")
    return one.factor / other.factor


def convert(value: float, source: str, target: str) -> float:
    """The value in another unit; the same object where the unit is the same. Raises UnitError."""
    return value if source == target else value * factor(source, target)


def switches(symbol: str) -> tuple[str, ...]:
    """The units that a column in this unit can be switched to, its own first."""
    others = [unit for group in SWITCHES if symbol in group for unit in group if unit != symbol]
    return (symbol, *dict.fromkeys(others)) if others else ()
