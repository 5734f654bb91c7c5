"""Available memory, and the error for inputs that need more."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bgsub.errors import ParameterError

_CGROUP = Path("/sys/fs/cgroup")
_PROCESS = Path("/proc/self")
_ARENA_MAX, _HEAPS = -8, 2  # the parameter M_ARENA_MAX of glibc's mallopt, and its value

_share: int | None = None  # bytes of this process, one of several


def available_memory() -> int | None:
    """Return the bytes available to this process, by system, control group and own limit; None if unknown."""
    known = [found for found in (_of_system(), _of_process(), *_of_groups(), _share) if found is not None]
    return min(known, default=None)


def share_memory(share: int | None) -> None:
    """Let this process, one of several workers, use so many bytes; None for all that is available."""
    global _share  # noqa: PLW0603 - one share per process
    _share = share


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise ParameterError unless `needed` bytes are available; `remedy` names a way to reduce memory."""
    available = available_memory()
    if available is not None and needed > available:
        raise ParameterError(
            f"{what} needs about {in_words(needed)} of memory, {in_words(available)} are available; "
            f"reduce memory with {remedy}{'' if _share is None else ' or fewer workers'}"
        )


def release_unused() -> None:
    """Return free memory to the system, where the C library can; else fragments add up as threads come and go."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def share_heaps() -> None:
    """Let all later threads share two heaps, where the C library can: each further one keeps fragments of its own."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _HEAPS)


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an error of Python, NumPy or OpenCV means out of memory."""
    named = f"{type(error).__module__}.{type(error).__qualname__}" == "cv2.error"
    without_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    words = ("(-4:", "bad_alloc")
    return isinstance(error, MemoryError) or without_thread or (named and any(word in str(error) for word in words))


def in_words(count: float) -> str:
    """Return a number of bytes as text: ``42 MB`` or ``1.3 GB``."""
    if count < 999_500_000:
        return f"{max(1, round(count / 1e6))} MB"
    return f"{count / 1e9:.1f} GB"


def _of_system() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_process() -> int | None:
    """Return the remainder of the address space limit, ``ulimit -v``."""
    try:
        import resource  # noqa: PLC0415 - Windows has none

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int((_PROCESS / "statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def _of_groups() -> Iterator[int]:
    """Yield the remainders of the limits of control groups, version 1 and 2."""
    lines = []
    with suppress(OSError):
        lines = (_PROCESS / "cgroup").read_text().splitlines()
    places = {
        kinds: path.strip("/") for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") > 1)
    }
    yield from _of_group(_CGROUP, places.get("", ""), "memory.max", "memory.current", "inactive_file")
    names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    yield from _of_group(_CGROUP / "memory", places.get("memory", ""), *names)


def _of_group(root: Path, path: str, limit: str, usage: str, cached: str) -> Iterator[int]:
    folder = root / path
    for place in {folder, *(parent for parent in folder.parents if parent.is_relative_to(root)), root}:
        with suppress(OSError, ValueError):  # no such group here, or no limit: "max"
            most, used = (int((place / name).read_text()) for name in (limit, usage))
            with suppress(OSError):  # cached files can be dropped
                lines = (place / "memory.stat").read_text().splitlines()
                used -= sum(int(line.split()[1]) for line in lines if line.startswith(f"{cached} "))
            yield max(most - used, 0)
