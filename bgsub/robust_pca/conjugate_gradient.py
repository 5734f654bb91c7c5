"""Conjugate gradients with an Armijo line search, after algorithms 2 and 3 of the paper, arXiv 1210.0805."""

from collections.abc import Callable, Iterator

import numpy as np

_SUFFICIENT_DECREASE = 1e-4
_MAX_TRIALS = 25
_GROWTH = 2.0
_LEAST_SLOPE = 1e-6  # share of the slope of steepest descent; smaller slopes are rounding


class Problem:
    """A smooth objective with a current point: on a vector space, or on a manifold if `curve` is overridden."""

    point: np.ndarray
    evaluate: Callable[[np.ndarray], float]  # returns the objective at a point
    gradient: Callable[[], np.ndarray]  # returns the gradient at the current point, which was evaluated last

    def precondition(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in the scaled metric; its negative is the direction of steepest descent."""
        return gradient

    def curve(self, direction: np.ndarray) -> "Line":
        """Return the curve from the current point along `direction`."""
        return Line(self, direction)


class Line:
    """The straight line from the current point of a problem along a direction; base of other curves."""

    def __init__(self, problem: Problem, direction: np.ndarray) -> None:
        self._problem, self._direction = problem, direction

    def value(self, t: float) -> float:
        """Return the objective at step length `t`."""
        self._point = self._problem.point + self._direction.dtype.type(t) * self._direction
        return self._problem.evaluate(self._point)

    def accept(self) -> None:
        """Move the current point to the step length evaluated last."""
        self._problem.point = self._point

    def transport(self, C: np.ndarray, t: float) -> np.ndarray:
        """Return the tangent vector `C` at the old point, moved to the point at `t`."""
        return C

    def direction(self, t: float) -> np.ndarray:
        """Return the search direction, moved to the point at `t`."""
        return self._direction


class ConjugateGradients:
    """Conjugate gradient steps; the objective may change between them."""

    # probing begins a line search at twice the accepted step; else it begins at the minimum of a parabola

    def __init__(self, problem: Problem, *, step_length: float = 1.0, probing: bool = True) -> None:
        self.step_length = step_length
        self.gradients: tuple[np.ndarray, np.ndarray]  # of the last step, in the usual and in the scaled metric
        self._problem, self._probing = problem, probing
        self._last: tuple[Line, float, np.ndarray] | None = None

    def step(self, value: float) -> float | None:
        """Move the point by one step from the objective `value`; return the new one, None if no step lowers it."""
        g = self._problem.gradient()
        z = self._problem.precondition(g)
        self.gradients = g, z
        steepest = -float(np.vdot(g, z))
        for H in self._directions(g, z):
            slope = float(np.vdot(g, H))
            if not slope < _LEAST_SLOPE * steepest:
                continue
            curve = self._problem.curve(H)
            t, new = self._search(curve, value, slope)
            if t > 0:
                curve.accept()
                self._last = (curve, t, g)
                return new
        return None

    def _directions(self, g: np.ndarray, z: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the conjugate direction if there is one, then that of steepest descent."""
        if self._last is not None:
            curve, t, g_old = self._last
            self._last = None
            H_old, change = curve.direction(t), g - curve.transport(g_old, t)
            slope = np.vdot(H_old, change)
            factor = float(np.vdot(z, change) / slope) if slope else 0.0  # of Hestenes and Stiefel
            if factor > 0:
                yield g.dtype.type(factor) * H_old - z
        yield -z

    def _search(self, curve: Line, start: float, slope: float) -> tuple[float, float]:
        """Return the first step length with sufficient decrease, and the objective there; (0, start) if none."""
        t = self.step_length
        for _ in range(_MAX_TRIALS):
            value = curve.value(t)
            rise = value - start
            if value <= start + _SUFFICIENT_DECREASE * t * slope:
                best = _GROWTH * t if self._probing else _parabola(t, rise, slope, _GROWTH * t)
                self.step_length = max(best, t / _GROWTH)
                return t, value
            t = float(np.clip(_parabola(t, rise, slope, t), t / 10, t / 2)) if np.isfinite(rise) else t / 10
        return 0.0, start


def minimise(
    problem: Problem, value: float, *, steps: int, tolerance: float, step_length: float
) -> tuple[list[float], float]:
    """Lower the objective of `problem`, now `value`, by at most `steps` steps; return values and next trial step."""
    search = ConjugateGradients(problem, step_length=step_length)
    values = [value]
    while len(values) <= steps:
        new = search.step(values[-1])
        if new is None:
            break
        values.append(new)
        if values[-2] - new <= tolerance * abs(new):
            break
    return values, search.step_length


def _parabola(t: float, rise: float, slope: float, most: float) -> float:
    """Return the minimiser, at most `most`, of the parabola with `slope` at 0 that rises by `rise` up to `t`."""
    curvature = 2 * (rise - slope * t)
    return min(-slope * t * t / curvature, most) if curvature > 0 else most
