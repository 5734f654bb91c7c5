"""Laws of the surrogates and of the thin geometry, and both against their twins."""

from functools import cache

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError
from bgsub.numerics.grassmann import Retraction
from bgsub.numerics.jit import formula, kernel
from bgsub.numerics.surrogates import CODES, Surrogate, atan_pair, log_value, log_weight, lp_value, lp_weight

NAMES = list(CODES)


FORMULAS = [
    ("lp", lp_value, reference.surrogate_value),
    ("log", log_value, reference.surrogate_value),
    ("atan", formula(lambda r, mu, p: atan_pair(r, mu)[0]), reference.surrogate_value),
    ("atan", formula(lambda r, mu, p: atan_pair(r, mu)[1]), reference.surrogate_influence),
    ("lp", lp_weight, reference.surrogate_weight),
    ("log", log_weight, reference.surrogate_weight),
]

examples = settings(max_examples=25)
residuals = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=20).map(np.array)
scales = st.floats(1e-3, 2)
exponents = st.floats(0.1, 0.9)


@cache
def looped(function):
    @kernel
    def loop(r, mu, p, out):
        for i in range(r.size):
            out[i] = function(r[i], mu, p)

    return loop


@pytest.mark.parametrize("name", NAMES)
@given(r=residuals, mu=scales, p=exponents)
@examples
def test_arrays_agree_with_the_printed_formulas_and_their_derivative(name, r, mu, p):
    surrogate = Surrogate(name, mu, p)
    close = {"rtol": 1e-10, "atol": 1e-14}
    np.testing.assert_allclose(surrogate.value(r), reference.surrogate_value(name, r, mu, p), **close)
    np.testing.assert_allclose(surrogate.influence(r), reference.surrogate_influence(name, r, mu, p), **close)
    np.testing.assert_allclose(surrogate.weight(r), reference.surrogate_weight(name, r, mu, p), rtol=1e-7)
    step = 1e-5 * surrogate.scale
    slope = (surrogate.value(r + step) - surrogate.value(r - step)) / (2 * step)
    np.testing.assert_allclose(surrogate.influence(r), slope, atol=1e-6 * surrogate.scale, rtol=1e-4)


@pytest.mark.parametrize(("name", "function", "twin"), FORMULAS)
def test_compiled_formulas_match_their_twins(name, function, twin):
    rng = np.random.default_rng(0)
    for mu in (1e-4, 0.05, 2.0):
        r = rng.uniform(-3, 3, 2000).astype(np.float32)
        r[:2] = 0, np.float32(mu)
        out = np.empty_like(r)
        looped(function)(r, np.float32(mu), np.float32(0.5), out)
        expected = twin(name, r, float(np.float32(mu)))
        assert np.abs(out - expected).max() <= 2e-6 * np.abs(expected).max()
    looped(function)(np.full(1, np.nan, np.float32), np.float32(0.05), np.float32(0.5), out)
    assert np.isnan(out[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("huber", 0.1), "surrogate must be one of lp, log, atan, got 'huber'"),
        (("lp", 0.0), "mu must be > 0, got 0.0"),
        (("log", float("nan")), "mu must be > 0, got nan"),
        (("lp", 0.1, 1.0), r"p must be in \[0.001, 0.999\], got 1.0"),
    ],
)
def test_wrong_parameters_are_named(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Surrogate(*arguments)


@pytest.mark.parametrize(
    ("name", "p", "share"), [("lp", 0.5, 1), ("lp", 0.2, 1), ("log", 0.5, 1), ("atan", 0.5, 0.765)]
)
def test_the_influence_is_largest_where_the_cost_flattens(name, p, share):
    r = np.linspace(0.001, 1, 1000)
    cost = Surrogate.flattening_at(0.2, name, p)
    assert r[cost.influence(r).argmax()] == pytest.approx(0.2 * share, abs=0.001)
    assert cost.widened(0.5 * cost.scale) is cost
    assert cost.widened(3 * cost.scale).scale == pytest.approx(3 * cost.scale)


seeds = st.integers(0, 10_000)
steps = st.floats(-3, 3)


@st.composite
def tangents(draw):
    """Draw U (m, k) and two tangent vectors; k up to m."""
    m = draw(st.integers(1, 24))
    k = draw(st.integers(1, m))
    rng = np.random.default_rng(draw(seeds))
    U = np.linalg.qr(rng.standard_normal((m, k)))[0]
    B, C = (Z - U @ (U.T @ Z) for Z in rng.standard_normal((2, m, k)))
    if draw(st.booleans()):  # a vanishing and a repeated column
        B[:, 0] = 0
        B[:, -1] = B[:, k // 2]
    return U, B, C


@given(tangents(), steps)
@examples
def test_retraction_is_the_q_factor_of_the_whole_matrix(drawn, t):
    U, B, _ = drawn
    curve = Retraction(U, B)
    np.testing.assert_allclose(curve.Q @ curve.R, B, atol=1e-12)
    both = np.hstack([curve.point(t), curve.companion(t)])
    np.testing.assert_allclose(both.T @ both, np.eye(both.shape[1]), atol=1e-12)
    np.testing.assert_allclose(curve.point(t), reference.q_factor(U + t * B), atol=1e-10)
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
