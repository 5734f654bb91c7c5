"""Planted problems of the paper's experiments: X = L + S + noise, of which a part may be observed.

Matrices are (m, n) with samples as columns, as the paper writes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgsub.synthetic import low_rank_plus_sparse

RECOVERED = 0.05  # the relative error of L below which the paper counts a matrix as recovered


class Problem(NamedTuple):
    """What a method is given.

    Parameters
    ----------
    X : ndarray, (m, n), float64
        The matrix, 0 where it is not observed.
    observed : ndarray, (m, n), bool, or None
        Which entries are observed; None for all.
    rank : int
        True rank or a bound on it.
    cardinality : int
        True number of outliers among the observed entries.
    """

    X: np.ndarray
    observed: np.ndarray | None
    rank: int
    cardinality: int


class Planted(NamedTuple):
    """A problem and its parts, (m, n) each: `L` of entries of unit variance, `S` uniform in [-5, 5]."""

    problem: Problem
    L: np.ndarray
    S: np.ndarray


def planted(
    size: int,
    rank_share: float,
    outlier_share: float,
    seed: int,
    *,
    observed_share: float = 1.0,
    snr_db: float = np.inf,
    bound: int | None = None,
) -> Planted:
    """Make a square problem, the same for every method.

    Parameters
    ----------
    size : int
        m = n.
    rank_share : float
        True rank over m.
    outlier_share : float
        Share of the entries with an outlier.
    seed : int
        Seed; matrices of other shares are other matrices.
    observed_share : float
        Share of the entries that are observed, drawn without replacement.
    snr_db : float
        ``20 log10(|L| / |N|)`` in the Frobenius norm for Gaussian noise N on all entries; inf for none.
    bound : int, optional
        The rank that methods are told; the true one by default.
    """
    rank = rank_of(size, rank_share)
    key = [seed, round(1000 * rank_share), round(1000 * outlier_share)]
    matrix_seed, noise_seed = (int(word) for word in np.random.SeedSequence(key).generate_state(2))
    X, L, S, observed = low_rank_plus_sparse(
        size, size, rank, outlier_share, seed=matrix_seed, observed_share=observed_share
    )
    if np.isfinite(snr_db):
        noise = np.random.default_rng(noise_seed).standard_normal(X.shape)
        X = X + noise * (np.linalg.norm(L) / np.linalg.norm(noise) * 10 ** (-snr_db / 20))
    complete = bool(observed.all())
    problem = Problem(
        X if complete else np.where(observed, X, 0.0),
        None if complete else observed,
        rank if bound is None else bound,
        int(np.count_nonzero(S[observed])),
    )
    return Planted(problem, L, S)


def rank_of(size: int, share: float) -> int:
    """Return the rank, at least 1, that is `share` of `size`."""
    return max(round(share * size), 1)


def relative_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return ``|estimate - truth| / |truth|`` in the Frobenius norm; inf for an estimate that is not finite."""
    error = float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))
    return error if np.isfinite(error) else float("inf")
