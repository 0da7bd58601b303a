"""What runs remember: when a failure is proved, and that no accident loses it."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.findings import Misuse
from openbook.links.external.state import Record, State
from openbook.links.external.verdict import Verdict

START = datetime(2026, 11, 2, 4, 17, tzinfo=UTC)
BAD, GOOD, WALL = Verdict("gone", counts=True), Verdict("ok", final="http://a.test/"), Verdict("blocked")


def after(*events):
    record = Record()
    for verdict, days in events:
        record = record.after(verdict, START + timedelta(days=days))
    return record


@pytest.mark.parametrize(
    ("events", "count", "proved"),
    [
        ([], 0, False),
        ([(BAD, 0)], 1, False),
        ([(BAD, 0), (BAD, 7)], 2, False),
        ([(BAD, 0), (BAD, 3), (BAD, 7)], 3, True),
        ([(BAD, 0), (BAD, 3), (BAD, 6.9)], 3, False),
        ([(BAD, 0), (BAD, 1), (BAD, 2), (BAD, 3)], 4, False),
        ([(BAD, 0), (BAD, 0.1), (BAD, 0.2), (BAD, 7)], 2, False),  # a run that was repeated is one run
        ([(BAD, 0), (BAD, 3), (GOOD, 5), (BAD, 7)], 1, False),
        ([(BAD, 0), (BAD, 3), (WALL, 5), (BAD, 7)], 3, True),
        ([(BAD, 0), (BAD, 3), (Verdict("moved"), 5), (BAD, 7)], 1, False),
        ([(BAD, 0), (BAD, 3), (BAD, 7), (GOOD, 8)], 0, False),
    ],
)
def test_three_runs_over_seven_days(events, count, proved):
    record = after(*events)
    assert (record.count, record.proved_bad()) == (count, proved)


def test_only_what_is_good_is_cached():
    now = START + timedelta(days=1)
    assert after((GOOD, 0)).is_fresh("http://a.test/", now)
    for kind in ("moved", "suspicious", "blocked", "rate-limited", "anchor-missing", "gone", "tls"):
        assert not after((Verdict(kind), 0)).is_fresh("http://a.test/", now)
        assert not after((GOOD, 0), (Verdict(kind), 0.5)).is_fresh("http://a.test/", now)
    assert not after((GOOD, 2)).is_fresh("http://a.test/", now), "a time in the future is no reason to trust"


def test_the_cache_does_not_end_for_all_at_once():
    record = after((GOOD, 0))
    urls = [f"http://a.test/{number}" for number in range(300)]
    fresh = {
        days: sum(record.is_fresh(url, START + timedelta(days=days)) for url in urls) for days in (6, 6.5, 7, 7.5, 8)
    }
    assert fresh[6] == 300
    assert 180 < fresh[6.5] < 270
    assert 110 < fresh[7] < 190
    assert 30 < fresh[7.5] < 120
    assert fresh[8] == 0


def state(file, said=None, now=START):
    return State(file, (said if said is not None else []).append, lambda: now)


def test_what_is_saved_is_read_again(tmp_path):
    file = tmp_path / "folder" / "state.json"
    one = state(file)
    one.note("http://a.test/", GOOD)
    one.note("http://b.test/", BAD)
    one.save()
    two = state(file)
    assert two["http://a.test/"] == Record(
        last_ok=START.isoformat(), verdict="ok", final_url="http://a.test/", seen=START.isoformat()
    )
    assert (two["http://b.test/"].count, two["http://b.test/"].first_bad) == (1, START.isoformat())
    assert two["http://c.test/"] == Record()
    assert sorted(path.name for path in file.parent.iterdir()) == ["state.json", "state.json.lock"]


def test_what_the_book_no_longer_has_is_forgotten_at_last(tmp_path):
    file = tmp_path / "state.json"
    for days, url in ((0, "http://old.test/"), (100, "http://mid.test/"), (200, "http://new.test/")):
        run = state(file, now=START + timedelta(days=days))
        run.note(url, GOOD)
        run.save()
    assert sorted(state(file).records) == ["http://mid.test/", "http://new.test/"]


def test_two_runs_at_once_keep_what_both_learnt(tmp_path):
    file = tmp_path / "state.json"
    one, two = state(file), state(file)
    one.note("http://a.test/", BAD)
    two.note("http://b.test/", GOOD)
    two.note("http://a.test/", BAD)
    one.save()
    two.save()
    assert sorted(state(file).records) == ["http://a.test/", "http://b.test/"]
    assert state(file)["http://a.test/"].count == 1  # both saw one failure


WRITER = """
import sys
from pathlib import Path
from openbook.links.external.state import State
from openbook.links.external.verdict import Verdict
state = State(Path(sys.argv[1]), print)
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    state.note(f"http://{sys.argv[2]}.test/{number}", Verdict("ok"))
    state.save()
