"""Errors by their whole message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def says(error: type[BaseException], message: str) -> Iterator[None]:
    """The block raises an error of that kind with exactly this message."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == message
