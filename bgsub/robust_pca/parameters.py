"""The parameters of robust PCA: which values are allowed, and the settings that follow from them."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import CODES, Surrogate
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES
from bgsub.robust_pca.schedule import PACES
from bgsub.robust_pca.settings import Settings

PAPER = "paper"
QUALITIES = (PAPER, *PACES)
PAPER_MU = {"lp": (0.9, 1e-4), "log": (2.0, 0.005), "atan": (2.0, 0.05)}

_COUNTS = (("rank", 1, True), ("iterations", 1, True), ("inner_iterations", 1, False), ("verbose", 0, False))
_DEFAULT_RANK = 3
_SAMPLES_PER_COMPONENT = 4
_STREAM = 0x62677375  # "bgsu": any constant that nobody else puts before a seed


def checked(model: Any) -> Settings:
    """Check the parameters of a `RobustPCA` as far as they do not depend on the samples, and return them."""
    _check_numbers(model)
    _check_words(model)
    first, last = _mus(model)
    return Settings(
        surrogate=Surrogate(model.surrogate, last or 1.0, model.p),
        quality=model.quality,
        rule=CONJUGATE_RULES[model.conjugate],
        first=first,
        last=last,
        iterations=model.iterations,
        inner_iterations=model.inner_iterations,
        tolerance=model.tolerance,
        rng=_generator(model.random_state),
    )


def default_rank(shape: tuple[int, ...]) -> int:
    """Return the rank for samples of `shape`, (n_samples, n_features), where none is given.

    Returns
    -------
    int
        3, or a quarter of the shorter side if that is less, at least 1.

    Examples
    --------
    >>> default_rank((500, 8)), default_rank((500, 100))
    (2, 3)
    """
    return max(1, min(_DEFAULT_RANK, min(shape) // _SAMPLES_PER_COMPONENT))


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator; a seed gives a stream of its own, which no one who makes data from the same seed has."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng([_STREAM, random_state or 0])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def _mus(model: Any) -> tuple[float | None, float | None]:
    default = PAPER_MU[model.surrogate] if model.quality == PAPER else (None, None)
    first = default[0] if model.mu_start is None else model.mu_start
    last = default[1] if model.mu_end is None else model.mu_end
    for name, mu in (("mu_start", first), ("mu_end", last)):
        if mu is not None and not (_is_number(mu) and np.isfinite(mu) and mu > 0):
            raise ParameterError(f"{name} must be a finite number > 0, got {mu!r}")
    if first is not None and last is not None and last > first:
        raise ParameterError(f"mu_end must be <= mu_start = {first}, got {last}")
    return first, last


def _check_numbers(model: Any) -> None:
    for name, least, optional in _COUNTS:
        value: Any = getattr(model, name)
        if value is None and optional:
            continue
        if not isinstance(value, Integral) or (isinstance(value, bool) and name != "verbose") or value < least:
            raise ParameterError(f"{name} must be an integer >= {least}, got {value!r}")
    for name, value in (("tolerance", model.tolerance), ("forgetting", model.forgetting)):
        if value is None and name == "tolerance":
            continue
        if not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
            raise ParameterError(f"{name} must be in [0, 1), got {value!r}")


def _check_words(model: Any) -> None:
    for name, choices in (("surrogate", tuple(CODES)), ("conjugate", tuple(CONJUGATE_RULES)), ("quality", QUALITIES)):
        if getattr(model, name) not in choices:
            raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {getattr(model, name)!r}")
    for name in ("center", "scale"):
        if not isinstance(getattr(model, name), (bool, np.bool_)):
            raise ParameterError(f"{name} must be True or False, got {getattr(model, name)!r}")
    state: Any = model.random_state
    if not (
        state is None or isinstance(state, np.random.Generator) or (isinstance(state, (int, np.integer)) and state >= 0)
    ):
        raise ParameterError(f"random_state must be an integer >= 0, a numpy.random.Generator or None, got {state!r}")
    if not (model.callback is None or callable(model.callback)):
        raise ParameterError(f"callback must be callable or None, got {model.callback!r}")
