"""Calculators in a browser: the same results as Python, the address bar, messages, keys; without JavaScript; axe."""

import itertools
import json
import random

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe

from openbook import ROOT
from openbook.expressions import parse
from openbook.fences import base, calculator
from openbook.fences.calculator_html import shown_values
from openbook.fences.calculator_model import CalculationError
from openbook.fences.calculator_text import numbers_text
from openbook.fences.calculator_units import base_factor

MEMORY = (ROOT / "docs/data/calculators/training-memory.yml").read_text()
# Every operator and function, and inputs for which some of them have no result.
EVERYTHING = """\
id: everything
title: Everything that a formula can say
inputs:
  a: {title: A, range: [-1000, 1000], default: 7.5}
  b: {title: B, unit: thousand, range: [-3, 3], default: 0.002}
  n: {title: N, range: [-20, 20], whole: true, default: 3}
  word: {title: Word, unit: text, default: x, choices: [{value: x, title: ex}, {value: "y z", title: why}]}
formulas:
  sums: {title: Sums, digits: 12, expr: a + b - -n * 2}
  quotient: {title: Quotient, digits: 12, expr: a / b}
  floors: {title: Floors, digits: 12, expr: a // b + a % b - 1000 * (-a // 7 + -a % 7)}
  powers: {title: Powers, digits: 12, expr: a ** n / 1e6 + 2 ** -n - abs(a) ** 0.5}
  fractions: {title: Fractional powers, digits: 12, expr: a ** b}
  picks: {title: Picks, digits: 12, expr: "min(a, b, n) * max(a, n) + ceil(a / 3) - floor(-a / 3)"}
  logs: {title: Logarithms, digits: 10, expr: "log(abs(a) + 2) + log(8, abs(a) + 2) + log2(a + 1001) * log10(abs(b) + 1)"}
  bare: {title: Bare logarithm, digits: 10, expr: log10(a)}
  based: {title: Logarithm to a base, digits: 10, expr: "log(16, n)"}
  root: {title: Root, digits: 12, expr: sqrt(a - n)}
  chosen: {title: Chosen, digits: 4, expr: "a if -5 < a <= 5 != n and not word == 'x' or n >= 19 else b * 1e18 / 7"}
  tiny: {title: Tiny, digits: 3, expr: a * 1e-9}
  halves: {title: Halves, digits: 4, expr: n / 64 + 31}
  huge: {title: Huge, digits: 5, expr: (a * 1e20) ** n}
outputs: [sums, quotient, chosen]
sources:
  arithmetic: {title: Arithmetic, url: "https://example.org/", kind: standard, by: Nobody, dated: undated, read: 2026-11-30}
cases:
  - {title: the defaults, inputs: {a: 7.5}, results: {sums: 15.5}, source: arithmetic}
"""
PAGE = "---\ntitle: Calculators\n---\n\n# Calculators\n\n```calculator\n{}```\n\n## More\n\n{}\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory, serve_book):
    """(folder, address) of a page with the book's calculator, built as the book is."""
    home = tmp_path_factory.mktemp("calculator")
    (home / "docs").mkdir()
    (home / "docs" / "assets").symlink_to(ROOT / "docs" / "assets")
    (home / "docs" / "index.md").write_text(PAGE.format(MEMORY, "text\n\n" * 60))
    return serve_book(home, ["-m", "mkdocs"])


@pytest.fixture
def opened(site, open_page):
    """opened(query, …) → the page; nothing foreign was asked for, nothing went wrong."""

    def open_it(query: str = "", **options):
        watched = open_page(site[1] + query, site[1], **options)
        assert watched.foreign == [] and watched.errors == []
        return watched.page

    return open_it


def model(body: str):
    problems: list = []
    root = base.body_of(body, problems)
    found = calculator.read_calculator(root, calculator.load(), problems)
    assert found, problems
    return found


