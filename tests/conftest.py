"""Options of the whole run: what may be skipped, how much the browser looks at."""

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--no-skip", action="store_true", help="a skipped test is a failure (as in CI)")
    parser.addoption("--all", action="store_true", help="every page in the browser, not one per template")


def pytest_configure(config):
    config.addinivalue_line("markers", "root: needs root; left out, not skipped, where an ordinary user tests")


def pytest_collection_modifyitems(config, items):
    if getattr(os, "geteuid", lambda: 1)() != 0:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("root")])
        items[:] = [item for item in items if not item.get_closest_marker("root")]


def refuse_skip(report, config):
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skip"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, and --no-skip allows none: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return refuse_skip((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return refuse_skip((yield), collector.config)
