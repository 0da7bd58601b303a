"""The `calculator` fence: the worked example, the published cases, units, and everything that is refused with its line."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown import Markdown
from selectolax.lexbor import LexborHTMLParser

from openbook import ROOT
from openbook.expressions import parse
from openbook.fences import base, calculator
from openbook.fences.calculator_text import formula_text, numbers_text, significant, with_unit
from openbook.fences.calculator_units import WrongUnit, check, kind_of

BODY = """\
id: time
title: Time to read a checkpoint
inputs:
  size: {title: Size, unit: GB, range: [1, 1000], default: 100}
  disks: {title: Disks, range: [1, 64], whole: true, default: 2}
  speed: {title: Speed of one, unit: Gb/s, range: [1, 400], default: 8}
  mode: {title: Mode, unit: text, default: all, choices: [{value: all, title: every disk}, {value: one, title: one disk}]}
formulas:
  seconds: {title: Time, unit: s, expr: size / rate}
  rate: {title: Rate, unit: GB/s, expr: "speed * (disks if mode == 'all' else 1)"}
outputs: [seconds]
sources:
  paper: {title: A paper, url: "https://example.org/a", kind: paper, by: Authors, dated: "2024", read: 2026-11-30}
cases:
  - {title: two disks, inputs: {disks: 2}, results: {seconds: 50}, source: paper}
