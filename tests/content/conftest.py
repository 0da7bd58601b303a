"""After the tests of the pages: how far the snippets of each part were checked."""


def pytest_terminal_summary(terminalreporter, config):
    table = getattr(config, "table_of_snippets", None)
    if table:
        terminalreporter.section("snippets by level")
        terminalreporter.write_line(table)
