"""The trackers and the batch methods of the baselines: recovery, convergence, formulas, refused input."""

from functools import partial

import baselines
import numpy as np
import packages
import pytest
from baselines import Grasta, Grouse, IncrementalRobustPCA, Norst, OnlineRobustPCA, Petrels, accaltproj, sparcs
from baselines.orpca import project
from planted import relative_error as error
from scipy.linalg import expm

from bgsub.errors import ParameterError
from bgsub.synthetic import low_rank_plus_sparse


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def planted(rng):
    return np.linalg.qr(rng.standard_normal((100, 3)))[0]


def largest_sine(B, U):
    """Sine of the largest angle between the spans of two orthonormal bases."""
    return np.linalg.norm(B - U @ (U.T @ B), 2)


def column(rng, B, outliers=0.0, largest=5.0):
    """Return a column of unit variance in the span of B, (m, k), with outliers uniform up to `largest`."""
    x = np.sqrt(B.shape[0] / B.shape[1]) * (B @ rng.standard_normal(B.shape[1]))
    return x + np.where(rng.random(x.size) < outliers, rng.uniform(-largest, largest, x.size), 0.0)


def near(rng, B, distance):
    return np.linalg.qr(B + distance * rng.standard_normal(B.shape))[0]


@pytest.mark.parametrize(
    ("make", "outliers", "columns", "observed_share", "bound"),
    [
        (partial(Grouse, rule="greedy"), 0, 700, 1.0, 1e-12),  # from every start: Zhang and Balzano, theorem 1
        (partial(Grouse, rule="greedy"), 0, 700, 0.3, 1e-6),
        (partial(Grouse, step=0.01, rule="constant"), 0, 700, 0.3, 1e-3),
        (partial(Grouse, step=1.0, rule="diminishing"), 0, 700, 1.0, 1e-6),
        (partial(Grouse, step=1.0, rule="diminishing"), 0, 700, 0.3, 1e-2),
        (Grasta, 0.1, 800, 1.0, 1e-4),
        (Grasta, 0.1, 1500, 0.4, 1e-4),
        (Petrels, 0, 1200, 1.0, 1e-9),
        (Petrels, 0, 1200, 0.3, 1e-5),
    ],
)
def test_finds_a_static_subspace(rng, planted, make, outliers, columns, observed_share, bound):
    tracker = make(3, 100, seed=1)
    for _ in range(columns):
        observed = None if observed_share == 1 else rng.random(100) < observed_share
        x = column(rng, planted, outliers)
        weights, rest = tracker.update(x if observed is None else np.where(observed, x, np.nan), observed)
    assert largest_sine(planted, tracker.U) < bound
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-11)
    assert (weights.shape, rest.shape) == ((3,), (100,))
    assert observed is None or not rest[~observed].any()
    assert outliers or np.linalg.norm(rest) < 100 * bound


@pytest.mark.parametrize(
    ("make", "outliers", "observed_share"),
    [
        (partial(Grouse, rule="greedy"), 0, 1.0),
        (partial(Grouse, rule="greedy"), 0, 0.3),
        (partial(Grouse, step=0.006, rule="constant"), 0, 0.3),
        (Grasta, 0.1, 1.0),
        (partial(Grasta, constant_step=0.02, admm_iterations=(20, 20)), 0.1, 1.0),
        (Petrels, 0, 1.0),
        (Petrels, 0, 0.3),
        (IncrementalRobustPCA, 0, 1.0),
    ],
)
def test_follows_a_rotating_subspace(rng, planted, make, outliers, observed_share):
    """A basis of (100, 3) turns step by step."""
    tracker, A = make(3, 100, seed=1), rng.standard_normal((100, 100))
    turn = expm(2e-5 * (A - A.T))
    B, errors = planted, []
    for _ in range(1500):
        B = turn @ B
        x = column(rng, B, outliers)
        tracker.update(*((x,) if observed_share == 1 else (x, rng.random(100) < observed_share)))
        errors.append(largest_sine(B, tracker.U))
    assert largest_sine(B, planted) > 0.2
    assert np.mean(errors[-300:]) < 0.05
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-11)


@pytest.mark.parametrize(("shape", "observed_share"), [((90, 200), 1.0), ((200, 160), 1.0), ((90, 300), 0.6)])
def test_passes_of_grasta_recover_both_parts(shape, observed_share):
    X, L, S, observed = low_rank_plus_sparse(*shape, 3, 0.1, seed=1, observed_share=observed_share)
    mask = None if observed_share == 1 else observed
    found = baselines.grasta(X if mask is None else np.where(mask, X, np.nan), 3, mask)
    assert error(found.low_rank, L) < 1e-3
    assert error(found.sparse[observed], S[observed]) < 1e-3
    assert mask is None or not found.sparse[~mask].any()
    assert found.iterations % shape[1] == 0
    assert found.iterations <= 10 * shape[1]


