"""Robust PCA: planted recovery, noise, rank, scale, attributes, callbacks; the alternation of the paper beside it."""

import logging

import numpy as np
import pytest
import reference
from rpca_planted import COMPILED, RANK, SIZE, SURROGATES, error, needs_compiler, planted

from bgsub import RobustPCA
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.conjugate_gradient import CONJUGATE_RULES
from bgsub.robust_pca.descent import Descent
from bgsub.robust_pca.parameters import QUALITIES
from bgsub.robust_pca.schedule import PACES
from bgsub.robust_pca.svd import truncated_svd

RULES = list(CONJUGATE_RULES)
GRADUATED = [quality for quality in QUALITIES if quality != "paper"]

# of the paper's schedules the worst of ten seeds was 1.3e-4, 9.3e-4, 3.3e-4 (complete), 2.0e-4, 1.4e-3, 4.6e-4 (60 %)
PAPER_COMPLETE = {"lp": 2e-4, "log": 1.4e-3, "atan": 5e-4}
PAPER_INCOMPLETE = {"lp": 3e-4, "log": 2.1e-3, "atan": 7e-4}


@needs_compiler
@pytest.mark.parametrize("conjugate", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_recovers_complete_matrices(surrogate, dtype, conjugate):
    X, L, _ = planted()
    X = X.astype(dtype)
    model = RobustPCA(RANK, surrogate=surrogate, conjugate=conjugate).fit(X)
    assert error(model, L) < (1e-5 if dtype == np.float64 else 3e-5)
    parts = (model.components_, model.coefficients_, model.low_rank_, model.sparse_, model.transform(X))
    assert all(part.dtype == dtype for part in parts)


@needs_compiler
@pytest.mark.parametrize("conjugate", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_recovers_incomplete_matrices(surrogate, dtype, conjugate):
    X, L, mask = planted(observed=0.6)
    X = np.where(mask, X, np.nan).astype(dtype)
    model = RobustPCA(RANK, surrogate=surrogate, conjugate=conjugate).fit(X)
    assert error(model, L) < (1e-5 if dtype == np.float64 else 3e-5)


@needs_compiler
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("quality", GRADUATED)
def test_every_quality_recovers(quality, surrogate):
    X, L, _ = planted(share=0.2)
    assert error(RobustPCA(RANK, quality=quality, surrogate=surrogate).fit(X), L) < 2e-5


@needs_compiler
@pytest.mark.parametrize("conjugate", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_the_paper_recovers(surrogate, dtype, conjugate):
    model = RobustPCA(RANK, quality="paper", surrogate=surrogate, conjugate=conjugate)
    X, L, _ = planted()
    assert error(model.fit(X.astype(dtype)), L) < PAPER_COMPLETE[surrogate]
    X, L, mask = planted(observed=0.6)
    assert error(model.fit(np.where(mask, X, np.nan).astype(dtype)), L) < PAPER_INCOMPLETE[surrogate]


@needs_compiler
@pytest.mark.parametrize(("shape", "share"), [((60, 300), 0.1), ((300, 60), 0.1), ((100, 100), 0.3), ((24, 24), 0.05)])
def test_recovers_wide_tall_heavily_corrupted_and_small_matrices(shape, share):
    rank = min(RANK, min(shape) // 12)
    X, L, _ = planted(shape=shape, share=share, rank=rank)
    assert error(RobustPCA(rank).fit(X), L) < 1e-5


def test_a_small_matrix_is_recovered_without_the_compiler_too():
    X, L, _ = planted(shape=(24, 24), rank=2, share=0.05)
    assert error(RobustPCA(2).fit(X), L) < 1e-5
    assert error(RobustPCA(2, quality="paper", iterations=30).fit(X), L) < 5e-3


@needs_compiler
@pytest.mark.parametrize(("rank", "share"), [(60, 0.3), (80, 0.2), (100, 0.1), (20, 0.5)])
def test_reaches_cells_where_the_schedule_of_the_paper_fails(rank, share):
    X, L, _ = planted(shape=(200, 200), rank=rank, share=share)
    assert error(RobustPCA(rank).fit(X), L) < 1e-5
    assert error(RobustPCA(rank, quality="paper", iterations=25).fit(X), L) > 0.1


@needs_compiler
def test_outliers_do_not_move_what_least_squares_lets_move():
    X, L, _ = planted()
    U, Y = truncated_svd(X, RANK)
    plain = np.linalg.norm((U @ Y).T - L)
    assert np.linalg.norm(RobustPCA(RANK).fit(X).low_rank_ - L) < 1e-4 * plain


def oracle(X, inliers, A, sweeps=20):
    """Least squares on the inliers alone, from the true factor A, (n, k)."""
    for _ in range(sweeps):
        B = np.array(
            [np.linalg.lstsq(A[known], x[known], rcond=None)[0] for x, known in zip(X.T, inliers.T, strict=True)]
        )
        A = np.array([np.linalg.lstsq(B[known], x[known], rcond=None)[0] for x, known in zip(X, inliers, strict=True)])
    return A @ B.T


@needs_compiler
@pytest.mark.parametrize(("sigma", "share"), [(0.01, 0.1), (0.1, 0.1), (0.1, 0.3)])
def test_noise_is_left_over_as_least_squares_on_the_inliers_leaves_it(sigma, share):
    X, L, _ = planted(share=share)
    inliers = X == L
    X = X + sigma * np.random.default_rng(1).standard_normal(X.shape)
    model = RobustPCA(RANK).fit(X)
    best = np.linalg.norm(oracle(X, inliers, L @ np.linalg.svd(L)[2][:RANK].T) - L) / np.linalg.norm(L)
    assert error(model, L) < 1.8 * best  # outliers of the size of the noise cannot be told from it
    assert sigma < model.noise_scale_ < 1.7 * sigma
    assert 0.3 < model.mu_ / (2.4 * sigma) ** 2 < 4


@needs_compiler
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_an_explicit_last_mu_lowers_the_floor(surrogate):
    X, L, _ = planted()
    mu = Surrogate(surrogate, 1.0).at_scale(1e-7).mu
    model = RobustPCA(RANK, surrogate=surrogate, mu_end=mu).fit(X)
    assert model.mu_ == pytest.approx(mu)
    assert error(model, L) < 1e-9


@needs_compiler
@pytest.mark.parametrize("rank", [RANK + 1, 2 * RANK, 3 * RANK])
def test_a_rank_above_the_true_one_adds_next_to_nothing(rank):
    X, L, _ = planted()
    model = RobustPCA(rank).fit(X)
    assert error(model, L) < 1e-5
    assert model.singular_values_[RANK] < 1e-5 * model.singular_values_[RANK - 1]


@needs_compiler
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("quality", GRADUATED)
def test_the_unit_of_the_samples_does_not_matter(quality, factor):
    X, L, _ = planted(share=0.2)
    one, two = (RobustPCA(RANK, quality=quality).fit(c * X) for c in (1.0, factor))
    np.testing.assert_allclose(two.low_rank_ / factor, one.low_rank_, atol=1e-5)
    assert error(two, factor * L) < 2e-5
    assert two.noise_scale_ / factor == pytest.approx(one.noise_scale_, rel=0.5)


@needs_compiler
@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e30, 1e100])
@pytest.mark.parametrize("quality", GRADUATED)
def test_outliers_of_any_size_are_outliers(quality, size):
    _, L, _ = planted()
    rng = np.random.default_rng(0)
    wrong = rng.random(L.shape) < 0.2
    X = np.where(wrong, size * rng.standard_normal(L.shape), L)
    model = RobustPCA(RANK, quality=quality).fit(X)
    assert error(model, L) < 2e-5
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, rtol=1e-12)
    assert np.abs(model.inverse_transform(model.transform(X)) - L).max() < 1e-3
    assert np.linalg.norm(model.partial_fit(X).low_rank_ - L) < 1e-3 * np.linalg.norm(L)


@needs_compiler
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_single_precision_does_not_matter(factor):
    X, L, _ = planted()
    assert error(RobustPCA(RANK).fit((factor * X).astype(np.float32)), factor * L) < 3e-5


@needs_compiler
def test_in_the_paper_scale_of_samples_and_smoothing_go_together():
    X, _, _ = planted()
    one = RobustPCA(RANK, quality="paper", mu_start=0.9, mu_end=1e-3).fit(X)
    two = RobustPCA(RANK, quality="paper", mu_start=0.9 * 64, mu_end=64e-3).fit(8 * X)
    np.testing.assert_allclose(two.low_rank_, 8 * one.low_rank_, atol=1e-3)


@pytest.mark.parametrize("quality", QUALITIES)
def test_attributes(quality):
    X, _, mask = planted(observed=0.8)
    model = RobustPCA(RANK, quality=quality, iterations=6)
    Y = model.fit_transform(X, observed=mask)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(RANK), atol=1e-12)
    np.testing.assert_allclose(model.low_rank_, Y @ model.components_, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(Y), model.low_rank_)
    np.testing.assert_allclose(model.sparse_, np.where(mask, X - model.low_rank_, 0))
    np.testing.assert_allclose(model.singular_values_, np.linalg.svd(model.low_rank_)[1][:RANK])
    assert model.n_iter_ == len(model.objective_)
    assert 6 <= model.n_iter_ <= (6 if quality == "paper" else 8)
    assert model.n_features_in_ == model.n_samples_seen_ == SIZE
    moment = Y.T @ Y
    assert np.all(np.diff(np.diagonal(moment)) <= 0)
    np.testing.assert_allclose(moment - np.diag(np.diagonal(moment)), 0, atol=1e-9 * moment[0, 0])


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_objective_of_the_paper_is_that_of_the_result(surrogate):
    X, _, mask = planted(observed=0.8)
    model = RobustPCA(RANK, quality="paper", surrogate=surrogate, mu_end=0.1, iterations=3, inner_iterations=2)
    model.fit(X, observed=mask)
    U, Y = model.components_.T, model.coefficients_.T
    assert model.objective_[-1] == pytest.approx(reference.objective(X, mask, U, Y, surrogate, 0.1), rel=1e-6)


