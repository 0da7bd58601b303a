"""A topic whose every text is an attack, and one that is plain."""

import pytest

from openbook.data import load

ATTACK = "<script>alert(1)</script>\\\" onload='x' &lt; **b** [a](b) `c` $d$ [[e]]"
PLAIN = """\
topic: chips
about: Peaks of chips.
limit_months: 18
columns:
  bf16_dense: {title: bf16 dense, unit: TFLOP/s}
  memory_size: {title: Memory, unit: GB}
  link: {title: Link, unit: GB/s, direction: per direction, note: payload}
  kind: {title: Kind, unit: text}
sources:
  page: {title: Product page, url: "https://example.org/chip", kind: vendor, by: Maker, dated: "2024-03", read: 2026-11-30}
  paper: {title: A paper, url: "https://example.org/paper", kind: paper, by: Authors, dated: undated, read: 2026-11-29}
records:
  - id: one
    name: Chip One
    vendor: Maker
    status: shipping
    per: chip
    figures:
      bf16_dense: {value: 989.4, source: page, condition: half of the sparse figure}
      memory_size: {value: 80, source: page}
      link: {value: 450, source: page}
      kind: {value: "=HBM3", source: page}
  - id: two
    name: Chip Two
    vendor: Other
    status: announced
    per: package
    figures:
      bf16_dense:
        - {value: 1307.4, source: paper, choice: the newer document}
        - {value: 1300, source: page}
      memory_size: {unpublished: "looked in: page"}
      link: {none: it has none}
  - id: three
    name: Chip Three
    vendor: Maker
    status: shipping
    per: chip
    figures:
      memory_size: {value: 1410.5, source: paper, text: about 1.4 TB}
"""
HOSTILE = f"""\
topic: hostile
about: "{ATTACK}"
limit_months: 18
columns:
  bf16_dense: {{title: "<script>alert(1)</script>", unit: TFLOP/s, note: "{ATTACK}"}}
  kind: {{title: "<b>", unit: text}}
sources:
  page: {{title: "{ATTACK}", url: "https://example.org/?a=1&b=2", kind: vendor, by: "{ATTACK}", dated: "{ATTACK}", read: 2026-11-30, copy: "{ATTACK}", note: "{ATTACK}"}}
records:
  - id: one
    name: "<script>alert(1)</script> *x* `y`"
    vendor: "{ATTACK}"
    group: "{ATTACK}"
    note: "{ATTACK}"
    figures:
      bf16_dense:
        - {{value: 1, source: page, condition: "{ATTACK}", note: "{ATTACK}", text: "<script>alert(1)</script>", choice: "{ATTACK}"}}
        - {{value: 2, source: page}}
      kind: {{value: "{ATTACK}", source: page}}
  - id: two
    name: "<img src=x onerror=alert(1)>"
    figures:
      bf16_dense: {{none: "{ATTACK}"}}
      kind: {{unpublished: "{ATTACK}"}}
"""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The book's data are these two topics."""
    (tmp_path / "chips.yml").write_text(PLAIN)
    (tmp_path / "hostile.yml").write_text(HOSTILE)
    monkeypatch.setattr(load, "FOLDER", tmp_path)
    found = load.load()
    assert found.findings == ()
    return found
