"""A small topic file that is right, and ways to spoil it."""

import pytest

from openbook.data.load import load_file

TOPIC = """\
topic: chips
about: Peaks of chips.
limit_months: 18
columns:
  bf16_dense: {title: "bf16 dense", unit: TFLOP/s, range: [1, 20000]}
  tf32_dense: {title: "tf32 dense", unit: TFLOP/s}
  fp4_dense: {title: "fp4 dense", unit: TFLOP/s}
  memory_size: {title: "Memory", unit: GB}
  link_both: {title: "Link", unit: GB/s, direction: both}
  link_one: {title: "Link", unit: GB/s, direction: per direction}
  released: {title: "Released", unit: date}
sources:
  page:
    title: Product page
    url: https://example.org/chip
    kind: vendor
    by: Maker
    dated: "2024-03"
    read: 2026-11-30
  paper: {title: A paper, url: "https://example.org/paper", kind: paper, by: Authors, dated: undated, read: 2026-11-29}
records:
  - id: one
    name: Chip One
    aliases: [C1]
    vendor: Maker
    group: First
    status: shipping
    per: chip
    figures:
      bf16_dense: {value: 989.4, source: page, condition: half of the sparse figure}
      tf32_dense: {value: 494.7, source: page}
      fp4_dense: {none: no fp4 in the hardware}
      memory_size: {value: 80, source: page}
      link_both: {value: 900, source: page}
      link_one: {value: 450, source: page, derived: link_both / 2}
      released: {value: 2022-10, source: page}
  - id: two
    name: Chip Two
    vendor: Other
    status: announced
    per: package
    figures:
      bf16_dense:
        - {value: 1.3074, unit: PFLOP/s, source: paper, choice: the newer document}
        - {value: 1300, source: page}
      tf32_dense: {unpublished: "looked in: product page"}
      memory_size: {value: 192, source: paper, confidence: low}
identities:
  - {if: 'vendor == "Maker"', expr: "bf16_dense == 2 * tf32_dense", tolerance: 0.01}
"""


@pytest.fixture
def topic():
    return TOPIC


@pytest.fixture
def read(tmp_path):
    """read(text) → (topic, problems) of a file chips.yml."""

    def read_it(text: str):
        file = tmp_path / "chips.yml"
        file.write_text(text, encoding="utf-8")
        return load_file(file)

    return read_it


@pytest.fixture
def spoiled(read):
    """spoiled(old, new) → [(line, rule, message)] after one replacement in the topic file."""

    def spoil(old: str, new: str):
        assert TOPIC.count(old) >= 1, f"{old!r} is not in the topic"
        _, problems = read(TOPIC.replace(old, new, 1))
        return [(problem.line, problem.rule, str(problem)) for problem in problems]

    return spoil