@pytest.mark.parametrize("conjugate", RULES)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_no_accepted_step_of_the_paper_raises_the_objective(surrogate, conjugate):
    X, _, mask = planted(observed=0.8, share=0.2)
    seen = []
    model = RobustPCA(RANK, quality="paper", surrogate=surrogate, conjugate=conjugate, iterations=8)
    model.set_params(callback=seen.append).fit(X, observed=mask)
    assert [progress.half for progress in seen] == ["basis", "coefficients"] * 8
    assert sum(len(progress.objective) - 1 for progress in seen) >= 16
    for progress in seen:
        assert np.all(np.diff(progress.objective) < 0)
    for basis, coefficients in zip(seen[::2], seen[1::2], strict=True):
        assert coefficients.objective[0] == pytest.approx(basis.objective[-1], rel=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("quality", GRADUATED)
def test_no_step_raises_the_objective_and_mu_falls(quality, surrogate):
    X, _, mask = planted(observed=0.8, share=0.2)
    seen = []
    RobustPCA(RANK, quality=quality, surrogate=surrogate, callback=seen.append).fit(X, observed=mask)
    numbers = [0, *(progress.iteration for progress in seen)]
    for before, progress in zip(numbers, seen, strict=False):
        assert progress.half == "both"
        assert progress.iteration == before + (progress.objective[-1] < progress.objective[0])
        assert progress.objective[-1] <= progress.objective[0]
    fall = [progress.mu for progress in seen]
    restarts = np.count_nonzero(np.diff(fall[:-1]) > 0)
    assert restarts <= len(PACES[quality].ridges)  # one more for the return to where the noise began
    assert min(fall) < 1e-2 * fall[0]


def test_smoothing_of_the_paper_shrinks_geometrically():
    seen = []
    model = RobustPCA(RANK, quality="paper", mu_start=1.0, mu_end=0.01, iterations=3, callback=seen.append)
    model.fit(planted()[0])
    np.testing.assert_allclose([progress.mu for progress in seen[::2]], [1, 0.1, 0.01])


@pytest.mark.parametrize("quality", QUALITIES)
def test_callback_sees_the_low_rank_part_and_ends_the_fit(quality):
    X, _, _ = planted()
    last = []

    def callback(progress):
        """Keep the low-rank part, and end with the fourth step."""
        last[:] = [progress.coefficients @ progress.components]
        return progress.iteration == 4 and progress.half in ("both", "coefficients")

    model = RobustPCA(RANK, quality=quality, callback=callback).fit(X)
    assert model.n_iter_ == len(model.objective_) == 4
    np.testing.assert_allclose(model.low_rank_, last[0], atol=1e-10)


def test_verbose_logs_every_so_many_th_step(caplog):
    X, _, _ = planted()
    with caplog.at_level(logging.INFO, "bgsub"):
        model = RobustPCA(RANK, verbose=5, iterations=12).fit(X)
        assert len(caplog.records) == model.n_iter_ // 5
        assert caplog.messages[0].startswith("step 5: mu ")
        caplog.clear()
        RobustPCA(RANK, iterations=12).fit(X)
        assert not caplog.records


@needs_compiler
def test_permuted_samples_have_permuted_coefficients():
    X, _, mask = planted(observed=0.8)
    order = np.random.default_rng(1).permutation(len(X))
    one, two = RobustPCA(RANK).fit(X, observed=mask), RobustPCA(RANK).fit(X[order], observed=mask[order])
    np.testing.assert_allclose(two.coefficients_, one.coefficients_[order], atol=1e-4)
    P = reference.projector(one.components_.T)
    np.testing.assert_allclose(reference.projector(two.components_.T), P, atol=1e-5)


@pytest.mark.parametrize("quality", QUALITIES)
def test_fit_is_repeatable_and_leaves_its_input_alone(quality):
    X, _, mask = planted(observed=0.8)
    kept = X.copy(), mask.copy()
    one, two = (RobustPCA(RANK, quality=quality, iterations=4).fit(X, observed=mask) for _ in range(2))
    np.testing.assert_array_equal(one.low_rank_, two.low_rank_)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(mask, kept[1])


def test_random_state():
    X, _, _ = planted(shape=(130, 120) if COMPILED else (40, 40), rank=2)  # more than the scale looks at

    def fitted(state):
        return RobustPCA(2, random_state=state, iterations=5).fit(X).low_rank_

    np.testing.assert_array_equal(fitted(None), fitted(0))
    np.testing.assert_array_equal(fitted(3), fitted(3))
    np.testing.assert_array_equal(fitted(np.random.default_rng(5)), fitted(np.random.default_rng(5)))
    assert np.abs(fitted(3) - fitted(4)).max() > 0


def test_hidden_entries_do_not_matter():
    X, _, mask = planted(observed=0.8)
    ways = (X, mask), (np.where(mask, X, np.inf), mask), (np.where(mask, X, np.nan), None)
    one, two, three = (RobustPCA(RANK, iterations=4).fit(X, observed=mask).low_rank_ for X, mask in ways)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize(
    "X",
    [np.zeros((5, 7)), np.ones((5, 7)), np.outer(np.arange(5), np.ones(7)), np.ones((1, 4)), np.ones((4, 1)), [[2]]],
    ids=["zeros", "constant", "rank one", "one sample", "one feature", "one entry"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("quality", QUALITIES)
def test_degenerate_matrices(quality, X, dtype):
    X = np.asarray(X, dtype)
    k = min(3, *X.shape)
    model = RobustPCA(k, quality=quality).fit(X)
    np.testing.assert_allclose(model.low_rank_, X, atol=1e-3)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-5)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-3)


@pytest.mark.parametrize("quality", QUALITIES)
def test_feature_never_observed_stays_finite(quality):
    X, _, _ = planted()
    X[:, 3] = np.nan
    model = RobustPCA(RANK, quality=quality, iterations=5).fit(X)
    assert np.isfinite(model.low_rank_).all()
    assert not model.sparse_[:, 3].any()


# ---- what spoils a start ------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("seed", range(3))
def test_a_single_large_outlier_does_not_stay_in_the_low_rank_part(seed):
    _, L, _ = planted(share=0.0, shape=(200, 200), rank=5, seed=seed)
    X = L.copy()
    X.flat[np.random.default_rng(seed).integers(X.size)] = 20.0
    assert error(RobustPCA(5).fit(X), L) < 1e-5


@needs_compiler
@pytest.mark.parametrize("seed", range(3))
def test_an_elongated_matrix_without_outliers_stays_whole(seed):
    _, L, _ = planted(share=0.0, shape=(60, 20000), rank=2, seed=seed)
    assert error(RobustPCA(2).fit(L), L) < 1e-5


@needs_compiler
@pytest.mark.parametrize("axis", [0, 1])
def test_a_black_border_does_not_end_the_fit(axis):
    X, L, _ = planted()
    border = np.zeros_like(X)
    framed = np.concatenate([border, X], axis=axis)
    assert error(RobustPCA(RANK).fit(framed), np.concatenate([border, L], axis=axis)) < 1e-5


@needs_compiler
def test_a_feature_that_is_never_observed_does_not_slow_the_others():
    X, L, _ = planted()
    X = X.copy()
    X[:, 7] = np.nan
    model = RobustPCA(RANK).fit(X)
    rest = np.delete(model.low_rank_ - L, 7, axis=1)
    assert np.linalg.norm(rest) < 1e-5 * np.linalg.norm(L)
    assert model.n_iter_ < 100


def test_a_fit_cut_short_keeps_the_shape_of_its_bound(monkeypatch):
    monkeypatch.setattr(Descent, "explains", lambda descent, residual: False)  # fits of fewer directions are given up
    X, _, _ = planted()
    ranks = set()
    for iterations in range(1, 40, 1 if COMPILED else 13):
        model = RobustPCA(3 * RANK, quality="fast", iterations=iterations)
        model.set_params(callback=lambda step: ranks.add(len(step.components))).fit(X)
        assert model.components_.shape == (3 * RANK, X.shape[1])
        assert model.n_iter_ <= iterations
    assert not COMPILED or min(ranks) < 3 * RANK
