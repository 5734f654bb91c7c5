"""The cache of compiled kernels: shared by processes, read-only, damaged or missing."""

import os
import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest
from kernel_programs import BEGIN
from numba.core.dispatcher import Dispatcher

import bgsub
from bgsub.numerics.jit import _FilePerType

# A process that calls a kernel of a package that cannot be written.
PROGRAM = (
    "from numba.core import caching\n"
    "def refuse(self):\n"
    "    raise PermissionError('read-only')\n"
    "for name in {'InTreeCacheLocator', '_InTreeCacheLocator'} & set(vars(caching)):\n"
    "    getattr(caching, name).ensure_cache_path = refuse\n"
    f"{BEGIN}\n"
    "stats = _segment_kernels.paint.stats\n"
    "say(works(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
)


def run(**folders):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=clean | folders, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_the_cache_of_a_read_only_package_is_in_the_home_folder(tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "home")}
    assert run(**home) == ["True", "0", "1"]
    assert list((tmp_path / "home").rglob("*.nbc"))
    assert run(**home) == ["True", "1", "0"]


def test_processes_that_compile_at_the_same_time_do_not_take_the_same_file(tmp_path, monkeypatch):
    """Numba's own class reads its index, takes a free number, and writes the index again."""
    first, second = (_FilePerType(tmp_path, "kernel", "stamp") for _ in range(2))
    grey, colour = (("uint8", 1), "processor"), (("uint8", 3), "processor")
    save, waiting = _FilePerType._save_data, [lambda: second.save(colour, "for colour")]

    def save_after_the_other(self, name, data):
        if waiting:
            waiting.pop()()
        save(self, name, data)

    monkeypatch.setattr(_FilePerType, "_save_data", save_after_the_other)
    first.save(grey, "for grey")
    for cache in (first, second):
        assert (cache.load(grey), cache.load(colour)) == ("for grey", "for colour")
    assert first.load((("float32", 1), "processor")) is None
    assert _FilePerType(tmp_path, "kernel", "other sources").load(grey) is None


def compiled_functions():
    """All compiled functions of the package."""
    homes = [import_module(one.name) for one in walk_packages(bgsub.__path__, "bgsub.") if "__" not in one.name]
    return {found for home in homes for found in vars(home).values() if isinstance(found, Dispatcher)}


def called_by(function):
    """The compiled functions that a compiled function names."""
    names, known = function.py_func.__code__.co_names, function.py_func.__globals__
    scopes = [known, *(vars(known[name]) for name in names if isinstance(known.get(name), ModuleType))]
    named = {scope.get(name) for scope in scopes for name in names if isinstance(scope.get(name), Dispatcher)}
    return named - {function}


@pytest.mark.large
@pytest.mark.slow
def test_functions_called_by_kernels_are_inlined():
    """Else a process that compiles could differ in the last digits from one that loads."""
    called = set().union(*map(called_by, compiled_functions()))
    assert len(called) > 40
    assert [str(function) for function in called if function.targetoptions["inline"] != "always"] == []
