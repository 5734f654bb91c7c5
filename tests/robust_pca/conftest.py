"""Matrices are small here: threads of the BLAS would gain nothing, and wait for each other on a busy machine."""

import pytest

from bgsub.numerics.threads import one_blas_thread


@pytest.fixture(autouse=True)
def one_thread():
    with one_blas_thread():
        yield
