"""The nearest valid name, for messages about a wrong one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`, ignoring case, or None when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - wanted only when something is wrong

    known = {candidate.lower(): candidate for candidate in names}
    found = get_close_matches(name.lower(), known, n=1)
    return known[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean 'threshold'?`` for the end of a message, or nothing when no name is near."""
    found = nearest(name, names)
    return "" if found is None else f"; did you mean {found!r}?"
