"""Packages on PyPI that have one of the methods, under one signature.

Kept here: those that were released in the last years and recover a planted matrix on Python 3.11 with NumPy 2.
Looked at and left out: decompy 1.1.1 (2024), whose augmented Lagrange multiplier methods use ``np.Inf``, which NumPy 2
no longer has, and whose inexact one overwrites its data when that is mended.

Each adapter imports its package when it is called; `methods` leaves out what is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from baselines import Decomposition

from bgsub.errors import DependencyError


@dataclass(frozen=True)
class Package:
    """A method of a package.

    Parameters
    ----------
    module : str
        Name of the package, of its module and on PyPI alike.
    method : str
        The method that it implements.
    solve : callable
        ``solve(X, rank) -> Decomposition`` for X (m, n), float64, columns are samples; the rank is ignored by
        the convex methods. Raises DependencyError where the package is absent.
    """

    module: str
    method: str
    solve: Callable[[np.ndarray, int], Decomposition]


def _require(module: str) -> None:
    if find_spec(module) is None:
        raise DependencyError(f"the comparison needs the package {module}: pip install {module}")


def pyrpca(X: np.ndarray, rank: int | None = None, *, tolerance: float = 1e-7) -> Decomposition:
    """Inexact augmented Lagrange multipliers of pyrpca with its defaults, which are those of Lin's code.

    The package does not count iterations: -1.
    """
    _require("pyrpca")
    from pyrpca import rpca_pcp_ialm  # noqa: PLC0415

    low_rank, sparse = rpca_pcp_ialm(X, 1 / np.sqrt(max(X.shape)), tol=tolerance, verbose=False)
    return Decomposition(low_rank, sparse, -1)


def rpca(X: np.ndarray, rank: int, *, tolerance: float = 1e-8, gamma: float = 0.5) -> Decomposition:
    """Accelerated alternating projections of rpca with its defaults, which are those of the authors' code.

    The package subtracts the mean of each column first, which adds a weak component to L; told of it, it still missed
    about half of the planted matrices tried. It is therefore given X above -X, of mean 0 and of the rank of X, and
    found all nine of them; a time measured here is that of twice the data.
    """
    _require("rpca")
    from contextlib import redirect_stdout  # noqa: PLC0415
    from io import StringIO  # noqa: PLC0415

    from rpca import RobustPCA  # noqa: PLC0415

    model = RobustPCA(rank, tol=tolerance, gamma=gamma, verbose=False)
    with redirect_stdout(StringIO()):  # it always prints a message at the end
        model.fit(np.vstack([X, -X]))
    return Decomposition(model.low_rank_[: len(X)], model.sparse_[: len(X)], model.end_iter_)


def tensorly(X: np.ndarray, rank: int | None = None, *, max_iterations: int = 300) -> Decomposition:
    """Robust tensor PCA of tensorly, which for a matrix is principal component pursuit.

    Both unfoldings of a matrix have the same singular values: the nuclear norm counts twice, and so does lambda. The
    default of 100 iterations ends at 1e-4 on matrices of unit variance; 300 is what its slow growth of mu needs.
    """
    _require("tensorly")
    from tensorly.decomposition import robust_pca  # noqa: PLC0415

    weight = 2 / np.sqrt(max(X.shape))
    low_rank, sparse, errors = robust_pca(
        X, reg_E=weight, n_iter_max=max_iterations, return_errors=True, verbose=0
    )  # fmt: skip
    return Decomposition(low_rank, sparse, len(errors))


PACKAGES = {
    "pyrpca": Package("pyrpca", "IALM", pyrpca),
    "rpca": Package("rpca", "AccAltProj", rpca),
    "tensorly": Package("tensorly", "principal component pursuit by ADMM", tensorly),
}
