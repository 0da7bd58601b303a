"""Which addresses a change brings, in real git repositories."""

import subprocess

import pytest

from openbook.findings import Misuse
from openbook.links.external.since import NewLines


@pytest.fixture
def git(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@a.test", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    return git


def commit(git, root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".md").write_text(text)
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "x")
    return git("rev-parse", "HEAD")


def new(root, base, name, line, url):
    return NewLines(base, root).has(str(root / name), line, url)


def test_lines_that_came_and_lines_that_were_there(git, tmp_path):
    base = commit(git, tmp_path, docs__a="one http://a.test/old\ntwo\n")
    commit(git, tmp_path, docs__a="zero http://a.test/new\none http://a.test/old\ntwo\n")
    (tmp_path / "docs/a.md").write_text("zero http://a.test/new\none http://a.test/old\ntwo\nhttp://a.test/unsaved\n")
    (tmp_path / "docs/é b.md").write_text("http://a.test/x\n")
    assert new(tmp_path, base, "docs/a.md", 1, "http://a.test/new")
    assert not new(tmp_path, base, "docs/a.md", 2, "http://a.test/old")
    assert new(tmp_path, base, "docs/a.md", 4, "http://a.test/unsaved")
    assert new(tmp_path, base, "docs/é b.md", 1, "http://a.test/x")  # git does not know the file yet
    assert not new(tmp_path, base, "docs/none.md", 1, "http://a.test/x")
    assert not new(tmp_path, base, "docs/a.md", 0, "http://a.test/new")


def test_an_address_that_only_moved_is_not_new(git, tmp_path):
    base = commit(git, tmp_path, a="[x](http://a.test/page)\n\ntext\n", b="x\n")
    commit(git, tmp_path, a="text\n", b="x\n\n\nreworded [x](http://a.test/page) and http://a.test/pag\n")
    assert not new(tmp_path, base, "b.md", 4, "http://a.test/page")
    assert new(tmp_path, base, "b.md", 4, "http://a.test/pag")


def test_a_file_that_only_got_another_name(git, tmp_path):
    base = commit(git, tmp_path, a="text\n" * 20 + "http://a.test/\n")
    git("mv", "a.md", "ü z.md")
    git("commit", "-qm", "x")
    assert not new(tmp_path, base, "ü z.md", 21, "http://a.test/")


def test_what_the_other_branch_did_meanwhile_is_not_ours(git, tmp_path):
    commit(git, tmp_path, a="1\n2\n3\n")
    git("checkout", "-qb", "topic")
    commit(git, tmp_path, b="http://a.test/topic\n")
    git("checkout", "-q", "main")
    commit(git, tmp_path, a="1\n3\n")
    git("checkout", "-q", "topic")
    assert not new(tmp_path, "main", "a.md", 2, "2")
    assert new(tmp_path, "main", "b.md", 1, "http://a.test/topic")


def test_settings_of_the_user_change_nothing(git, tmp_path):
    base = commit(git, tmp_path, a="x\n")
    commit(git, tmp_path, a="x\n--- a\n+++ b/c\nhttp://a.test/\n", b="-- http://a.test/old\n")
    for name, value in (("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("color.ui", "always")):
        git("config", name, value)
    git("config", "diff.external", "false")
    assert new(tmp_path, base, "a.md", 4, "http://a.test/")
    assert new(tmp_path, base, "b.md", 1, "http://a.test/old")
    assert not new(tmp_path, base, "a.md", 1, "x")


def test_lines_that_look_like_headers(git, tmp_path):
    base = commit(git, tmp_path, a="x\n-- a/b http://a.test/1\ny\n")
    commit(git, tmp_path, a="x\ny\n++ b/a.md\n@@ -1,1 +1,9 @@\nhttp://a.test/1\nhttp://a.test/2\n")
    assert not new(tmp_path, base, "a.md", 5, "http://a.test/1")
    assert new(tmp_path, base, "a.md", 6, "http://a.test/2")
    assert not new(tmp_path, base, "a.md", 7, "http://a.test/2")


def test_revisions_that_do_not_help(git, tmp_path):
    commit(git, tmp_path, a="x\n")
    with pytest.raises(Misuse, match=r"no revision 'none'.*fetch-depth: 0"):
        NewLines("none", tmp_path)
    with pytest.raises(Misuse, match="wants a revision"):
        NewLines("--output=x", tmp_path)
    git("checkout", "-q", "--orphan", "other")
    commit(git, tmp_path, b="x\n")
    with pytest.raises(Misuse, match=r"no common ancestor of main and HEAD.*fetch-depth: 0"):
        NewLines("main", tmp_path)


def test_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(Misuse, match="in a git repository"):
        NewLines("HEAD", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misuse, match="git is missing"):
        NewLines("HEAD", tmp_path)
