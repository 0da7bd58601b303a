"""Topic files: what is read, and what is refused with which line."""

import datetime

import pytest

from openbook.data.load import Data, UnknownName, load


def lines(text, part):
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_right_file_is_read(read, topic):
    made, problems = read(topic)
    assert problems == []
    one, two = made.records.values()
    assert (one.name, one.aliases, one.per) == ("Chip One", ("C1",), "chip")
    assert one.figure("bf16_dense").value == 989.4
    assert one.figure("bf16_dense").source.read == datetime.date(2026, 11, 30)
    assert one.figure("fp4_dense").none and one.figure("fp4_dense").value is None
    assert one.figure("released").value == "2022-10"
    assert [f.value for f in two.figures["bf16_dense"]] == [1.3074, 1300]
    assert two.values()["bf16_dense"] == pytest.approx(1307.4), "in the column's unit"
    assert made.sources["page"].dated == "2024-03"


# What is spoiled: (old, new, rule, part of the line that is to be named, words of the message)
BAD = {
    "wrong type: number as text": ("value: 80,", 'value: "80",', "wrong-type", "value: 80", "must be a number, not text"),
    "wrong type: text as number": ("name: Chip Two", "name: 2", "wrong-type", "name: Chip Two", "must be text"),
    "wrong type: true": ("value: 80,", "value: true,", "wrong-type", "value: 80", "not true/false"),
    "wrong type: list": ("name: Chip Two", "name: [a]", "wrong-type", "name: Chip Two", "not a list"),
    "empty": ("name: Chip Two", "name:", "wrong-type", "name: Chip Two", "is empty"),
    "unknown field of a figure": ("value: 80,", "values: 80,", "unknown-field", "value: 80", "did you mean 'value'"),
    "unknown field of a record": ("    group: First", "    groups: First", "unknown-field", "group: First", "'group'"),
    "unknown field of a source": ("    by: Maker", "    bye: Maker", "unknown-field", "by: Maker", "'by'"),
    "unknown field of the file": ("limit_months: 18", "limit_month: 18", "unknown-field", "limit_months", "limit_months"),
    "unknown column": ("memory_size: {value: 80", "memory_sizes: {value: 80", "unknown-column", "value: 80", "memory_size"),
    "duplicate key": ("    group: First", "    name: First", "duplicate-key", "group: First", "first is on line"),
    "duplicate id": ("id: two", "id: one", "duplicate-id", "id: two", "first is on line"),
    "nan": ("value: 80,", "value: .nan,", "bad-number", "value: 80", ".nan is not a number"),
    "infinity": ("value: 80,", "value: -.inf,", "bad-number", "value: 80", "not a number"),
    "huge": ("value: 80,", "value: 1e300,", "bad-number", "value: 80", "larger than any"),
    "endless digits": ("value: 80,", f"value: {'9' * 5000},", "bad-number", "value: 80", "larger than any"),
    "overflow": ("value: 80,", "value: 1e999999,", "bad-number", "value: 80", "larger than any"),
    "octal": ("value: 80,", "value: 080,", "bad-number", "value: 80", "begins with a zero"),
    "wrong unit": ("value: 80,", "value: 80, unit: W,", "wrong-unit", "value: 80", "W (power) cannot be given in GB"),
    "unknown unit": ("value: 80,", "value: 80, unit: gb,", "wrong-unit", "value: 80", "did you mean 'GB'"),
    "unknown unit of a column": ("unit: GB}", "unit: Gigs}", "wrong-unit", "unit: GB}", "unknown unit"),
    "no source": ("value: 80, source: page", "value: 80", "no-source", "value: 80", "has a value and no source"),
    "unknown source": ("value: 80, source: page", "value: 80, source: pag", "no-source", "value: 80", "'page'"),
    "no date read": ("    read: 2026-11-30\n", "", "missing-field", "  page:", "no 'read'"),
    "no date of the source": ('    dated: "2024-03"\n', "", "missing-field", "  page:", "no 'dated'"),
    "bad date": ("read: 2026-11-30", "read: 2026-13-30", "bad-date", "read: 2026-11-30", "month"),
    "date as text": ("read: 2026-11-30", "read: yesterday", "wrong-type", "read: 2026-11-30", "must be a date"),
    "bad address": ("url: https://example.org/chip", "url: javascript:alert(1)", "bad-text", "org/chip", "not an http"),
    "value and none": ("{value: 80,", "{value: 80, none: no,", "no-value", "value: 80", "exactly one of"),
    "no value": ("{none: no fp4 in the hardware}", "{note: hm}", "no-value", "none: no fp4", "exactly one of"),
    "a bare number": ("{value: 80, source: page}", "80", "wrong-type", "value: 80", "must be a mapping"),
    "no choice": (", choice: the newer document", "", "no-choice", "choice:", "no choice is explained"),
    "unknown status": ("status: announced", "status: soon", "unknown-word", "status: announced", "known: shipping"),
    "bad id": ("id: two", "id: Chip Two", "bad-text", "id: two", "must match"),
    "range turned round": ("range: [1, 20000]", "range: [20000, 1]", "bad-number", "range:", "is empty"),
    "line break": ("about: Peaks of chips.", 'about: "a\\nb"', "bad-text", "about", "line breaks"),
    "bidirectional override": ("about: Peaks of chips.", 'about: "a\\u202eb"', "bad-text", "about", "control characters"),
    "topic of another file": ("topic: chips", "topic: chip", "wrong-topic", "topic: chips", "the file is chips.yml"),
    "month without a day": ("released: {value: 2022-10,", "released: {value: 10-2022,", "bad-date", "released: {v", "YYYY-MM"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=list(BAD))
def test_a_mistake_is_named_with_its_line(spoiled, topic, case):
    old, new, rule, part, words = case
    found = spoiled(old, new)
    assert [line for line, found_rule, _ in found if found_rule == rule][:1] == [lines(topic, part)], found
    assert any(words in message for _, found_rule, message in found if found_rule == rule), found


FATAL = {
    "alias": ("name: Chip Two", "name: &a Chip Two", "an anchor (&a)"),
    "alias of nothing": ("name: Chip Two", "name: *a", "an alias (*a)"),
    "merge": ("    vendor: Other", "    <<: {vendor: Other}", "a merge key"),
    "tag": ("name: Chip Two", "name: !!python/object/apply:os.system [ls]", "a tag"),
    "set": ("name: Chip Two", "name: !!str Chip Two", "a tag"),
    "not YAML": ("name: Chip Two", "name: {Chip Two", "not valid YAML"),
    "tab": ("    vendor: Other", "\tvendor: Other", "not valid YAML"),
    "second document": ("identities:", "---\nidentities:", "a second document"),
    "deep": ("name: Chip Two", "name: " + "[" * 500 + "]" * 500, "nested deeper"),
    "null character": ("name: Chip Two", "name: Chip\0Two", "not valid YAML"),
}


@pytest.mark.parametrize("case", FATAL.values(), ids=list(FATAL))
def test_what_cannot_be_read_is_one_problem(read, topic, case):
    old, new, words = case
    made, problems = read(topic.replace(old, new, 1))
    assert made is None
    assert len(problems) == 1 and words in problems[0].message
    assert problems[0].line >= 1


def test_an_alias_bomb_is_refused_at_once(read):
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
    )
    made, problems = read(bomb)
    assert made is None and problems[0].rule == "yaml-alias" and problems[0].line == 1


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "5\n", "topic: chips\n"])
def test_files_that_hold_little_are_no_crash(read, text):
    assert read(text)[1]


