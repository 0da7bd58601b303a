"""Identities, derived values, plausibility and age; units; numbers as shown."""

import datetime

import pytest

from openbook.data.checks import check_topic
from openbook.data.model import Column, Figure
from openbook.data.show import number, shown
from openbook.data.units import UNITS, UnitError, convert, switches

TODAY = datetime.date(2026, 12, 1)


@pytest.fixture
def checked(read, topic):
    def check(old="", new="", today=TODAY):
        assert not old or old in topic
        made, problems = read(topic.replace(old, new, 1) if old else topic)
        assert not problems, problems
        return [(p.line, p.rule, p.message) for p in check_topic(made, today) if p.severity != "notice"]

    return check


def line(topic, part):
    return next(n for n, text in enumerate(topic.splitlines(), 1) if part in text)


def test_a_right_topic_has_no_findings(checked):
    assert checked() == []


CASES = {
    "identity": ("value: 494.7", "value: 400", "identity", "value: 989.4", "does not hold within 1.00%"),
    "derived": ("value: 450", "value: 440", "identity", "value: 450", "link_both / 2 = 450"),
    "plausible": ("value: 989.4, source", "value: 0.5, source", "implausible", "value: 989.4", "outside 1 to 20000"),
    "below zero": ("value: 80,", "value: -80,", "implausible", "value: 80", "below zero"),
    "division by zero": ("derived: link_both / 2", "derived: link_both / 0", "bad-formula", "value: 450", "division by zero"),
    "unknown name": ("derived: link_both / 2", "derived: linkboth / 2", "bad-formula", "value: 450", "'link_both'"),
    "code": ("derived: link_both / 2", "derived: '__import__(\"os\").system(\"ls\")'", "bad-formula", "value: 450", "not allowed"),
    "without a value": ("derived: link_both / 2", "derived: fp4_dense / 2", "bad-formula", "value: 450", "has no value here"),
    "cycle": ("link_both: {value: 900,", "link_both: {value: 900, derived: 2 * link_one,", "cyclic", "value: 900", "link_both"),
    "itself": ("derived: link_both / 2", "derived: link_one", "cyclic", "value: 450", "link_one → link_one"),
    "no comparison": ('expr: "bf16_dense == 2 * tf32_dense"', 'expr: "bf16_dense"', "bad-formula", "expr:", "one comparison"),
    "text and number": ("vendor == \"Maker\"'", "vendor == 1'", "bad-formula", "- id: one", "compares text with a number"),
    "future": ("read: 2026-11-30", "read: 2027-01-01", "future", "  page:", "is to come"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_cannot_be_is_found_at_its_line(checked, topic, case):
    old, new, rule, part, words = case
    found = checked(old, new)
    assert (line(topic, part), rule) in [(number, name) for number, name, _ in found], found
    assert any(words in message for _, name, message in found if name == rule), found


def test_age_depends_on_the_day(checked, topic):
    assert checked(today=datetime.date(2028, 5, 1)) == []
    late = checked(today=datetime.date(2028, 7, 1))
    assert [(n, rule) for n, rule, _ in late] == [
        (line(topic, "  page:"), "too-old"),
        (line(topic, "  paper:"), "too-old"),
    ]


def test_the_unit_is_converted_before_it_is_judged(checked):
    assert checked("value: 1.3074, unit: PFLOP/s", "value: 30, unit: PFLOP/s")[0][1] == "implausible"


@pytest.mark.parametrize(
    "value, source, target, expected",
    [(1, "GB/s", "Gb/s", 8), (80, "GB", "GiB", 74.5058), (1, "PFLOP/s", "TFLOP/s", 1000), (3.35, "TB/s", "GB/s", 3350)],
)
def test_units_are_converted(value, source, target, expected):
    assert convert(value, source, target) == pytest.approx(expected, rel=1e-6)
    assert convert(convert(value, source, target), target, source) == pytest.approx(value)


def test_units_of_different_kinds_are_not_converted():
    for one, other in [("TFLOP/s", "FLOP"), ("GB", "GB/s"), ("W", "h"), ("TFLOP/s", "OP/s"), ("x", "GB")]:
        with pytest.raises(UnitError):
            convert(1, one, other)


def test_a_column_is_switched_within_its_dimension():
    for unit in UNITS:
        assert {UNITS[other].dimension for other in switches(unit)} <= {UNITS[unit].dimension}
    assert switches("GB/s") == ("GB/s", "Gb/s", "TB/s")


@pytest.mark.parametrize(
    "value, text",
    [(1979, "1,979"), (989.4, "989.4"), (3.0, "3"), (3.35, "3.35"), (0.016, "0.016"), (3.4e38, "3.4e38"), (0, "0"),
     (6.1e-5, "6.1e-5"), (15_000_000_000_000, "15,000,000,000,000"), (0.1 + 0.2, "0.3"), (-5, "-5")],
)  # fmt: skip
def test_numbers_are_shown_as_people_write_them(value, text):
    assert number(value) == text


def test_converting_invents_no_digits():
    figure = Figure(column=Column("m", "Memory", "GB", 1), line=1, value=80, unit="GB")
    assert shown(figure) == "80"
    assert shown(figure, "GiB") == "74.51"
    assert shown(figure, "GiB", digits=2) == "75"
