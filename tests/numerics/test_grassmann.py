"""Laws of the thin geometry, and its dense twins."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.numerics.grassmann import Retraction, project

examples = settings(max_examples=25)
seeds = st.integers(0, 10_000)
steps = st.floats(-3, 3)


@st.composite
def tangents(draw):
    """Draw U (m, k) and two tangent vectors; k up to m."""
    m = draw(st.integers(1, 24))
    k = draw(st.integers(1, m))
    rng = np.random.default_rng(draw(seeds))
    U = basis(rng, m, k)
    B, C = (project(U, rng.standard_normal((m, k))) for _ in range(2))
    if draw(st.booleans()):  # a vanishing and a repeated column
        B[:, 0] = 0
        B[:, -1] = B[:, k // 2]
    return U, B, C


def basis(rng, m, k):
    return np.linalg.qr(rng.standard_normal((m, k)))[0]


def assert_orthonormal(U, atol=1e-12):
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=atol)


@given(tangents(), steps)
@examples
def test_retraction_is_the_q_factor_of_the_whole_matrix(drawn, t):
    U, B, _ = drawn
    curve = Retraction(U, B)
    np.testing.assert_allclose(curve.Q @ curve.R, B, atol=1e-12)
    assert_orthonormal(np.hstack([curve.point(t), curve.companion(t)]))
    np.testing.assert_allclose(curve.point(t), reference.retract(U, B, t), atol=1e-10)
    np.testing.assert_allclose(curve.point(0.0), U, atol=1e-12)


@given(tangents(), steps)
@examples
def test_transport_is_isometric_and_agrees_with_the_full_rotation(drawn, t):
    U, B, C = drawn
    curve = Retraction(U, B)
    moved, direction = curve.transport(C, t), curve.direction(t)
    np.testing.assert_allclose(curve.point(t).T @ moved, 0, atol=1e-11)
    np.testing.assert_allclose(moved.T @ moved, C.T @ C, atol=1e-10)
    np.testing.assert_allclose(direction, curve.transport(B, t), atol=1e-10)
    assert np.linalg.norm(direction) == pytest.approx(np.linalg.norm(B), abs=1e-10)
    rotation = reference.rotation(U, B, t, reference.complement(U, curve.Q))
    P_new = rotation @ reference.projector(U) @ rotation.T
    np.testing.assert_allclose(reference.projector(curve.point(t)), P_new, atol=1e-10)
    dense = rotation @ reference.tangent_matrix(U, C) @ rotation.T
    np.testing.assert_allclose(reference.tangent_matrix(curve.point(t), moved), dense, atol=1e-9)


@given(tangents(), steps, seeds)
@examples
def test_coefficients_are_those_of_the_projected_matrix(drawn, t, seed):
    U, B, _ = drawn
    Y = np.random.default_rng(seed).standard_normal((U.shape[1], 4))
    curve = Retraction(U, B)
    U_new = curve.point(t)
    np.testing.assert_allclose(U_new @ curve.coefficients(Y, t), reference.projector(U_new) @ (U @ Y), atol=1e-10)
