"""One request at a time for each host, with a pause between; hosts side by side; a time for the whole."""

import ipaddress
import threading
import time
from dataclasses import replace

import pytest

pytest.importorskip("selectolax", reason="needs selectolax: pip install selectolax==1.0.2")

from openbook.links.external.fetch import Fetcher, Limits
from openbook.links.external.guard import Guard
from openbook.links.external.pace import OutOfTime, Pace, in_groups
from openbook.links.external.target import target_of

GUARD = Guard((ipaddress.ip_network("127.0.0.0/8"),), lambda *_: ["127.0.0.1"])
LIMITS = replace(Limits(), connect=0.5, header=1, body=1, back_off=0.02, longest_wait=0.5)


def run(groups, pace, workers=16):
    fetcher = Fetcher(GUARD, pace, LIMITS)
    targets = [[target_of(url) for url in group] for group in groups]
    return {target.url: answer for target, answer in in_groups(targets, fetcher.get, pace, workers)}


def test_requests_to_one_host_keep_their_distance(web, say):
    web.pages = {f"/{number}": say(302, Location="/end") for number in range(3)} | {"/end": say()}
    urls = [f"http://a.test:{web.port}/{number}" for number in range(3)]
    answers = run([urls[:1], urls[1:]], Pace(spacing=0.1))  # two workers meet at one host
    assert [answer.status for answer in answers.values()] == [200] * 3
    assert web.requests["/end"] == 3
    assert min(after - before for before, after in zip(web.times, web.times[1:])) >= 0.1
    assert web.most_open == 1


def test_hosts_are_asked_side_by_side(web, say):
    def slow(connection, _):
        time.sleep(0.3)
        return say()

    web.pages["/"] = slow
    began = time.monotonic()
    run([[f"http://host{number}.test:{web.port}/"] for number in range(8)], Pace(spacing=0))
    assert time.monotonic() - began < 1
    assert web.most_open == 8


def test_retry_after_holds_the_host(web, say):
    web.pages["/b"] = say()
    web.pages["/a"] = lambda connection, number: say(503, Retry_After="1") if number == 1 else say()
    fetcher = Fetcher(GUARD, Pace(spacing=0), replace(LIMITS, longest_wait=2))
    began = time.monotonic()
    thread = threading.Thread(target=fetcher.get, args=(target_of(f"http://a.test:{web.port}/a"),))
    thread.start()
    while not web.requests["/a"]:
        time.sleep(0.005)
    time.sleep(0.05)
    assert fetcher.get(target_of(f"http://a.test:{web.port}/b")).status == 200
    assert time.monotonic() - began >= 1
    thread.join()
    assert web.requests == {"/a": 2, "/b": 1}


def test_a_host_that_refuses_is_left_alone(web, say):
    web.pages = {f"/{number}": say(429, Retry_After="0") for number in range(9)}
    answers = run([[f"http://a.test:{web.port}/{number}" for number in range(9)]], Pace(spacing=0))
    assert sum(web.requests.values()) == 3  # the first address, with its retries
    assert {answer.status for answer in answers.values()} == {429}
    assert "was not asked" in answers[f"http://a.test:{web.port}/8"].detail


def test_the_run_ends_when_its_time_is_up(web, say):
    web.pages = {f"/{number}": say() for number in range(100)}
    began = time.monotonic()
    answers = run([[f"http://a.test:{web.port}/{number}" for number in range(100)]], Pace(spacing=0.1, seconds=0.5))
    assert time.monotonic() - began < 1
    assert 3 <= len(answers) <= 6
    assert all(answer.status == 200 for answer in answers.values())


def test_an_address_that_the_end_cuts_off_is_not_judged(web):
    web.pages["/"] = lambda connection, _: time.sleep(2)
    began = time.monotonic()
    assert run([[f"http://a.test:{web.port}/"]], Pace(seconds=0.3)) == {}
    assert time.monotonic() - began < 1.6


def test_stop_wakes_those_that_wait():
    pace = Pace(spacing=60)
    with pace.turn("a.test"):
        pass
    threading.Timer(0.1, pace.stop).start()
    began = time.monotonic()
    with pytest.raises(OutOfTime), pace.turn("a.test"):
        pass
    assert time.monotonic() - began < 1


def test_a_fault_of_the_checker_is_not_hidden():
    def fault(item):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(in_groups([[1], [2]], fault, Pace()))
