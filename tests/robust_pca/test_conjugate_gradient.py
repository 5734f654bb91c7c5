"""Conjugate gradients: least squares, quadratics, refused steps."""

import numpy as np
import pytest
from rpca_planted import RULES, needs_compiler, some

from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.alternating import CoefficientHalf
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES, ConjugateGradients, Problem, minimise
from bgsub.robust_pca.cost import RobustCost


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_refuses_a_step_far_too_long(dtype):
    X, mask, U, Y = some(12, 8, 0, dtype=dtype)
    fit = RobustCost(X, mask, Surrogate("log", 1e-30))
    fit.surrogate = Surrogate("log", 1.0)
    half = CoefficientHalf(fit, U, Y)
    start = fit.evaluate(U, Y)
    with np.errstate(over="ignore", invalid="ignore"):
        values, _ = minimise(half, start, CONJUGATE_RULES[RULES[0]], steps=20, tolerance=0, step_length=1e18)
    assert np.isfinite(half.Y).all()
    assert values[-1] <= start


@needs_compiler
@pytest.mark.parametrize("rule", RULES)
def test_solves_least_squares(rule):
    rng = np.random.default_rng(0)
    X, mask = rng.standard_normal((10, 30)), rng.random((10, 30)) < 0.7
    U = np.linalg.qr(rng.standard_normal((30, 3)))[0]
    fit = RobustCost(X, mask, Surrogate("log", 1e8))  # a cost without outliers
    half = CoefficientHalf(fit, U, np.zeros((3, 10)))
    minimise(half, fit.evaluate(U, half.Y), CONJUGATE_RULES[rule], steps=200, tolerance=0, step_length=1.0)
    for j in range(10):
        expected = np.linalg.lstsq(U[mask[j]], X[j, mask[j]], rcond=None)[0]
        np.testing.assert_allclose(half.Y[:, j], expected, atol=1e-4)


class Quadratic(Problem):
    """``x' D x / 2`` with the current point x."""

    def __init__(self, d, x):
        self.d, self.point = d, x

    def evaluate(self, x):
        return 0.5 * float(x @ (self.d * x))

    def gradient(self):
        return self.d * self.point


@pytest.mark.parametrize("probing", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_objective_falls(rule, probing):
    problem = Quadratic(np.array([1.0, 0.5, 0.1, 0.01]), np.ones(4))
    search = ConjugateGradients(problem, CONJUGATE_RULES[rule], probing=probing)
    values = [problem.evaluate(problem.point)]
    for _ in range(150):
        new = search.step(values[-1])
        if new is None or new < 1e-20:
            break
        assert new < values[-1]
        values.append(new)
    assert values[-1] < 1e-6 * values[0]


@pytest.mark.parametrize("probing", [True, False])
def test_restarts_on_a_direction_orthogonal_to_the_gradient(probing):
    def across(g, z, g_old, z_old, H_old):
        """Return the factor at which the slope is down to some units of rounding."""
        return (1 - 1e-15) * np.vdot(g, z) / np.vdot(g, H_old)

    problem = Quadratic(np.array([1.0, 0.1]), np.ones(2))
    search = ConjugateGradients(problem, across, step_length=1.5, probing=probing)  # beyond the minimum of the line
    first = search.step(problem.evaluate(problem.point))
    second = search.step(first)
    assert second < 0.9 * first
    assert problem.evaluate(problem.point) == second
    assert search.step_length > 0.1


def test_takes_no_step_from_a_minimum():
    problem = Quadratic(np.ones(3), np.zeros(3))
    search = ConjugateGradients(problem, CONJUGATE_RULES["hestenes-stiefel"])
    assert search.step(0.0) is None
    assert not problem.point.any()
