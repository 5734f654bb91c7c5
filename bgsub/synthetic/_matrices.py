"""Matrices with a known low-rank part and known outliers, as in the paper's experiments."""

import numpy as np

from bgsub.errors import ParameterError


def low_rank_plus_sparse(
    m: int, n: int, rank: int, outlier_share: float, *, seed: int, observed_share: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``X = L + S`` with L of low rank and S sparse.

    L is the product of two Gaussian factors, divided by ``sqrt(rank)`` so that its entries have unit
    variance. Outliers sit at places drawn without replacement, their values uniform in [-5, 5].

    Parameters
    ----------
    m : int
        Number of rows: samples, as in scikit-learn (the paper writes samples as columns; transpose for it).
    n : int
        Number of columns: features.
    rank : int
        Rank of L, from 0 to min(m, n).
    outlier_share : float
        Share of the entries with an outlier, in [0, 1].
    seed : int
        Seed of everything.
    observed_share : float
        Share of the entries that are observed, in [0, 1].

    Returns
    -------
    X, L, S : ndarray, (m, n), float64
        The sum and its parts; X is complete, also where it is not observed.
    observed : ndarray, (m, n), bool
        Which entries are observed.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.

    Notes
    -----
    Section 6.2 of C. Hage and M. Kleinsteuber, arXiv 1210.0805.

    Examples
    --------
    >>> import numpy as np
    >>> from bgsub.synthetic import low_rank_plus_sparse
    >>> X, L, S, observed = low_rank_plus_sparse(60, 80, rank=2, outlier_share=0.1, seed=0)
    >>> X.shape, int(np.linalg.matrix_rank(L)), int(np.count_nonzero(S))
    ((60, 80), 2, 480)
    """
    if m < 1 or n < 1:
        raise ParameterError(f"m and n must be at least 1, got {m!r} and {n!r}")
    if not 0 <= rank <= min(m, n):
        raise ParameterError(f"rank must be from 0 to min(m, n) = {min(m, n)}, got {rank!r}")
    for name, share in (("outlier_share", outlier_share), ("observed_share", observed_share)):
        if not 0 <= share <= 1:
            raise ParameterError(f"{name} must be from 0 to 1, got {share!r}")
    if seed < 0:
        raise ParameterError(f"seed must be 0 or more, got {seed!r}")
    rng = np.random.Generator(np.random.PCG64(seed))
    low_rank = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(max(rank, 1))
    sparse: np.ndarray = np.zeros(m * n)
    places = rng.permutation(m * n)[: round(outlier_share * m * n)]
    sparse[places] = rng.uniform(-5, 5, places.size)
    sparse = sparse.reshape(m, n)
    observed = np.zeros(m * n, bool)
    observed[rng.permutation(m * n)[: round(observed_share * m * n)]] = True
    return low_rank + sparse, low_rank, sparse, observed.reshape(m, n)
