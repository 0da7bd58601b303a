"""Expected output with `...`."""

import pytest

from openbook.snippets.expected import difference, matches


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("a", "a\n"),
        ("a\n\nb\n", "\n\na  \n\nb\n\n"),
        ("took ... s", "took 1.25 s"),
        ("took ... s, ... GB", "took 1 s, 2 GB"),
        ("a...", "a"),
        ("a\n...\nz", "a\nz"),
        ("a\n...\nz", "a\n1\nz\n2\nz"),
        ("...", ""),
        ("...\nb", "1\n2\nb"),
        ("a\n...", "a\n1\n2"),
        ("a\n  ...\nb", "a\nx\nb"),
        ("(a.b) [c]", "(a.b) [c]"),
        ("", ""),
        ("a\tb", "a   b"),
    ],
)
def test_matches(expected, output):
    assert matches(expected, output)


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("", "a"),
        ("a", ""),
        ("took ... s", "took 1\n2 s"),
        ("a\n...\nz", "a\n1"),
        ("a.b", "axb"),
        ("...\na", "b"),
        (" a", "a"),
    ],
)
def test_does_not_match(expected, output):
    assert not matches(expected, output)


def test_many_wildcards_take_no_time():
    assert not matches("\n".join(["...", "a"] * 60), "a\n" * 400 + "b")


def test_difference_shows_both_sides():
    assert difference("a\nb", "a\nc").split("\n")[-2:] == ["-b", "+c"]