def test_not_utf8(tmp_path):
    from openbook.data.load import load_file

    (tmp_path / "chips.yml").write_bytes(b"topic: \xff\n")
    assert "not UTF-8" in load_file(tmp_path / "chips.yml")[1][0].message


def test_words_of_yaml_1_1_are_text(read, topic):
    made, problems = read(topic.replace("group: First", "group: no", 1))
    assert not problems and made.records["one"].group == "no"


def test_figures_are_found_by_name(tmp_path, topic):
    (tmp_path / "chips.yml").write_text(topic)
    (tmp_path / "other.yml").write_text("# data of another kind\n- a\n")
    (tmp_path / "another.yml").write_text("#\n# - x\n\n[]\n")
    data = load(tmp_path)
    assert data.findings == ()
    assert data.figure("chips.one.bf16_dense")[1].value == 989.4
    for path, words in {
        "chip.one.bf16_dense": "did you mean 'chips'",
        "chips.on.bf16_dense": "did you mean 'one'",
        "chips.one.bf16": "bf16_dense",
        "chips.two.released": "has no figure for released",
        "chips": "record",
    }.items():
        with pytest.raises(UnknownName, match=words):
            data.figure(path)


def test_a_changed_file_is_read_again(tmp_path, topic):
    file = tmp_path / "chips.yml"
    file.write_text(topic)
    assert load(tmp_path).topics["chips"] is load(tmp_path).topics["chips"]
    file.write_text(topic.replace("989.4", "1000.25"))
    assert load(tmp_path).figure("chips.one.bf16_dense")[1].value == 1000.25


def test_nothing_is_no_data():
    assert Data().topics == {}
