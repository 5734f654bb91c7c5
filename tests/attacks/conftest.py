"""What attacks have in common: how often they are tried, and the table of what came of it.

``pytest tests/attacks --long`` tries each of them many times; without the option they are short, for CI.
"""

import pytest

_SCORE = "attack"


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="try each attack many times, which takes an hour or more")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long", default=False):
        for item in items:
            item.add_marker(pytest.mark.timeout(0))  # that of CI is for the short ones


@pytest.fixture
def tries(request):
    """Return how often to try: ``tries(short, long)``."""
    long = request.config.getoption("--long", default=False)
    return lambda short, often: often if long else short


@pytest.fixture
def score(record_property):
    """Tell the table how an attack went, ``score(attack, tries, survived)``, and fail if any of it was lost."""

    def tell(attack, count, survived):
        record_property(_SCORE, [attack, count, survived])
        assert survived == count, f"{attack}: {count - survived} of {count} lost"

    return tell


def pytest_terminal_summary(terminalreporter):
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == _SCORE]
    if rows:
        terminalreporter.write_line("| attack | tries | survived | lost |\n|---|---|---|---|")
        for attack, count, survived in sorted(rows):
            terminalreporter.write_line(f"| {attack} | {count} | {survived} | {count - survived} |")
