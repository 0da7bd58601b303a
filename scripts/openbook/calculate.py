"""Compute what a calculator of a page computes.

usage: python -m openbook.calculate PAGE [NAME=VALUE ...] [--calculator ID] [--json]

    python -m openbook.calculate docs/training/memory-and-time.md parameters=70 ranks=512 stage=1

Inputs that are not given have the page's defaults. Exit code 2: a page, an input or a value that is none.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from openbook import ROOT
from openbook.fences import base
from openbook.fences.calculator import calculator_of
from openbook.fences.calculator_html import shown_values
from openbook.fences.calculator_model import CalculationError, Calculator
from openbook.findings import Misuse, run
from openbook.render import Renderer


def calculators(page: Path) -> dict[str, Calculator]:
    """The calculators of a page by id. Raises Misuse where one has mistakes."""
    renderer = Renderer(ROOT / "mkdocs.yml")
    renderer.md.openbook_tolerant, renderer.md.openbook_unresolved = True, []
    found = {}
    for fence in renderer.page(page).fences:
        if fence.language != "calculator":
            continue
        problems: list = []
        root = base.body_of(fence.source, problems)
        calculator = calculator_of(root, problems) if root else None
        if calculator is None:
            raise Misuse(f"{page}:{fence.line_of(problems[0].line)}: {problems[0].message}")
        found[calculator.id] = calculator
    return found


def chosen(page: Path, wanted: str | None) -> Calculator:
    found = calculators(page)
    if not found:
        raise Misuse(f"{page}: there is no calculator on this page")
    if wanted is None and len(found) > 1:
        raise Misuse(f"{page} has several calculators: --calculator {' | '.join(found)}")
    if wanted is not None and wanted not in found:
        raise Misuse(f"{page} has no calculator {wanted!r}: {', '.join(found)}")
    return found[wanted or next(iter(found))]


def given(calculator: Calculator, pairs: Sequence[str]) -> dict[str, float | str]:
    values = calculator.defaults()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in calculator.inputs:
            raise Misuse(f"{pair!r}: write NAME=VALUE, with one of {', '.join(calculator.inputs)}")
        one = calculator.inputs[name]
        try:
            value: float | str = text if one.unit == "text" else float(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise Misuse(f"{pair!r}: {text!r} is not a number") from None
        if problem := one.refused(value):
            raise Misuse(f"{pair!r}: {problem}")
        values[name] = value
    return values


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m openbook.calculate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, metavar="PAGE")
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--calculator", metavar="ID", help="which, where a page has several")
    parser.add_argument("--json", action="store_true", help="one JSON document: inputs and results in their units")
    options = parser.parse_intermixed_args(argv)  # NAME=VALUE before or after --calculator
    calculator = chosen(options.page, options.calculator)
    inputs = given(calculator, options.values)
    try:
        results = calculator.compute(inputs)
    except CalculationError as problem:
        raise Misuse(str(problem)) from None
    if options.json:
        units = {name: one.unit for part in (calculator.inputs, calculator.formulas) for name, one in part.items()}
        print(json.dumps({"calculator": calculator.id, "inputs": inputs, "results": results, "units": units}))
        return 0
    shown = shown_values(calculator, inputs, results)
    width = max(map(len, shown))
    for name, text in shown.items():
        title = (calculator.inputs.get(name) or calculator.formulas[name]).title
        print(f"{name:{width}}  {text.replace(chr(0xA0), ' '):>16}  {title}")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