def expected(found, given) -> dict[str, str]:
    """What Python says: the answers and each step as text; in place of them why there is no result."""
    values = {**found.defaults(), **given}
    if wrong := next((one for name, one in found.inputs.items() if one.refused(values[name])), None):
        return {"wrong": wrong.title}
    try:
        results = found.compute(values)
    except CalculationError as problem:
        return {"wrong": str(problem).partition(":")[0]}
    shown = shown_values(found, values, results)
    known = found.base(values) | {name: results[name] * base_factor(one.unit) for name, one in found.formulas.items()}
    steps = [
        f"{numbers_text(one.expression.tree, shown, known)} = {shown[name]}" for name, one in found.formulas.items()
    ]
    return {
        "answers": [f"{found.formulas[name].title}: {shown[name]}" for name in found.formulas if name in found.outputs],
        "steps": steps,
    }


RUN = """([id, usual, grid]) => {
  const calculator = document.getElementById(id)
  const controls = new Map(Object.keys(usual).map(name => [name, document.getElementById(`${id}.${name}`)]))
  return grid.map(given => {
    for (const [name, control] of controls) control.value = given[name] ?? usual[name]
    controls.values().next().value.dispatchEvent(new Event("input"))
    const wrong = calculator.querySelector("output .calculator-wrong")
    if (wrong) return {wrong: wrong.textContent.split(":")[0]}
    return {answers: [...calculator.querySelectorAll("output > span")].map(one => one.textContent),
            steps: [...calculator.querySelectorAll(".calculator-numbers")].map(one => one.textContent)}
  })
}"""


def compare(page, found, grid: list[dict]):
    told = page.evaluate(RUN, [found.id, found.defaults(), grid])
    for given, browser in zip(grid, told):
        assert browser == expected(found, given), given


def test_the_browser_and_python_agree_on_training_memory(opened):
    found = model(MEMORY)
    ends = [
        [one.least, one.default, one.most] if not one.choices else [v for v, _ in one.choices]
        for one in found.inputs.values()
    ]
    grid = [dict(zip(found.inputs, values)) for values in itertools.product(*ends)]
    grid += [{"ranks": 0}, {"ranks": 2.5}, {"parameters": 1e9}, {"stage": 7}, {"weight": -1}]
    compare(opened(), found, random.Random(1).sample(grid, 400))


def test_the_browser_and_python_agree_on_every_operator(site, opened):
    """The page's calculator is replaced by one formula at a time, on a grid with all places where it has no result."""
    page = opened()
    numbers = random.Random(2)
    whole = yaml.safe_load(EVERYTHING)
    for name, formula in whole["formulas"].items():
        body = {**whole, "id": f"f-{name}", "formulas": {name: formula}, "outputs": [name]}
        body["cases"] = []
        body["inputs"] = {key: one for key, one in whole["inputs"].items() if key in parse(formula["expr"]).names}
        found = model(yaml.safe_dump(body, sort_keys=False))
        grid = []
        for a, b, n, word in itertools.product((-1000, -5, -1, -0.5, 0, 1, 5, 7.5, 1000), (-3, -0.002, 0, 0.001, 3), (-20, -1, 0, 1, 2, 19), ("x", "y z")):  # fmt: skip
            grid.append(
                {key: value for key, value in {"a": a, "b": b, "n": n, "word": word}.items() if key in found.inputs}
            )
        grid += [{key: numbers.uniform(one.least, one.most) for key, one in found.inputs.items() if not one.choices and not one.whole} for _ in range(40)]  # fmt: skip
        unique = [json.loads(text) for text in dict.fromkeys(map(json.dumps, grid))]
        page.evaluate(
            """html => {
              const old = document.querySelector(".calculator")
              old.insertAdjacentHTML("afterend", html)
              old.remove()
            }""",
            calculator.render_calculator(found),
        )
        page.add_script_tag(url="assets/js/calculator.js")
        compare(page, found, numbers.sample(unique, min(len(unique), 200)))


def answer(page) -> str:
    return page.locator(".calculator output").inner_text().replace("\u00a0", " ")


def test_inputs_stand_in_the_address_and_come_back(opened):
    page = opened("?h=kept#more")
    assert answer(page) == "Total per GPU: 1.875 GB"
    page.get_by_label("Parameters").fill("70")
    page.get_by_label("ZeRO stage").select_option("1")
    assert answer(page) == "Total per GPU: 293.1 GB"
    assert "h=kept" in page.url and "training-memory.parameters=70&training-memory.stage=1" in page.url
    assert page.url.endswith("#more"), "the section stays in the address"
    shared = page.url.partition("/?")[2]
    again = opened("?" + shared)
    assert again.get_by_label("Parameters").input_value() == "70" and answer(again) == answer(page)
    again.get_by_role("button", name="Reset").click()
    assert answer(again) == "Total per GPU: 1.875 GB" and "training-memory" not in again.url


