"""Numbers on pages: those that differ from a record are found, the others are left alone."""

import pytest
from markdown import Markdown

from openbook.data.load import load
from openbook.data.prose import check_prose, same


@pytest.fixture
def found(tmp_path, topic):
    (tmp_path / "chips.yml").write_text(topic)
    data = load(tmp_path)
    assert not data.findings

    def find(text: str):
        html = Markdown(extensions=["tables"]).convert(text)
        return [(p.line, p.rule, p.message) for p in check_prose(html, text.split("\n"), data)]

    return find


@pytest.mark.parametrize(
    "text, words",
    [
        ("# T\n\nThe bf16 peak of a Chip One is 950 TFLOP/s.", "950 TFLOP/s differs from Chip One: bf16 dense 989.4"),
        ("# T\n\nA C1 has 72 GB of memory.", "72 GB differs from Chip One: Memory 80 GB"),
        ("# T\n\nMemory of **Chip Two**: 180 GB.", "180 GB differs from Chip Two: Memory 192 GB"),
        ("# T\n\nIn bf16 a Chip One does 0.95 PFLOP/s.", "0.95 PFLOP/s differs from Chip One: bf16 dense 0.9894"),
        ("# T\n\n- The link of Chip One: 850 GB/s.", "850 GB/s differs from Chip One: Link 900 GB/s"),
    ],
)
def test_a_number_that_differs_is_found(found, text, words):
    assert [(line, rule) for line, rule, _ in found(text)] == [(3, "differs")]
    assert words in found(text)[0][2]


@pytest.mark.parametrize(
    "text",
    [
        "The bf16 peak of a Chip One is 989.4 TFLOP/s.",
        "The bf16 peak of a Chip One is 989 TFLOP/s, that is 0.99 PFLOP/s.",
        "The bf16 peak of a Chip One is 990 TFLOP/s.",
        "In bf16 a Chip One reaches 800 TFLOP/s.",
        "We measured 850 TFLOP/s in bf16 on a Chip One.",
        "In bf16 a Chip Two has 1,300 TFLOP/s.",  # what the other source says
        "A Chip One has 40 GB of memory in the older version.",  # another quantity
        "A node of Chip One has 85 GB of memory.",
        "The bf16 peak of Chip Onerous is 950 TFLOP/s.",
        "A Chip One takes a batch of 85 GB in fp16.",  # no word of the column
        "`Chip One bf16 950 TFLOP/s`",
        "Chip One has bf16. Others have 950 TFLOP/s.",
        "950 TFLOP/s in bf16 is what an unnamed chip has.",
    ],
)
def test_other_numbers_are_left_alone(found, text):
    assert found(text) == []


TABLE = """\
| chip | bf16, TFLOP/s | memory, GB | best found, TFLOP/s |
|---|---:|---:|---:|
| Chip One | {bf16} | 80 | 795 |
| Chip Two | 1,307 | 192 | 1,200 |
"""


def test_a_table_typed_by_hand_is_found(found):
    (finding,) = found("Text\n\n" + TABLE.format(bf16=989))
    assert finding[:2] == (5, "table-by-hand")
    assert "repeats 4 figures" in finding[2]


def test_a_cell_that_differs_is_found_at_its_row(found):
    assert [f[:2] for f in found("Chip One: 980\n\n" + TABLE.format(bf16=980))] == [(5, "differs")]


def test_the_unit_may_stand_above_the_table(found):
    text = "Dense TFLOP/s per chip:\n\n| chip | bf16 | tf32 |\n|---|---|---|\n| Chip One | 950 | 495 |\n"
    assert [f[:2] for f in found(text)] == [(5, "differs")]


@pytest.mark.parametrize(
    "literal, stated, expected",
    [("989", 989.4, True), ("990", 989.4, True), ("1,000", 989.4, True), ("988", 989.4, False), ("3.3", 3.35, True),
     ("3.4", 3.35, True), ("3.2", 3.35, False), ("80", 80, True), ("81", 80, False), ("1,979", 1978.9, True), ("312", 312, True)],
)  # fmt: skip
def test_rounding_is_no_difference(literal, stated, expected):
    assert same(literal, stated) is expected
