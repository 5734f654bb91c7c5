"""Smoothed l0-surrogates: value, influence and weight, defined once for NumPy arrays and kernels.

Each cost of the paper (arXiv 1210.0805, section 6.1) is divided by its curvature at zero, ``h(r) / h''(0)``, so that a
step that assumes curvature one is safe. The table of all formulas, and what follows from them, are in docs/method.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import types
from numba.extending import overload

from bgsub.errors import ParameterError, check_choice
from bgsub.numerics.jit import FASTMATH, constant, formula
from bgsub.parameters import EXPONENTS

LP, LOG, ATAN = 1, 2, 3
CODES = {"lp": LP, "log": LOG, "atan": ATAN}

_HALF_PI = np.float32(np.pi / 2)
# Abramowitz and Stegun 4.4.49: |error| <= 2e-8 on [-1, 1]; it vectorises, which the library's atan does not.
_A2, _A4, _A6, _A8 = (np.float32(a) for a in (-0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393))
_A10, _A12, _A14, _A16 = (np.float32(a) for a in (-0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257))
# A bare literal would turn float32 kernels into float64 ones; these are exact in both.
_ONE = np.float32(1)
_HALF = np.float32(0.5)


def arctan(z):  # type: ignore[no-untyped-def]
    """Return the arc tangent of `z`; in kernels on float32 a polynomial with an error below 2e-7."""
    return np.arctan(z)


@overload(arctan, jit_options={"fastmath": FASTMATH, "error_model": "numpy", "forceinline": True})
def _arctan_in_kernels(z):  # type: ignore[no-untyped-def]
    return _arctan_float32 if z == types.float32 else arctan


def _arctan_float32(z):  # type: ignore[no-untyped-def]
    a = abs(z)
    t = min(a, _ONE / max(a, np.float32(1e-30)))
    q = t * t
    tail = _A8 + q * (_A10 + q * (_A12 + q * (_A14 + q * _A16)))
    inner = t * (_ONE + q * (_A2 + q * (_A4 + q * (_A6 + q * tail))))
    return np.copysign(inner if a <= _ONE else _HALF_PI - inner, z)


@formula
def lp_weight(r, mu, p):  # type: ignore[no-untyped-def]
    """Return the weight ``(mu / (mu + r^2))^(1 - p/2)``, the influence divided by r."""
    s = mu / (mu + r * r)
    return s / s ** (_HALF * p)


@formula
def log_weight(r, mu, p):  # type: ignore[no-untyped-def]
    """Return the weight ``mu / (mu + r^2)``, the influence divided by r; `p` is not used."""
    return mu / (mu + r * r)


@formula
def lp_pair(r, mu, p, s, power):  # type: ignore[no-untyped-def]
    """Return the cost and the influence of `lp` from ``s = (mu + r^2) / mu`` and ``power = s^(p/2)``."""
    return mu / p * power, r * (power / s)


@formula
def atan_pair(r, mu):  # type: ignore[no-untyped-def]
    """Return the cost ``(mu^2/2) atan(r/mu)^2`` and its derivative, the influence, from one arc tangent."""
    square = mu * mu
    t = mu * arctan(r / mu)
    return _HALF * t * t, t * (square / (square + r * r))


@formula
def lp_value(r, mu, p):  # type: ignore[no-untyped-def]
    """Return the cost ``(mu/p) (1 + r^2/mu)^(p/2)``."""
    return mu / p * ((mu + r * r) / mu) ** (_HALF * p)


@formula
def log_value(r, mu, p):  # type: ignore[no-untyped-def]
    """Return the cost ``(mu/2) log(1 + r^2/mu)``; `p` is not used."""
    return _HALF * mu * np.log1p(r * r / mu)


_VALUES = {"lp": lp_value, "log": log_value, "atan": lambda r, mu, p: atan_pair(r, mu)[0]}
_WEIGHTS = {"lp": lp_weight, "log": log_weight}


@dataclass(frozen=True)
class Surrogate:
    """A smoothed l0-surrogate."""

    name: str  # "lp", "log" or "atan"
    mu: float  # smoothing; intensity squared for ``lp`` and ``log``, intensity for ``atan``
    p: float = 0.5  # exponent of ``lp``, in [0.001, 0.999]

    def __post_init__(self) -> None:
        check_choice("surrogate", self.name, CODES)
        if not (np.isfinite(self.mu) and self.mu > 0):
            raise ParameterError(f"mu must be > 0, got {self.mu!r}")
        least, most = EXPONENTS
        if not (isinstance(self.p, (int, float, np.integer, np.floating)) and least <= self.p <= most):
            raise ParameterError(f"p must be in [{least}, {most}], got {self.p!r}")

    @cached_property
    def code(self) -> tuple[int, ...]:
        """Tuple whose length identifies the surrogate in kernels; see `bgsub.numerics.jit.constant`."""
        return constant(CODES[self.name])

    @classmethod
    def flattening_at(cls, residual: float, name: str, p: float = 0.5) -> "Surrogate":
        """Return the surrogate whose influence is largest at `residual`, in intensity units (atan: 0.77 of it)."""
        return cls(name, {"lp": (1 - p) * residual**2, "log": residual**2, "atan": residual}[name], p)

    @property
    def scale(self) -> float:
        """The residual that mu corresponds to, in intensity units: ``sqrt(mu)``, for atan ``mu``."""
        return self.mu if self.name == "atan" else float(np.sqrt(self.mu))

    def at_scale(self, scale: float) -> "Surrogate":
        """Return the surrogate with a given `scale`."""
        return replace(self, mu=scale if self.name == "atan" else scale**2)

    def at_mu(self, mu: float) -> "Surrogate":
        """Return the same surrogate with another mu."""
        return replace(self, mu=mu)

    def widened(self, scale: float) -> "Surrogate":
        """Return the surrogate with at least a given `scale`, from which a continuation begins."""
        return self.at_scale(scale) if scale > self.scale else self

    def value(self, r: np.ndarray) -> np.ndarray:
        """Return ``h(r) / h''(0)`` entry by entry, shape of `r`."""
        return _VALUES[self.name](*self._typed(r))

    def influence(self, r: np.ndarray) -> np.ndarray:
        """Return ``psi(r) = h'(r) / h''(0)`` entry by entry, shape of `r`."""
        r, mu, p = self._typed(r)
        return atan_pair(r, mu)[1] if self.name == "atan" else r * _WEIGHTS[self.name](r, mu, p)

    def weight(self, r: np.ndarray) -> np.ndarray:
        """Return ``omega(r) = psi(r) / r`` in (0, 1] entry by entry, shape of `r`; 1 at r = 0."""
        if self.name != "atan":
            return _WEIGHTS[self.name](*self._typed(r))
        r = np.asarray(r)
        small = np.abs(r) < 1e-4 * self.mu
        safe = np.where(small, self.mu, r)
        return np.where(small, 1.0, self.influence(safe) / safe)

    def _typed(self, r: np.ndarray) -> tuple[np.ndarray, np.floating, np.floating]:
        """Return residual, mu and p in one type, so that float64 products are not rounded to float32."""
        r = np.asarray(r)
        real = np.float32 if r.dtype == np.float32 else np.float64
        return r, real(self.mu), real(self.p)
