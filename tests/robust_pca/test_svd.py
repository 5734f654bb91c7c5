"""The start of a fit, and the axes of its result."""

import numpy as np
import pytest

from bgsub.robust_pca.svd import fill_missing, principal_axes, random_svd, truncated_svd


@pytest.mark.parametrize(("shape", "dtype"), [((70, 90), np.float32), ((90, 70), np.float64), ((10, 80), np.float64)])
def test_random_svd_is_nearly_the_best(shape, dtype):
    rng = np.random.default_rng(10)
    X = (10 * rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))).astype(dtype)
    X += rng.standard_normal(shape).astype(dtype)
    (U, Y), (V, Z) = truncated_svd(X, 4), random_svd(X, 4, rng)
    best, near = np.linalg.norm(X - (U @ Y).T), np.linalg.norm(X - (V @ Z).T)
    assert best == pytest.approx(np.sqrt(np.sum(np.linalg.svd(X)[1][4:] ** 2)), rel=1e-4)
    assert best <= near * (1 + 1e-5)
    assert near < 1.001 * best
    assert V.dtype == Z.dtype == dtype
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-5)


def test_principal_axes():
    rng = np.random.default_rng(11)
    U, Y, past = rng.standard_normal((20, 3)), rng.standard_normal((3, 15)), np.array([5.0, 0.0, 900.0])
    for given_past in (None, past):
        V, Z, energy = principal_axes(U, Y, given_past)
        np.testing.assert_allclose(V @ Z, U @ Y, atol=1e-10)
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
        assert np.all(V[np.abs(V).argmax(axis=0), range(3)] > 0)
        assert np.all(np.diff(energy) <= 0)
        columns = U @ Y if given_past is None else np.hstack([U @ Y, U * np.sqrt(past)])
        np.testing.assert_allclose(energy, np.linalg.svd(columns)[1][:3] ** 2)


def test_missing_entries_start_at_the_mean_of_their_feature():
    X, mask = np.array([[1.0, 0, 0], [3, 5, 0]]), np.array([[True, False, False], [True, True, False]])
    np.testing.assert_array_equal(fill_missing(X, mask), [[1, 5, 0], [3, 5, 0]])
