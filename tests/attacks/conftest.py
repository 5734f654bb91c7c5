"""The number of tries of each attack, which are many with ``pytest tests/attacks --long``, and the table of results."""

import pytest

_SCORE = "attack"


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="try each attack many times, which takes an hour or more")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long", default=False):
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture
def tries(request):
    """Return a function that selects the number of tries: ``tries(short, long)``."""
    is_long = request.config.getoption("--long", default=False)
    return lambda short, long: long if is_long else short


@pytest.fixture
def score(record_property):
    """Add the outcomes of an attack, pairs of a description and a truth value, to the table; fail after a loss."""

    def add(attack, outcomes):
        outcomes = list(outcomes)
        lost = [description for description, survived in outcomes if not survived]
        record_property(_SCORE, [attack, len(outcomes), len(outcomes) - len(lost)])
        assert not lost, f"{attack}: {len(lost)} of {len(outcomes)} lost:\n" + "\n".join(map(str, lost[:20]))

    return add


def pytest_terminal_summary(terminalreporter):
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == _SCORE]
    if rows:
        terminalreporter.write_line("| attack | tries | survived | lost |\n|---|---|---|---|")
        for attack, count, survived in sorted(rows):
            terminalreporter.write_line(f"| {attack} | {count} | {survived} | {count - survived} |")
