"""The batch methods of the baselines: recovery of both parts, convergence, refused input."""

import numpy as np
import packages
import pytest
from baselines import accaltproj, ealm, godec, ialm, sparcs
from paper_kit import error

from bgsub.synthetic import low_rank_plus_sparse


def incoherence_of(L, rank):
    """The larger of the incoherences of both singular subspaces, the paper's mu."""
    U, _, Vt = np.linalg.svd(L, full_matrices=False)
    return max(len(basis) / rank * (basis[:, :rank] ** 2).sum(1).max() for basis in (U, Vt.T))


# the errors that the papers report: exact, linear convergence, and the default tolerance 5e-4 of SpaRCS
RECOVERY = {
    "IALM": (lambda X, L, count: ialm(X), 1e-6, 1e-5),
    "EALM": (lambda X, L, count: ealm(X), 1e-6, 1e-5),
    "GoDec": (lambda X, L, count: godec(X, 4, count), 1e-6, 1e-6),
    "AccAltProj": (lambda X, L, count: accaltproj(X, 4, tolerance=1e-9), 1e-8, 1e-8),
    "AccAltProj, trimmed": (
        lambda X, L, count: accaltproj(X, 4, tolerance=1e-9, incoherence=1.1 * incoherence_of(L, 4)), 1e-8, 1e-8
    ),
    "SpaRCS": (lambda X, L, count: sparcs(X, 4, count), 3e-3, 3e-3),
    "SpaRCS, two": (lambda X, L, count: sparcs(X, 4, count, selection=2), 3e-3, 3e-3),
    "SpaRCS, precise": (lambda X, L, count: sparcs(X, 4, count, tolerance=1e-10), 1e-9, 1e-9),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOVERY)
@pytest.mark.parametrize("shape", [(120, 120), (90, 150), (150, 90)])
def test_recovers_both_parts(name, shape):
    X, L, S, _ = low_rank_plus_sparse(*shape, 4, 0.05, seed=1)
    method, low_rank_bound, sparse_bound = RECOVERY[name]
    found = method(X, L, np.count_nonzero(S))
    assert error(found.low_rank, L) < low_rank_bound
    assert error(found.sparse, S) < sparse_bound
    assert np.linalg.matrix_rank(found.low_rank, tol=1e-6 * np.linalg.norm(X, 2)) == 4
    if name.startswith(("GoDec", "SpaRCS")):
        assert np.count_nonzero(found.sparse) <= np.count_nonzero(S)
    if name.endswith("ALM"):
        assert np.linalg.norm(X - found.low_rank - found.sparse) < 1e-7 * np.linalg.norm(X)


@pytest.mark.parametrize("shape", [(130, 150), (150, 130)])
def test_sparcs_recovers_from_some_entries(shape):
    """Robust matrix completion of the paper: the operator keeps some entries; hidden ones are not read."""
    X, L, S, observed = low_rank_plus_sparse(*shape, 3, 0.05, seed=3, observed_share=0.6)
    hidden = np.where(observed, X, np.nan)
    found = sparcs(hidden, 3, np.count_nonzero(S[observed]), observed=observed, tolerance=1e-6, max_iterations=100)
    assert error(found.low_rank, L) < 1e-4
    assert error(found.sparse[observed], S[observed]) < 1e-4
    assert not found.sparse[~observed].any()


@pytest.mark.parametrize("name", list(packages.PACKAGES))
def test_installed_package_recovers(name, capsys):
    package = packages.PACKAGES[name]
    pytest.importorskip(package.module, reason=f"{package.module} is not installed")
    X, L, S, _ = low_rank_plus_sparse(100, 80, 3, 0.05, seed=1)
    found = package.solve(X, 3)
    assert np.linalg.norm(found.low_rank - L) < 1e-5 * np.linalg.norm(L)
    assert np.linalg.norm(found.sparse - S) < 1e-5 * np.linalg.norm(S)
    assert not capsys.readouterr().out