print("done", flush=True)
"""


def writer(file, name, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, file, name, str(count)], stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_lose_nothing(tmp_path):
    file = tmp_path / "state.json"
    processes = [writer(file, name, 40) for name in "abc"]
    assert [process.communicate(timeout=60)[0].split()[-1] for process in processes] == ["done"] * 3
    assert len(state(file).records) == 120


def test_killed_in_the_middle(tmp_path):
    file, said = tmp_path / "state.json", []
    for round in range(5):
        process = writer(file, f"r{round}", 100_000)
        assert process.stdout.readline() == "ready\n"
        while not file.exists() or f"//r{round}.test/3" not in file.read_text():
            time.sleep(0.005)
        time.sleep(0.007 * round)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        kept = state(file, said).records  # the lock went with the process
        assert f"http://r{round}.test/0" in kept
        numbers = [int(url.rpartition("/")[2]) for url in kept if f"//r{round}." in url]
        assert sorted(numbers) == list(range(len(numbers)))
    assert said == []


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"version": 1, "addresses": {"http://a.test/": {"last', "null", "[]", '"x"', "\x00\x00", '{"version": 2}',
     '{"version": 1, "addresses": []}', "[" * 100_000, "<html>", '{"version": 1}'],
)  # fmt: skip
def test_a_damaged_file_is_put_aside(tmp_path, text):
    file, said = tmp_path / "state.json", []
    file.write_text(text)
    run = state(file, said)
    assert run.records == {}
    assert len(said) == 1
    assert f"{file} is damaged" in said[0] and "state.json.damaged" in said[0]
    assert (tmp_path / "state.json.damaged").read_text() == text
    run.note("http://a.test/", GOOD)
    run.save()
    assert list(state(file, said).records) == ["http://a.test/"]
    assert len(said) == 1


def test_a_file_that_is_cut_anywhere(tmp_path):
    file, said = tmp_path / "state.json", []
    run = state(file)
    run.note("http://a.test/", BAD)
    run.save()
    whole = file.read_bytes().rstrip()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert state(file, said).records == {}
    assert len(said) == len(whole)


def test_a_file_that_is_damaged_while_a_run_learns(tmp_path):
    file, said = tmp_path / "state.json", []
    run = state(file, said)
    run.note("http://a.test/", BAD)
    run.save()
    file.write_text("{")
    run.note("http://b.test/", BAD)
    run.save()
    assert sorted(state(file).records) == ["http://a.test/", "http://b.test/"]
    assert len(said) == 1


@pytest.mark.parametrize(
    "entry",
    [1, None, [], {"count": "3"}, {"count": -1}, {"last_ok": 5}, {"last_ok": "yesterday"}, {"seen": "2026-11-02"},
     {"count": 3}, {"count": True}, {"unknown": "x"}],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_is_left_out(tmp_path, entry):
    file, said = tmp_path / "state.json", []
    good = {"last_ok": START.isoformat(), "verdict": "ok", "seen": START.isoformat()}
    file.write_text(json.dumps({"version": 1, "addresses": {"http://a.test/": entry, "http://b.test/": good}}))
    assert list(state(file, said).records) == ["http://b.test/"]
    assert said == []


def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Misuse, match="the state file cannot be kept"):
        state(tmp_path / "file" / "state.json")
    (tmp_path / "state.json").mkdir()
    with pytest.raises(Misuse, match="cannot be read"):
        state(tmp_path / "state.json")


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = state(None)
    assert run.note("http://a.test/", BAD).count == 1
    run.save()
    assert list(tmp_path.iterdir()) == []
