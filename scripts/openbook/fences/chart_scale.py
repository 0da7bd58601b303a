"""Axes of charts: where they begin and end, and which values they name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Ends and ticks in the axis's unit; the chart is drawn with `at` of each value."""

    title: str
    unit: str
    least: float
    most: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value stands on a scale that is drawn evenly."""
        return math.log10(value) if self.log else value

    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


def axis(title: str, unit: str, values: Sequence[float], log: bool, exact: bool = False, binary: bool = False) -> Axis:
    """An axis that holds the values; `exact`: from the first to the last of them; `binary`: named at powers of two."""
    least, most = min(values), max(values)
    if log:
        ticks = _powers_of_two(least, most) if binary else _decades(least, most)
        ends = (least, most) if exact else (min(ticks[0], least), max(ticks[-1], most))
    else:
        ticks = _even(least if exact else min(0.0, least), most)
        ends = (least, most) if exact else (ticks[0], max(ticks[-1], most))
    return Axis(title, unit, *ends, tuple(tick for tick in ticks if ends[0] <= tick <= ends[1]), log)


def _even(least: float, most: float) -> list[float]:
    """About five steps of 1, 2 or 5 times a power of ten, from below the least to above the most."""
    span = (most - least) or abs(most) or 1.0
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [float(f"{n * step:.12g}") for n in range(first, last + 1)]


def _decades(least: float, most: float) -> list[float]:
    """Powers of ten; within two decades also their 2- and 5-folds."""
    steps = (1, 2, 5) if math.log10(most / least) < 2 else (1,)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    found = [float(f"{step * 10.0**n:.12g}") for n in range(low, high + 1) for step in steps]
    below = max((tick for tick in found if tick <= least * (1 + 1e-9)), default=found[0])
    above = min((tick for tick in found if tick >= most * (1 - 1e-9)), default=found[-1])
    return [tick for tick in found if below <= tick <= above]


def _powers_of_two(least: float, most: float) -> list[float]:
    """At most eight, with even steps between them."""
    low, high = math.floor(math.log2(least) + 1e-9), math.ceil(math.log2(most) - 1e-9)
    return [2.0**n for n in range(low, high + 1, math.ceil((high - low + 1) / 8))]
