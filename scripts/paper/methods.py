"""The batch methods of the experiments under one signature.

``METHODS[name].solve(problem, seed)`` returns a `Decomposition`; see `planted.Problem` for what a method is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import baselines
import click
import numpy as np
from baselines import Decomposition
from packages import PACKAGES, Package
from planted import Problem

from bgsub import RobustPCA
from bgsub.robust_pca.parameters import PAPER_MU

SURROGATES = ("lp", "log", "atan")
QUALITIES = ("fast", "balanced", "best")
GODEC_POWER = 5  # its paper recommends none; 5 recovers a little more than 2
PATIENT = {"gamma": 0.9, "max_iterations": 300}  # a decay for hard problems; the default of 0.5 is for easy ones


@dataclass(frozen=True)
class Method:
    """A method as the experiments call it.

    Parameters
    ----------
    solve : callable
        Takes a `Problem` and a seed and returns a `Decomposition`; baselines also take ``callback=``.
    masks : bool
        Whether it takes missing entries.
    needs : str
        What it is told beside the matrix.
    """

    solve: Callable[..., Decomposition]
    masks: bool
    needs: str


def robust_pca(problem: Problem, seed: int, **parameters: Any) -> Decomposition:
    """Run `bgsub.RobustPCA`; S is the residual on the observed entries."""
    observed = None if problem.observed is None else np.ascontiguousarray(problem.observed.T)
    model = RobustPCA(problem.rank, random_state=seed, **parameters)
    model.fit(np.ascontiguousarray(problem.X.T), observed=observed)
    return Decomposition(model.low_rank_.T, model.sparse_.T, model.n_iter_)


def paper_schedule(surrogate: str, alternations: int) -> Method:
    """Return the paper's setting of a surrogate (section 6.2): p = 0.5, its mu, and a number of alternations."""
    first, last = PAPER_MU[surrogate]
    settings: dict[str, Any] = {"surrogate": surrogate, "p": 0.5, "quality": "paper", "iterations": alternations}
    settings |= {"mu_start": first, "mu_end": last}
    return Method(partial(robust_pca, **settings), True, "rank")


def _sparcs(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.sparcs(problem.X, problem.rank, problem.cardinality, observed=problem.observed, **options)


def _ealm(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.ealm(problem.X, **options)


def _ialm(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.ialm(problem.X, **options)


def _grasta(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.grasta(problem.X, problem.rank, observed=problem.observed, seed=seed, **options)


def _godec(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.godec(problem.X, problem.rank, problem.cardinality, seed=seed, **options)


def _accaltproj(problem: Problem, seed: int, **options: Any) -> Decomposition:
    return baselines.accaltproj(problem.X, problem.rank, **options)


def _ours() -> dict[str, Method]:
    methods = {f"{name} (paper schedule)": paper_schedule(name, 50) for name in SURROGATES}
    methods |= {f"{name} (10 alternations)": paper_schedule(name, 10) for name in SURROGATES}
    for name in ("log", "lp", "atan"):
        for quality in QUALITIES:
            solve = partial(robust_pca, surrogate=name, quality=quality)
            methods[f"{name} {quality}"] = Method(solve, True, "rank")
    return methods


def _packaged(problem: Problem, seed: int, *, package: Package) -> Decomposition:
    return package.solve(problem.X, problem.rank)


_BASELINES = {
    "SpaRCS": Method(_sparcs, True, "rank, cardinality"),
    "EALM": Method(_ealm, False, "nothing"),
    "IALM": Method(_ialm, False, "nothing"),
    "GRASTA": Method(_grasta, True, "rank"),
    "GoDec": Method(partial(_godec, power=GODEC_POWER), False, "rank, cardinality"),
    "AccAltProj": Method(_accaltproj, False, "rank"),
    "AccAltProj (patient)": Method(partial(_accaltproj, **PATIENT), False, "rank"),
}
_PACKAGED = {
    f"{name} (package)": Method(partial(_packaged, package=package), False, f"rank or nothing; {package.method}")
    for name, package in PACKAGES.items()
    if find_spec(package.module) is not None
}
METHODS: dict[str, Method] = _ours() | _BASELINES | _PACKAGED
PAPER = tuple(f"{name} (paper schedule)" for name in SURROGATES)
SHORT = tuple(f"{name} (10 alternations)" for name in SURROGATES)
QUALITY = tuple(f"log {quality}" for quality in QUALITIES)
BEST = ("log balanced", "log best")
BASELINES = tuple(_BASELINES)
PACKAGED = tuple(_PACKAGED)  # of those that are installed


def chosen(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Return the methods named in a comma-separated list, in the order of the registry (click callback)."""
    return tuple(name for name in METHODS if name in set(_names(text)))


def _names(text: str) -> Iterable[str]:
    known = {name.lower(): name for name in METHODS}
    for word in text.split(","):
        name = known.get(word.strip().lower())
        if name is None:
            raise click.BadParameter(f"must be some of {', '.join(METHODS)}, separated by commas, got {word.strip()!r}")
        yield name