def test_published_cases_and_cleared_choices(opened):
    page = opened()
    choose = page.get_by_label("Published case")
    for n, total in enumerate(("120 GB", "31.41 GB", "16.64 GB", "1.875 GB")):
        page.get_by_label("Bytes per weight").fill("4")
        choose.select_option(str(n))
        assert answer(page) == f"Total per GPU: {total}", "a case sets every input"
    page.get_by_label("Bytes per weight").fill("4")
    assert choose.input_value() == ""


def test_a_model_sets_its_parameters_alone(opened):
    page = opened("?training-memory.stage=0")
    page.get_by_label("Model").select_option(label="BLOOM 176B")
    assert page.get_by_label("Parameters").input_value() == "176.247"
    assert answer(page) == "Total per GPU: 2,820 GB", "the stage stays"
    assert "training-memory.parameters=176.247" in page.url


@pytest.mark.parametrize(
    "field, entry, message",
    [
        ("Parameters", "abc", "Not a number: 7.5 and 7.5e9 are"), ("Parameters", "", "Not a number: 7.5 and 7.5e9 are"),
        ("Parameters", "1e999", "Not a number: 7.5 and 7.5e9 are"), ("Parameters", "0", "From 0.001 to 100,000"),
        ("Data-parallel GPUs", "2.5", "A whole number"), ("Data-parallel GPUs", "-1", "From 1 to 1,000,000"),
        ("Parameters", "<img src=x onerror=alert(1)>", "Not a number: 7.5 and 7.5e9 are"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_said_at_the_field_and_in_the_result(opened, field, entry, message):
    page = opened()
    control = page.get_by_label(field)
    control.fill(entry)
    hint = page.locator(f"#{control.get_attribute('aria-describedby')}".replace(".", "\\."))
    assert hint.inner_text() == message and control.get_attribute("aria-invalid") == "true"
    assert answer(page) == f"{field}: {message}"
    assert page.locator(".calculator img").count() == 0
    control.fill("1,024")
    assert control.get_attribute("aria-invalid") == "false" and "GB" in answer(page)


def test_a_hostile_address_is_text(opened):
    page = opened("?training-memory.parameters=<script>alert(1)</script>&training-memory.stage=__proto__")
    assert answer(page).startswith("Parameters: Not a number")
    assert page.get_by_label("ZeRO stage").get_attribute("aria-invalid") == "true"


def test_keys_alone_are_enough(opened):
    page = opened()
    page.get_by_label("Parameters").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("13")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert page.get_by_label("ZeRO stage").input_value() == "2"
    assert answer(page) == "Total per GPU: 28.84 GB" and page.url.count("?") == 1
    assert page.locator(".calculator output").evaluate("e => e.tagName") == "OUTPUT", "which screen readers announce"


def test_without_script_the_worked_example_stands(opened):
    page = opened(java_script_enabled=False)
    assert page.locator(".calculator input, .calculator select, .calculator button").count() == 0
    assert answer(page) == "Total per GPU: 1.875 GB"
    assert "7.5 billion × 2 B / 64 = 0.2344 GB" in page.locator(".calculator-steps").inner_text().replace("\u00a0", " ")
    page.locator(".calculator summary").click()
    assert page.locator(".calculator-cases").is_visible()


@pytest.mark.parametrize("query", ["", "?training-memory.stage=9&training-memory.ranks=0"], ids=["fine", "wrong"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_fits_a_phone(opened, scheme, query):
    page = opened(query, color_scheme=scheme, viewport={"width": 360, "height": 740})
    page.locator(".calculator summary").click()
    found = Axe().run(page, context=".calculator").response["violations"]
    assert [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_print_shows_the_numbers_not_the_tools(opened):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator(".calculator-tools").is_visible()
    assert page.locator(".calculator output").is_visible()
