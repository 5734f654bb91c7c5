"""Lazy imports of public names (Scientific Python's SPEC 1).

The public names of a package are listed in its ``__init__.pyi``. The file that defines a name is imported when the
name is first used.
"""

from collections.abc import Callable
from typing import Any

import lazy_loader

from bgsub.errors import did_you_mean


def lazy_exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from the stub beside `file`."""
    find, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        """Import the file that defines `name` and return its value."""
        if name not in public:
            near = "" if name.startswith("_") else did_you_mean(name, public)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
        return find(name)

    return get, names, public
