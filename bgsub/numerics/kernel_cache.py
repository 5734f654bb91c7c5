"""Compiled kernels on the disk, as Numba keeps them; what is damaged there is compiled anew.

Numba's files are pickles: whoever can write into their folder can run code in this program.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import suppress
from functools import cache
from typing import Any

from numba.core.caching import FunctionCache

logger = logging.getLogger("bgsub.kernels")


class KernelCache(FunctionCache):
    """Numba's cache of one function, of which a file that cannot be read or written costs time and ends nothing.

    RuntimeError when there is no folder that can be written.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        if os.name == "posix" and os.stat(self.cache_path).st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            _tell(f"anybody may write into '{self.cache_path}': what is written there runs in this program (chmod o-w)")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled kernel, or None where there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # pickles of what is none raise anything
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # too many open files say nothing of this one
            _tell("kernels on the disk are damaged: they are compiled anew")
            with suppress(OSError):
                self.flush()  # or saving would read it again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, where that can be done."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, a folder of somebody else
            _tell(f"kernels cannot be kept: {error}")


@cache
def _tell(message: str) -> None:
    """Warn, once per process."""
    logger.warning("%s", message)
