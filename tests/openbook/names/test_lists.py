"""The lists themselves: head, entries, mistakes."""

import pytest

from openbook.findings import Misuse
from openbook.names import lists
from openbook.names.upstream import RECIPES

HEAD = "# T\n# source: https://example.org\n# version: 1\n# read: 2026-01-02\n"


def read(tmp_path, text):
    path = tmp_path / "list.txt"
    path.write_text(text, encoding="utf-8")
    return lists.read(path)


def test_entries(tmp_path):
    found, mistakes = read(
        tmp_path, HEAD + "# families: A_ B_\n\nA_X\nA_Y  what it does\nA_Z => A_X  since 2\nB_Q => -\n"
    )
    assert mistakes == []
    assert found.words("families") == ("A_", "B_")
    assert found.names["A_Y"].remark == "what it does"
    assert (found.names["A_Z"].replacement, found.names["A_Z"].remark) == ("A_X", "since 2")
    assert found.names["B_Q"].replacement == "-"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD + "A_X\nA_X\n", 6, "twice"),
        (HEAD + "A_X what\n", 5, "not NAME"),
        ("# T\n# version: 1\n# read: 2026-01-02\nA_X\n", 1, "no source"),
        ("# T\n# source: x\n# version: 1\nA_X\n", 1, "no read"),
        (HEAD.replace("2026-01-02", "last week") + "A_X\n", 1, "no date"),
        (HEAD.replace("2026-01-02", "2999-01-02") + "A_X\n", 1, "future"),
    ],
)
def test_mistakes(tmp_path, text, line, message):
    _, mistakes = read(tmp_path, text)
    assert [where for where, _ in mistakes] == [line]
    assert message in mistakes[0][1]
    [finding] = lists.mistakes(tmp_path)
    assert (finding.line, finding.rule) == (line, "name-list")


def test_unreadable(tmp_path):
    (tmp_path / "list.txt").write_bytes(b"\xff")
    with pytest.raises(Misuse):
        lists.read(tmp_path / "list.txt")
    with pytest.raises(Misuse):
        lists.variables(tmp_path / "nothing")


def test_a_list_that_calls_a_name_old_prevails(tmp_path):
    (tmp_path / "a.txt").write_text(HEAD + "# families: A_\nA_OLD\nA_NEW\n")
    (tmp_path / "b.txt").write_text(HEAD + "A_OLD => A_NEW\n")
    (tmp_path / "c.txt").write_text(HEAD + "A_OLD\n")
    assert lists.variables(tmp_path).names["A_OLD"].replacement == "A_NEW"


def test_the_books_lists_are_sound():
    assert list(lists.mistakes()) == []
    known = lists.variables()
    for name, entry in known.names.items():
        assert entry.replacement in ("", "-") or entry.replacement in known.names, f"{name}: {entry.replacement}"


def test_every_list_with_a_recipe_says_what_the_recipe_says():
    for name, recipe in RECIPES.items():
        found, _ = lists.read(lists.FOLDER / "variables" / f"{name}.txt")
        assert found.title == recipe.title
        assert found.head["families"] == recipe.families
        assert found.head.get("others", "") == recipe.others
