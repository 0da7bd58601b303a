"""The `calculator` fence: formulas over inputs, with units, sources and published cases that it must reproduce.

id: training-memory
title: Memory of the training states of one GPU
inputs:
  parameters: {title: Parameters, unit: billion, range: [0.001, 100000], default: 7.5}
  stage: {title: ZeRO stage, default: 3, choices: [{value: 0, title: none}, {value: 3, title: everything}]}
formulas:                # in base units (bytes, seconds): no factors such as 1e9; the result is shown in `unit`
  weights: {title: Weights, unit: GB, expr: "parameters * weight / (ranks if stage >= 3 else 1)"}
outputs: [total]         # the formulas that are the answer
presets:
  model: {title: Model, topic: models, records: [llama-2-7b], set: {parameters: parameters}}
sources:
  zero: {title: …, url: …, kind: paper, by: …, dated: "2020", read: 2026-11-30}
cases:
  - {title: Stage 3, inputs: {parameters: 7.5, stage: 3}, results: {total: 1.9}, source: zero, tolerance: 0.01}

Without `tolerance` (a share of the published result) a case must round to what is published.
"""

import itertools
from collections.abc import Iterator

from openbook.data.lines import Node
from openbook.data.load import load
from openbook.data.problem import Problem
from openbook.fences import base
from openbook.fences.calculator_html import render_calculator
from openbook.fences.calculator_model import CalculationError, Calculator, Given
from openbook.fences.calculator_read import read_calculator
from openbook.fences.calculator_units import WrongUnit, check, kind_of


def calculator_of(root: Node, problems: list[Problem]) -> Calculator | None:
    """The calculator of a body, checked; None where something is wrong."""
    calculator = read_calculator(root, load(), problems)
    if calculator is None:
        return None
    found = [*_wrong_units(calculator), *_undefined(calculator, root.line)]
    found = found or list(_missed_cases(calculator))
    problems += found
    return None if found else calculator


def _wrong_units(calculator: Calculator) -> Iterator[Problem]:
    kinds = {name: kind_of(one.unit) for part in (calculator.inputs, calculator.formulas) for name, one in part.items()}
    for formula in calculator.formulas.values():
        try:
            check(formula.expression.tree, kinds, kind_of(formula.unit))
        except WrongUnit as problem:
            yield Problem(formula.line, "wrong-unit", f"formula {formula.name}: {problem}")


def _undefined(calculator: Calculator, line: int) -> Iterator[Problem]:
    """Inputs that are allowed and have no result: the defaults, and each input at its ends or choices."""
    for given in _probes(calculator):
        try:
            calculator.compute(given)
        except CalculationError as problem:
            at = ", ".join(f"{name} = {value}" for name, value in given.items()) or "the defaults"
            yield Problem(line, "bad-formula", f"no result at {at}: {problem}", "narrow the range or guard the formula")
            return


def _probes(calculator: Calculator) -> Iterator[Given]:
    yield {}
    ends = {
        name: [choice for choice, _ in one.choices] or [one.least, one.most] for name, one in calculator.inputs.items()
    }
    for name, values in ends.items():
        yield from ({name: value} for value in values)
    for values in itertools.islice(itertools.product(*ends.values()), 256):
        yield dict(zip(ends, values))


def _missed_cases(calculator: Calculator) -> Iterator[Problem]:
    for case in calculator.cases:
        calculated = calculator.compute(case.inputs)
        for name in case.results:
            if case.off(name, calculated[name]):
                unit = calculator.formulas[name].unit
                message = (
                    f"case {case.title!r}: {name} is {calculated[name]:.6g} {unit}, published {case.results[name]}"
                )
                yield Problem(case.result_lines[name], "case", message)


def core(root: Node, problems: list[Problem]) -> str:
    calculator = calculator_of(root, problems)
    return render_calculator(calculator) if calculator else ""


render = base.formatter("calculator", core)
validate = base.validator("calculator")
