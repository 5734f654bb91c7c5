"""Shared by all tests: without the JIT, kernels are plain Python and whole frames take minutes."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from numba import config

settings.register_profile("ci", derandomize=True)  # a landing does not depend on luck
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).parent
STREAMS = (
    "cli",
    "jobs/batch",
    "jobs/test_jobs.py",
    "live",
    "video/test_notebook.py",
    "test_examples.py",
    "test_readme.py",
)
WHOLE_FRAMES = [ROOT / name for name in STREAMS]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """Whoever runs the tests has settings of his own; they must not reach the commands."""
    for variable in [name for name in os.environ if name.startswith("BGSUB_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("BGSUB_NO_CONFIG", "1")


def pytest_configure(config):
    config.addinivalue_line("markers", "large: too large for kernels in plain Python (NUMBA_DISABLE_JIT=1)")


def pytest_collection_modifyitems(items):
    if not config.DISABLE_JIT:
        return
    skip = pytest.mark.skip(reason="too large for kernels in plain Python; run without NUMBA_DISABLE_JIT")
    for item in items:
        whole = any(item.path.is_relative_to(path) for path in WHOLE_FRAMES)
        if whole or item.get_closest_marker("large"):
            item.add_marker(skip)
