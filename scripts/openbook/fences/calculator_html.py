"""A calculator as HTML: the worked example, readable without JavaScript, and the data from which the page computes."""

import json
from typing import Any

from openbook.data.show import unit_shown
from openbook.fences.base import escape, tag
from openbook.fences.calculator_model import Calculator, Case, Formula, Input
from openbook.fences.calculator_text import formula_text, numbers_text, significant, with_unit
from openbook.fences.calculator_units import base_factor

OPEN_STEPS = 10  # more formulas than that are folded: on a phone they are screens long


def render_calculator(calculator: Calculator) -> str:
    given = calculator.defaults()
    results = calculator.compute(given)
    shown = shown_values(calculator, given, results)
    title = f"{calculator.id}-title"
    parts = [
        tag("p", escape(calculator.title), class_="calculator-title", id=title),
        tag("p", escape(calculator.about), class_="calculator-about") if calculator.about else "",
        tag("dl", "".join(_input(one, shown[name]) for name, one in calculator.inputs.items()), class_="calculator-inputs"),
        tag("output", "".join(_output(calculator.formulas[name], shown[name]) for name in calculator.outputs)),
        _steps(calculator, given, results, shown),
        _evidence(calculator),
        tag("script", payload(calculator), type="application/json"),
    ]  # fmt: skip
    return tag("section", "".join(parts), class_="calculator", id=calculator.id, aria_labelledby=title)


def shown_values(calculator: Calculator, given: dict, results: dict[str, float]) -> dict[str, str]:
    """Every input and result as text with its unit; of a choice its value."""
    shown = {name: with_unit(given[name], one.unit) for name, one in calculator.inputs.items()}
    for name, formula in calculator.formulas.items():
        shown[name] = with_unit(significant(results[name], formula.digits), formula.unit)
    return shown


def _input(one: Input, value: str) -> str:
    chosen = next((title for choice, title in one.choices if choice == one.default), value)
    note = tag("span", escape(one.note), class_="calculator-note") if one.note else ""
    term = tag("dt", f"{escape(one.title)} {tag('code', escape(one.name))}")
    return tag("div", term + tag("dd", escape(chosen) + note))


def _output(formula: Formula, value: str) -> str:
    return tag("span", f"{escape(formula.title)}: {tag('strong', escape(value))}")


def _steps(calculator: Calculator, given: dict, results: dict[str, float], shown: dict[str, str]) -> str:
    base = calculator.base(given)
    base |= {name: results[name] * base_factor(formula.unit) for name, formula in calculator.formulas.items()}
    rows = []
    for name, formula in calculator.formulas.items():
        text = tag("code", escape(f"{name} = {formula_text(formula.expression.tree)}"))
        numbers = numbers_text(formula.expression.tree, shown, base)
        content = tag("span", escape(formula.title), class_="calculator-name") + " " + text
        content += tag("span", escape(f"{numbers} = {shown[name]}"), class_="calculator-numbers")
        content += tag("span", escape(formula.note), class_="calculator-note") if formula.note else ""
        rows.append(tag("li", content))
    steps = tag("ol", "".join(rows), class_="calculator-steps")
    if len(rows) <= OPEN_STEPS:
        return steps
    return tag("details", tag("summary", f"The {len(rows)} steps, with numbers") + steps, class_="calculator-evidence")


def _evidence(calculator: Calculator) -> str:
    """The published cases that the calculator reproduces, and the sources."""
    head = "".join(tag("th", text, scope="col") for text in ("Case", "Published", "Calculated"))
    rows = "".join(_case(calculator, case, name) for case in calculator.cases for name in case.results)
    table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", rows), class_="calculator-cases")
    sources = "".join(
        tag("li", tag("a", escape(one.title), href=one.url) + escape(f", {one.by}, {one.dated}; read {one.read}"))
        for one in calculator.sources.values()
    )
    count = sum(len(case.results) for case in calculator.cases)
    summary = tag("summary", f"Reproduces {count} published result{'s' if count != 1 else ''}; sources")
    return tag("details", summary + table + tag("ul", sources), class_="calculator-evidence")


def _case(calculator: Calculator, case: Case, name: str) -> str:
    formula = calculator.formulas[name]
    calculated = significant(calculator.compute(case.inputs)[name], formula.digits)
    cells = [tag("th", escape(f"{case.title}: {formula.title}"), scope="row")]
    cells += [tag("td", escape(with_unit(value, formula.unit))) for value in (case.results[name], calculated)]
    return tag("tr", "".join(cells))


def payload(calculator: Calculator) -> str:
    """What calculator.js needs, as JSON that cannot end its script element."""
    inputs = [
        {"name": one.name, "title": one.title, "unit": unit_shown(one.unit), "factor": base_factor(one.unit),
         "default": one.default, "note": one.note}
        | ({"choices": one.choices} if one.choices else {"least": one.least, "most": one.most, "whole": one.whole})
        for one in calculator.inputs.values()
    ]  # fmt: skip
    formulas = [
        {"name": one.name, "title": one.title, "unit": unit_shown(one.unit), "factor": base_factor(one.unit),
         "digits": one.digits, "tree": one.expression.tree}
        for one in calculator.formulas.values()
    ]  # fmt: skip
    presets: list[dict[str, Any]] = [{"title": one.title, "options": one.options} for one in calculator.presets]
    cases = [(case.title, {**calculator.defaults(), **case.inputs}) for case in calculator.cases]
    presets.append({"title": "Published case", "options": cases})
    data = {"id": calculator.id, "inputs": inputs, "formulas": formulas, "outputs": calculator.outputs,
            "presets": presets}  # fmt: skip
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