@pytest.mark.parametrize(("threshold", "observed_share", "bound"), [(None, 1.0, 1e-8), (5.0, 0.7, 1e-5)])
def test_norst_detects_a_change_and_converges_again(rng, planted, threshold, observed_share, bound):
    """The authors' simulation: large outliers in a block that moves, a rough start, a change at once."""
    other = near(rng, planted, 0.03)
    assert largest_sine(other, planted) > 0.2
    tracker = Norst(3, 100, U=near(rng, planted, 1e-3), threshold=threshold, updates=17)
    errors = []
    for B in (planted, other):
        for t in range(20 * 60):
            x = column(rng, B)
            x[np.arange(t // 10, t // 10 + 10) % 100] += rng.uniform(10, 25, 10)
            observed = None if observed_share == 1 else rng.random(100) < observed_share
            tracker.update(x if observed is None else np.where(observed, x, np.nan), observed)
        errors.append(largest_sine(B, tracker.U))
        assert tracker.resting
    assert max(errors) < bound
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-12)


def test_online_robust_pca_finds_a_static_subspace(rng, planted):
    """Columns of norm 1, a tenth of outliers up to 50 times an entry; its long memory makes it slow."""
    tracker, errors = OnlineRobustPCA(3, 100, seed=1), []
    for _ in range(3):
        for _ in range(600):
            r, e = tracker.update(column(rng, planted, 0.1, 50.0) / 10)
        errors.append(largest_sine(planted, tracker.U))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.05
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-12)
    assert r.shape == (3,)
    assert e.shape == (100,)


def test_the_projection_of_online_robust_pca_is_a_minimum(rng, planted):
    """Optimality: the ridge's normal equations, and a subgradient of the l1 norm."""
    L, x, lambda1, lambda2 = 2 * planted + 0.1, column(rng, planted, 0.2), 0.3, 0.2
    r, e = project(L, x, lambda1, lambda2, 1e-12)
    rest = x - L @ r - e
    np.testing.assert_allclose(L.T @ rest, lambda1 * r, atol=1e-9)
    np.testing.assert_allclose(rest[e != 0], lambda2 * np.sign(e[e != 0]), atol=1e-9)
    assert np.abs(rest).max() <= lambda2 * (1 + 1e-12)
    assert 10 < np.count_nonzero(e) < 100


@pytest.mark.parametrize(("forgetting", "observed_share"), [(1.0, 1.0), (0.9, 0.5)])
def test_every_row_of_petrels_is_weighted_least_squares(rng, forgetting, observed_share):
    """Each row of the basis against its dense normal equations, first basis included."""
    tracker = Petrels(3, 20, forgetting=forgetting, covariance=10.0, seed=2)
    first, X = tracker.D.copy(), rng.standard_normal((40, 20))
    masks = rng.random(X.shape) < observed_share if observed_share < 1 else np.ones(X.shape, bool)
    coefficients = np.stack([tracker.update(x, mask)[0] for x, mask in zip(X, masks, strict=True)])
    ages = forgetting ** np.arange(39, -1, -1.0)
    for i in range(20):
        weighted = coefficients * (ages * masks[:, i])[:, None]
        prior = forgetting**40 / 10.0 * np.eye(3)
        row = np.linalg.solve(weighted.T @ coefficients + prior, weighted.T @ X[:, i] + prior @ first[i])
        np.testing.assert_allclose(tracker.D[i], row, atol=1e-8)


def test_outliers_have_less_effect_on_robust_than_on_plain_incremental_pca(rng, planted):
    """Two hundredths of outliers up to 100 times an entry, a long memory, a rough start."""
    start = near(rng, planted, 0.02)
    robust, plain = (IncrementalRobustPCA(3, 100, decay=0.99, cutoff=c, U=start) for c in (2.3849, np.inf))
    for _ in range(1500):
        x = column(rng, planted, 0.02, 100.0)
        weights, ones = robust.update(x), plain.update(x)
    assert largest_sine(planted, robust.U) < 0.1
    assert largest_sine(planted, plain.U) > 0.9
    assert (ones == 1).all()
    assert weights.min() > 0
    assert weights.max() <= 1


@pytest.mark.parametrize(
    ("tracker", "name"), [(OnlineRobustPCA, "OR-PCA"), (IncrementalRobustPCA, "incremental robust PCA")]
)
def test_refuses_missing_entries(tracker, name):
    with pytest.raises(ParameterError, match=f"{name} needs complete columns, got missing entries"):
        tracker(2, 5).update(np.ones(5), np.arange(5) > 0)


def incoherence_of(L, rank):
    """The larger of the incoherences of both singular subspaces, the paper's mu."""
    U, _, Vt = np.linalg.svd(L, full_matrices=False)
    return max(len(basis) / rank * (basis[:, :rank] ** 2).sum(1).max() for basis in (U, Vt.T))


# the errors that the papers report: exact, linear convergence, and the default tolerance 5e-4 of SpaRCS
RECOVERY = {
    "IALM": (lambda X, L, count: baselines.ialm(X), 1e-6, 1e-5),
    "EALM": (lambda X, L, count: baselines.ealm(X), 1e-6, 1e-5),
    "GoDec": (lambda X, L, count: baselines.godec(X, 4, count), 1e-6, 1e-6),
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
