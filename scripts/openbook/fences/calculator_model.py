"""What the body of a `calculator` fence holds, once read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from openbook.data.model import Source
from openbook.expressions import Expression, ExpressionError
from openbook.fences.calculator_units import base_factor

Given = Mapping[str, float | str]  # inputs or results by name, each in its own unit


class CalculationError(ValueError):
    """There is no result for these inputs; the message says why."""


@dataclass(frozen=True)
class Input:
    """`choices` are (value, title); where there are none the value lies between `least` and `most`."""

    name: str
    title: str
    unit: str
    line: int
    default: float | str
    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    choices: tuple[tuple[float | str, str], ...] = ()
    note: str = ""

    def refused(self, value: float | str) -> str:
        """Why a value is not allowed, or ""."""
        if self.choices:
            allowed = [choice for choice, _ in self.choices]
            return "" if value in allowed else f"{self.title}: one of {', '.join(map(_plain, allowed))}"
        if isinstance(value, str) or not math.isfinite(value):
            return f"{self.title}: not a number"
        if not self.least <= value <= self.most:
            return f"{self.title}: from {_plain(self.least)} to {_plain(self.most)}"
        return f"{self.title}: a whole number" if self.whole and value != int(value) else ""


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


@dataclass(frozen=True)
class Formula:
    name: str
    title: str
    unit: str
    line: int
    expression: Expression
    digits: int
    note: str = ""


@dataclass(frozen=True)
class Case:
    """Published inputs and results. Without a tolerance the result must round to what is published."""

    title: str
    line: int
    inputs: Given
    results: Mapping[str, float]
    result_lines: Mapping[str, int]
    source: Source
    tolerance: float | None

    def off(self, name: str, calculated: float) -> bool:
        published = self.results[name]
        if self.tolerance is not None:
            return abs(calculated - published) > self.tolerance * abs(published)
        last_digit = Decimal(10) ** Decimal(repr(published)).as_tuple().exponent
        return abs(Decimal(calculated) - Decimal(repr(published))) > last_digit / 2


@dataclass(frozen=True)
class Preset:
    """A choice of things, each of which sets some inputs."""

    title: str
    options: tuple[tuple[str, Given], ...]


@dataclass(frozen=True)
class Calculator:
    """`formulas` stand in the order in which they can be computed."""

    id: str
    title: str
    inputs: Mapping[str, Input]
    formulas: Mapping[str, Formula]
    outputs: tuple[str, ...]
    presets: tuple[Preset, ...]
    sources: Mapping[str, Source]
    cases: tuple[Case, ...]
    about: str = ""

    def defaults(self) -> dict[str, float | str]:
        return {name: one.default for name, one in self.inputs.items()}

    def base(self, given: Given) -> dict[str, float | str]:
        """The inputs as the formulas read them: in base units, defaults where nothing is given."""
        values = {**self.defaults(), **given}
        return {
            name: value if isinstance(value, str) else float(value) * base_factor(self.inputs[name].unit)
            for name, value in values.items()
        }

    def compute(self, given: Given) -> dict[str, float]:
        """Every formula's result in its unit. Raises CalculationError."""
        values, results = self.base(given), {}
        for name, formula in self.formulas.items():
            try:
                values[name] = formula.expression.number(values)
            except ExpressionError as problem:
                raise CalculationError(f"{formula.title}: {problem}") from None
            results[name] = values[name] / base_factor(formula.unit)
            if not math.isfinite(results[name]):
                raise CalculationError(f"{formula.title}: the result is too large")
        return results
