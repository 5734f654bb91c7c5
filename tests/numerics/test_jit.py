"""The cache of compiled kernels: shared by processes, read-only, damaged or missing."""

import os
import subprocess
import sys
import textwrap
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

import bgsub

MODULE = """
from bgsub.numerics.jit import kernel

@kernel
def double(x):
    return x + x
"""
CHILD = """
import sys
sys.path.insert(0, {folder!r})
if {read_only}:
    from numba.core import caching
    def refuse(self):
        raise PermissionError("read-only")
    for name in ("InTreeCacheLocator", "_InTreeCacheLocator"):
        if hasattr(caching, name):
            getattr(caching, name).ensure_cache_path = refuse
import kernels_of_a_test as kernels
value = kernels.double(21)
print(value, sum(kernels.double.stats.cache_hits.values()), sum(kernels.double.stats.cache_misses.values()))
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a process, which calls a kernel of a module in another folder."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "kernels_of_a_test.py").write_text(textwrap.dedent(MODULE))

    def child(read_only=False, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        code = CHILD.format(folder=str(folder), read_only=read_only)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", code], env=clean | environment, **pipes)

    return child


def answer(process):
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.split()


@pytest.mark.slow
def test_the_cache_of_a_read_only_package_is_in_the_home_folder_if_possible(start, tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "home")}
    (tmp_path / "file").write_text("")
    nowhere = {"HOME": str(tmp_path / "file"), "XDG_CACHE_HOME": str(tmp_path / "file" / "cache")}
    both = [start(read_only=True, **folders) for folders in (home, nowhere)]
    assert [answer(process) for process in both] == [["42", "0", "1"]] * 2
    assert list((tmp_path / "home").rglob("*.nbi"))
    assert answer(start(read_only=True, **home)) == ["42", "1", "0"]


def compiled_functions():
    """All compiled functions of the package."""
    homes = [
        import_module(module.name) for module in walk_packages(bgsub.__path__, "bgsub.") if "__" not in module.name
    ]
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
