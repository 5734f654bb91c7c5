"""The public names: those in the stubs of the packages, with what they mean."""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [".".join(stub.parent.relative_to(ROOT).parts) for stub in sorted((ROOT / "bgsub").rglob("__init__.pyi"))]


def public_names():
    """Yield package, name and meaning of each; a name that several packages have comes once, from the shortest."""
    seen = set()
    for package in sorted(PACKAGES, key=len):
        module = importlib.import_module(package)
        for name in module.__all__:
            meaning = getattr(module, name)
            if not (callable(meaning) and id(meaning) in seen):
                seen.add(id(meaning))
                yield package, name, meaning


def callables():
    """Return the public classes and functions by their full name."""
    return {f"{package}.{name}": meaning for package, name, meaning in public_names() if callable(meaning)}


def sections(thing):
    """Return the names of the sections of a docstring."""
    return set(re.findall(r"^ *([A-Z][A-Za-z ]+)\n *-{3,}$", thing.__doc__ or "", re.MULTILINE))


def parameters(thing):
    """Return the names of what a function or constructor takes."""
    try:
        taken = inspect.signature(thing).parameters.values()
    except ValueError:  # of an exception
        return []
    return [one.name for one in taken if one.name not in ("self", "cls")]
