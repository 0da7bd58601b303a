"""Addresses that are not asked for, with reason and end."""

from datetime import date

import pytest

from openbook.findings import Misuse
from openbook.links.external.ignore import Ignore

TODAY = date(2026, 11, 30)


def entries(tmp_path, text):
    file = tmp_path / "ignore.yml"
    file.write_text(text)
    return Ignore(file, TODAY)


def entry(pattern, expires="2027-01-01"):
    return f"- pattern: {pattern!r}\n  reason: closed to programs.\n  expires: {expires}\n"


@pytest.mark.parametrize(
    ("pattern", "url", "covered"),
    [
        ("a.test", "https://a.test/x#y", True),
        ("A.test", "https://a.TEST:8443/", True),
        ("a.test", "https://b.a.test/", False),
        ("a.test", "https://nota.test/?a.test", False),
        ("*.a.test", "https://b.a.test/x", True),
        ("*.a.test", "https://a.test/", False),
        ("https://a.test/docs/*", "https://a.test/docs/x?y#z", True),
        ("https://a.test/docs/*", "https://a.test/blog", False),
        ("https://a.test/docs/*", "http://a.test/docs/x", False),
        ("https://a.test/x", "https://a.test/xy", False),
        ("*://a.test/Y", "https://a.test/y", False),
    ],
)
def test_patterns(tmp_path, pattern, url, covered):
    ignore = entries(tmp_path, entry(pattern))
    assert ignore.covers(url) == covered
    assert [finding.rule for finding in ignore.findings()] == ([] if covered else ["ignore-unused"])


def test_the_last_day_counts(tmp_path):
    text = entry("a.test", "2026-11-30") + "\n" + entry("b.test", "2026-11-29")
    ignore = entries(tmp_path, text)
    assert ignore.covers("https://a.test/")
    assert not ignore.covers("https://b.test/")
    (finding,) = ignore.findings()
    assert (finding.rule, finding.line, finding.severity) == ("ignore-expired", 5, "error")
    assert "ended on 2026-11-29" in finding.message and "closed to programs" in finding.hint


@pytest.mark.parametrize("text", ["", "[]", "# nothing yet\n[]\n"])
def test_no_entries(tmp_path, text):
    assert entries(tmp_path, text).entries == []
    assert Ignore(tmp_path / "none.yml", TODAY).entries == []
    assert Ignore(None, TODAY).entries == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not valid YAML"),
        ("a: b", "a list of entries"),
        ("- a.test", "ignore.yml:1: an entry has"),
        (entry("a.test") + "- pattern: b.test\n  reason: x\n", "ignore.yml:4: an entry has"),
        (entry("a.test") + "  also: x\n", "nothing else"),
        (entry("*"), "cover everything"),
        (entry("*://*"), "cover everything"),
        (entry("https://*/"), "cover everything"),
        (entry("a.test/x"), "write https://a.test/x"),
        (entry("a.test").replace("closed to programs.", "' '"), "says why a.test"),
        (entry("a.test", "soon"), "a day"),
        (entry("a.test", "2027-13-01"), "ignore.yml:1"),
        (entry("a.test", "2027-01-01 10:00:00"), "a day"),
        (entry("a.test", "never"), "a day"),
        ("- pattern: 5\n  reason: x\n  expires: 2027-01-01\n", "pattern 5"),
        ("- &a [*a]", "ignore.yml:1"),
        ("- !!python/object/apply:os.system [echo]", "ignore.yml:1"),
    ],
)
def test_entries_that_are_not_understood(tmp_path, text, says):
    with pytest.raises(Misuse) as problem:
        entries(tmp_path, text)
    assert says in str(problem.value)


def test_a_file_that_was_named_must_exist(tmp_path):
    with pytest.raises(Misuse, match="there is no file"):
        Ignore(tmp_path / "none.yml", TODAY, required=True)
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Misuse, match="cannot be read"):
        Ignore(tmp_path / "bytes.yml", TODAY)


def test_the_book_keeps_its_own_file_in_order():
    from openbook import ROOT

    assert all(entry.reason for entry in Ignore(ROOT / "docs" / "data" / "external-links.yml", TODAY, True).entries)
