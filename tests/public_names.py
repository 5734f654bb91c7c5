"""The public names: those in the stubs of the packages, with what they mean."""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [".".join(stub.parent.relative_to(ROOT).parts) for stub in sorted((ROOT / "bgsub").rglob("__init__.pyi"))]
PACKAGES.append("bgsub.video.notebook")  # a file that is imported by its name


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


def told(thing):
    """Return what a docstring says of each parameter or attribute: its type, shape and default, by name."""
    lines, entries, within = inspect.cleandoc(thing.__doc__ or "").splitlines(), {}, ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after.startswith("---"):
            within = line
        elif within in ("Parameters", "Attributes") and line[:1].strip():
            names, _, kind = line.partition(" : ")
            entries |= {name.strip(" *"): kind for name in names.split(",")}
    return entries


def parameters(thing):
    """Return the parameters of a function or constructor by name."""
    try:
        taken = inspect.signature(thing).parameters
    except ValueError:  # of an exception
        return {}
    return {name: one for name, one in taken.items() if name not in ("self", "cls")}