"""
FENCE = "before\n\n```calculator\n{}```\n"


def read(body: str):
    problems: list = []
    root = base.body_of(body, problems)
    return (calculator.calculator_of(root, problems) if root else None), problems


def spoiled(old: str, new: str) -> list[tuple[int, str, str]]:
    assert BODY.count(old) >= 1, f"{old!r} is not in the body"
    found, problems = read(BODY.replace(old, new, 1))
    assert found is None and problems, "nothing was found"
    return [(problem.line, problem.rule, str(problem)) for problem in problems]


def markdown() -> Markdown:
    custom = {
        "name": "calculator",
        "class": "calculator",
        "format": calculator.render,
        "validator": calculator.validate,
    }
    return Markdown(extensions=["pymdownx.superfences"], extension_configs={"pymdownx.superfences": {"custom_fences": [custom]}})  # fmt: skip


def texts(tree, selector):
    return [" ".join(node.text().replace("\u00a0", " ").split()) for node in tree.css(selector)]


def test_the_worked_example_reads_without_script():
    tree = LexborHTMLParser(markdown().convert(FENCE.format(BODY)))
    assert texts(tree, ".calculator-title") == ["Time to read a checkpoint"]
    assert texts(tree, "dt") == ["Size size", "Disks disks", "Speed of one speed", "Mode mode"]
    assert texts(tree, "dd") == ["100 GB", "2", "8 Gb/s", "every disk"]
    assert texts(tree, "output") == ["Time: 50 s"]
    assert texts(tree, ".calculator-steps code") == [
        "rate = speed × (disks if mode = “all” else 1)",
        "seconds = size / rate",
    ]
    assert texts(tree, ".calculator-numbers") == ["8 Gb/s × 2 = 2 GB/s", "100 GB / 2 GB/s = 50 s"]
    assert texts(tree, ".calculator-cases td") == ["50 s", "50 s"]
    assert tree.css_first(".calculator-evidence a").attributes["href"] == "https://example.org/a"
    assert tree.css("form, input, button, select") == []
    assert json.loads(tree.css_first("script[type='application/json']").text())["outputs"] == ["seconds"]


def test_many_steps_are_folded_and_few_are_not():
    more = "".join(f"  more{n}: {{title: More, unit: s, expr: seconds * {n}}}\n" for n in range(2, 11))
    few = LexborHTMLParser(markdown().convert(FENCE.format(BODY)))
    many = LexborHTMLParser(markdown().convert(FENCE.format(BODY.replace("outputs:", more + "outputs:", 1))))
    assert few.css_first("details .calculator-steps") is None
    assert texts(many, "details:has(.calculator-steps) > summary") == ["The 11 steps, with numbers"]
    assert len(many.css("details .calculator-steps li")) == 11


def test_units_are_converted():
    found, _ = read(BODY)
    assert found.compute({"size": 1000, "speed": 80, "disks": 1}) == {"rate": 10.0, "seconds": 100.0}


@pytest.mark.parametrize(
    "old, new, line, rule, words",
    [
        ("default: 100", "default: many", 4, "wrong-type", "must be a number, not text"),
        ("default: 100", "default: [1]", 4, "wrong-type", "must be a number, not a list"),
        ("default: 100", "default: .nan", 4, "bad-number", "not a number"),
        ("default: 100", "default: 1e99", 4, "bad-number", "larger than any quantity"),
        ("default: 100", "default: 5000", 4, "bad-number", "from 1 to 1000"),
        ("default: 2", "default: 2.5", 5, "bad-number", "a whole number"),
        ("[1, 1000]", "[1000, 1]", 4, "wrong-type", "[least, most]"),
        ("[1, 1000]", "[1]", 4, "wrong-type", "[least, most]"),
        ("range: [1, 1000], ", "", 4, "missing-field", "has no 'range'"),
        ("title: Size,", "title: Size, colour: red,", 4, "unknown-field", "unknown field 'colour'"),
        ("  disks:", "  size:", 5, "duplicate-key", "stands twice"),
        ("unit: GB,", "unit: GBs,", 4, "wrong-unit", "unknown unit 'GBs'"),
        ("unit: s,", "unit: GB,", 9, "wrong-unit", "the result is s, the unit says B"),
        ("size / rate", "size + rate", 9, "wrong-unit", "joins B and B/s"),
        ("size / rate", "log2(size) / rate * size", 9, "wrong-unit", "takes plain numbers"),
        ("size / rate", "size / rates", 9, "bad-formula", "did you mean 'rate'"),
        ("size / rate", "size / (disks - disks) / rate", 3 - 2, "bad-formula", "division by zero"),
        ("size / rate", "size / (disks - 1) / rate", 1, "bad-formula", "no result at disks = 1"),
        ("size / rate", "__import__('os')", 9, "bad-formula", "unknown function '__import__'"),
        ("speed * (", "seconds / seconds * speed * (", 9, "cyclic", "circle: "),
        ("mode == 'all'", "mode == 1", 10, "wrong-unit", "compares text and a plain number"),
        ("mode == 'all'", "mode == 'all' and disks", 10, "wrong-unit", "joins a condition and a plain number"),
        ("  rate:", "  disks:", 10, "duplicate-key", "an input and a formula"),
        ("  rate:", "  min:", 10, "bad-text", "has a meaning in formulas"),
        ("outputs: [seconds]", "outputs: [second]", 11, "unknown-formula", "did you mean 'seconds'"),
        ("{seconds: 50}", "{seconds: 51}", 15, "case", "'two disks': seconds is 50 s, published 51"),
        ("{seconds: 50}", "{minutes: 1}", 15, "unknown-field", "no formula 'minutes'"),
        ("{disks: 2}", "{disks: 0}", 15, "bad-number", "from 1 to 64"),
        ("{disks: 2}", "{disk: 2}", 15, "unknown-field", "did you mean 'disks'"),
        ("source: paper}", "source: book}", 15, "unknown-source", "no source 'book'"),
        ("read: 2026-11-30", "read: soon", 13, "wrong-type", "a date"),
        ("https://example.org/a", "javascript:alert(1)", 13, "bad-text", "not an http(s) address"),
        ("id: time", "id: Time!", 1, "bad-text", "must match"),
        ("title: Time to", "title: &a Time to", 2, "yaml-alias", "anchor"),
        ("title: Time to", "title: !!python/name:os.system Time to", 2, "yaml-tag", "is not allowed"),
        ("  - {title: two", "  - {title: [two]}\n  - {title: two", 15, "wrong-type", "must be text"),
        ("cases:", "cases: []\nkases:", 15, "unknown-field", "'kases'"),
        ("choices: [{value: all", "choices: [{value: one, title: x}, {value: all", 7, "duplicate-key", "twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(old, new, line, rule, words):
    found = spoiled(old, new)
    assert any(at == line and kind == rule and words in message for at, kind, message in found), found


def test_a_bomb_of_aliases_is_refused_at_once():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    found, problems = read(bomb)
    assert found is None and problems[0].rule == "yaml-alias"
    assert read("x: " * 200)[1] and read("[" * 50_000)[1]


def test_a_mistake_stops_the_build_and_names_the_line():
    with pytest.raises(
        base.FenceError, match=r"(?s)calculator fence that begins with 'id: time'.*line 9: .*size / rates"
    ):
        markdown().convert(FENCE.format(BODY.replace("size / rate", "size / rates")))
    md = markdown()
    md.openbook_tolerant = True
    assert "openbook-failed" in md.convert(FENCE.format(BODY.replace("size / rate", "size / rates")))


def test_no_text_becomes_markup():
    attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    body = BODY
    for title in ("Size", "Rate", "Time to read a checkpoint", "A paper", "two disks", "every disk"):
        body = body.replace(
            f"title: {title}", f'title: "{attack[: 60 if title in ("Size", "Rate", "every disk") else 80]}"'
        )
    tree = LexborHTMLParser(markdown().convert(FENCE.format(body)))
    assert [node.attributes.get("type") for node in tree.css("script")] == ["application/json"]
    assert tree.css("img") == []
    assert json.loads(tree.css_first("script").text())["inputs"][0]["title"].startswith("</script>")


@pytest.mark.parametrize("published, ok", [(49.6, True), (50, True), (50.4, False), (49, False)])
def test_a_case_must_round_to_what_is_published(published, ok):
    body = BODY.replace("size: {title: Size, unit: GB, range: [1, 1000], default: 100}", "size: {title: Size, unit: GB, range: [1, 1000], default: 99.2}")  # fmt: skip
    found, _ = read(body.replace("{seconds: 50}", f"{{seconds: {published}}}"))
    assert bool(found) is ok


def test_a_tolerance_is_a_share():
    assert read(
        BODY.replace("{seconds: 50}", "{seconds: 51}").replace("source: paper}", "source: paper, tolerance: 0.02}")
    )[0]
    assert not read(
        BODY.replace("{seconds: 50}", "{seconds: 52}").replace("source: paper}", "source: paper, tolerance: 0.02}")
    )[0]


def test_presets_are_records(data):
    preset = "presets:\n  chip: {title: Chip, topic: chips, records: [one, three], set: {size: memory_size}}\n"
    found, problems = read(BODY.replace("1000]", "2000]", 1) + preset)
    assert problems == [] and found.presets[0].options == (("Chip One", {"size": 80}), ("Chip Three", {"size": 1410.5}))
    assert "two has no value for size" in str(read(BODY + preset.replace("three", "two"))[1][0])
    assert "cannot be given in" in str(read(BODY + preset.replace("memory_size", "bf16_dense"))[1][0])
    assert "no record 'ones'" in str(read(BODY + preset.replace("[one", "[ones"))[1][0])


@pytest.mark.parametrize(
    "text, units, wanted, words",
    [
        ("a * b", {"a": "FLOP/s", "b": "s"}, "FLOP", ""), ("a / b", {"a": "GB", "b": "Gb/s"}, "h", ""),
        ("sqrt(a * a)", {"a": "W"}, "kW", ""), ("a ** 2 / a", {"a": "GB"}, "B", ""), ("max(0, a)", {"a": "s"}, "s", ""),
        ("a * b", {"a": "W", "b": "h"}, "kWh", ""), ("a * b", {"a": "USD/h", "b": "day"}, "USD", ""),
        ("a * b", {"a": "MWh", "b": "gCO2e/kWh"}, "tCO2e", ""), ("a * b", {"a": "kW", "b": "USD/kWh"}, "USD/h", ""),
        ("a * b + c * d", {"a": "TB", "b": "USD/GiB", "c": "million", "d": "USD/thousand"}, "USD", ""),
        ("a // b + a % b / b", {"a": "s", "b": "min"}, "1", ""), ("a * b * c", {"a": "1", "b": "FLOP/clock", "c": "MHz"}, "TFLOP/s", ""),
        ("a if b > 3 else 0", {"a": "s", "b": "1"}, "s", ""), ("a + 1", {"a": "GB"}, "GB", "joins B and a plain number"),
        ("a ** b", {"a": "GB", "b": "1"}, "GB", "must be a number that is written out"),
        ("min(a, b)", {"a": "s", "b": "B/s"}, "s", "joins s and B/s"), ("ceil(a)", {"a": "h"}, "h", "takes plain numbers"),
        ("a < b", {"a": "s", "b": "h"}, "s", "the result is a condition"), ("a and b", {"a": "s", "b": "s"}, "1", "joins s and a condition"),
    ],
)  # fmt: skip
def test_units_of_formulas(text, units, wanted, words):
    tree, kinds = parse(text).tree, {name: kind_of(unit) for name, unit in units.items()}
    if not words:
        return check(tree, kinds, kind_of(wanted))
    with pytest.raises(WrongUnit) as raised:
        check(tree, kinds, kind_of(wanted))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text, symbols, numbers",
    [
        ("a - (b - a)", "a − (b − a)", "2 − (3 − 2)"), ("(a + b) * a / (a * b)", "(a + b) × a / (a × b)", "(2 + 3) × 2 / (2 × 3)"),
        ("-a ** 2", "−a ^ 2", "−2 ^ 2"), ("(-a) ** 2", "(−a) ^ 2", "(−2) ^ 2"), ("max(a, b + 1)", "max(a, b + 1)", "max(2, 3 + 1)"),
        ("a * (b if a <= 1 or not b > 2 else 1e6)", "a × (b if a ≤ 1 or not b > 2 else 1,000,000)", "2 × 1,000,000"),
    ],
)  # fmt: skip
def test_formulas_as_text(text, symbols, numbers):
    tree = parse(text).tree
    assert formula_text(tree) == symbols
    assert numbers_text(tree, {"a": "2", "b": "3"}, {"a": 2, "b": 3}) == numbers


@given(st.floats(1e-12, 1e20), st.integers(1, 9))
def test_digits_are_few_and_near(value, digits):
    rounded = significant(value, digits)
    assert abs(rounded - value) <= abs(value) * 0.5000001 * 10 ** (1 - digits)
    assert with_unit(rounded, "GB").endswith("\u00a0GB")


def test_halves_are_rounded_as_in_a_browser():
    assert significant(31.125, 4) == 31.13 and significant(-0.0, 3) == 0.0 and str(significant(-0.0, 3)) == "0.0"


def compute(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "openbook.calculate", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"PYTHONPATH": "scripts", "PATH": ""})


def test_command_line():
    page = "docs/training/memory-and-time.md"
    told = json.loads(compute(page, "parameters=7.5", "ranks=64", "stage=1", "--json").stdout)
    assert told["results"]["total"] == pytest.approx(31.40625) and told["units"]["total"] == "GB"
    assert "31.41 GB  Total per GPU" in compute(page, "stage=1").stdout
    for wrong, words in (
        ("stage=7", "one of 0, 1, 2, 3"), ("ranks=x", "not a number"), ("rank=2", "write NAME=VALUE"), ("ranks=nan", "not a number"),
    ):  # fmt: skip
        done = compute(page, wrong)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    assert "no calculator on this page" in compute("docs/index.md").stderr
    chosen = compute("docs/compute/cost.md", "--calculator", "run-cost", "devices=2048")  # values after the option, too
    assert chosen.returncode == 0 and "100.8 day" in chosen.stdout
