"""Robust PCA: attributes, objectives, callbacks, repeatability, degenerate samples."""

import numpy as np
import pytest
import reference
from rpca_planted import COMPILED, GRADUATED, RANK, SIZE, SURROGATES, error, needs_compiler, planted

from bgsub import RobustPCA
from bgsub.robust_pca.descent import Descent
from bgsub.robust_pca.parameters import QUALITIES, SCHEDULES
from bgsub.robust_pca.samples import Standardisation


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
    assert model.n_features_in_ == SIZE
    moment = Y.T @ Y
    assert np.all(np.diff(np.diagonal(moment)) <= 0)
    np.testing.assert_allclose(moment - np.diag(np.diagonal(moment)), 0, atol=1e-9 * moment[0, 0])


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_steps_of_the_paper_lower_the_objective_to_that_of_the_result(surrogate):
    X, _, mask = planted(observed=0.8, share=0.2)
    seen = []
    model = RobustPCA(RANK, quality="paper", surrogate=surrogate, iterations=8)
    model.set_params(mu_start=1.0, mu_end=0.01, callback=seen.append).fit(X, observed=mask)
    np.testing.assert_allclose([progress.mu for progress in seen[::2]], np.geomspace(1, 0.01, 8))
    assert [progress.half for progress in seen] == ["basis", "coefficients"] * 8
    assert sum(len(progress.objective) - 1 for progress in seen) >= 16
    for progress in seen:
        assert np.all(np.diff(progress.objective) < 0)
    for basis, coefficients in zip(seen[::2], seen[1::2], strict=True):
        assert coefficients.objective[0] == pytest.approx(basis.objective[-1], rel=1e-9)
    U, Y = model.components_.T, model.coefficients_.T
    assert model.objective_[-1] == pytest.approx(reference.objective(X, mask, U, Y, surrogate, 0.01), rel=1e-6)


@pytest.mark.parametrize(("quality", "surrogate"), list(zip(GRADUATED, SURROGATES, strict=True)))
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
    assert restarts <= len(SCHEDULES[quality])  # one more for the return to where the noise began
    assert min(fall) < 1e-2 * fall[0]


@needs_compiler
@pytest.mark.parametrize("mu_end", [None, 1e-9])
def test_an_exact_fit_is_not_repeated(mu_end):
    seen = []
    RobustPCA(RANK, quality="best", mu_end=mu_end, callback=seen.append).fit(planted()[0])
    assert np.all(np.diff([progress.mu for progress in seen]) <= 0)


@needs_compiler
@pytest.mark.parametrize("seed", [42, 59])
def test_fit_ends_where_rounding_hides_all_decrease(seed):
    X = np.random.default_rng(seed).standard_normal((9, 8)).astype(np.float32)
    seen = []
    model = RobustPCA(7, quality="fast", surrogate="atan", mu_end=1e-9, callback=seen.append).fit(X)
    assert (model.mu_, model.n_iter_) == (pytest.approx(1e-9, rel=0.1), seen[-1].iteration)
    assert np.isfinite(model.objective_).all()
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, atol=1e-5)
    assert np.median(np.abs(model.sparse_)) < 1e-5  # all but the outliers


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


def test_verbose_prints_steps(capsys):
    model = RobustPCA(RANK, verbose=5, iterations=12).fit(planted()[0])
    steps = capsys.readouterr().out.splitlines()
    assert [step.partition(":")[0] for step in steps] == ["step 5", "step 10", f"step {model.n_iter_}"]
    model.set_params(verbose=0).fit(planted()[0])
    assert capsys.readouterr().out == ""


def test_random_state():
    X, _, _ = planted(shape=(130, 120) if COMPILED else (40, 40), rank=2)  # more than the sample of the scale

    def fitted(state):
        return RobustPCA(2, random_state=state, iterations=5).fit(X).low_rank_

    np.testing.assert_array_equal(fitted(None), fitted(0))
    np.testing.assert_array_equal(fitted(3), fitted(3))
    np.testing.assert_array_equal(fitted(np.random.default_rng(5)), fitted(np.random.default_rng(5)))
    assert np.abs(fitted(3) - fitted(4)).max() > 0


@pytest.mark.parametrize("quality", QUALITIES)
def test_hidden_entries_have_no_effect_and_input_is_preserved(quality):
    X, _, mask = planted(observed=0.8)
    kept = X.copy(), mask.copy()
    ways = (X, mask), (X, mask), (np.where(mask, X, np.inf), mask), (np.where(mask, X, np.nan), None)
    found = [RobustPCA(RANK, quality=quality, iterations=4).fit(X, observed=mask).low_rank_ for X, mask in ways]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(mask, kept[1])


@pytest.mark.parametrize(
    "X", [np.zeros((5, 7)), np.ones((5, 7)), np.outer(range(5), [1] * 7), np.ones((1, 4)), np.ones((4, 1)), [[2]]]
)
@pytest.mark.parametrize("quality", QUALITIES)
def test_degenerate_matrices(quality, X):
    X = np.asarray(X, np.float32 if quality in ("fast", "paper") else np.float64)
    k = min(3, *X.shape)
    model = RobustPCA(k, quality=quality).fit(X)
    np.testing.assert_allclose(model.low_rank_, X, atol=1e-3)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-5)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-3)


def test_interrupted_fit_keeps_its_rank(monkeypatch):
    monkeypatch.setattr(Descent, "explains", lambda descent, residual: False)  # rejects fits of fewer directions
    X, _, _ = planted()
    ranks = set()
    for iterations in range(1, 40, 5 if COMPILED else 13):
        model = RobustPCA(3 * RANK, quality="fast", iterations=iterations)
        model.set_params(callback=lambda step: ranks.add(len(step.components))).fit(X)
        assert model.components_.shape == (3 * RANK, X.shape[1])
        assert model.n_iter_ <= iterations
    assert not COMPILED or min(ranks) < 3 * RANK


def test_recovers_a_small_matrix_without_compiler():
    X, L, _ = planted(shape=(24, 24), rank=2, share=0.05)
    assert error(RobustPCA(2).fit(X), L) < 1e-5
    assert error(RobustPCA(2, quality="paper", iterations=30).fit(X), L) < 5e-3


@needs_compiler
@pytest.mark.parametrize(("quality", "observed"), [("balanced", 1.0), ("paper", 0.6)])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_transform_is_robust_on_new_samples(surrogate, quality, observed):
    X, L, mask = planted(shape=(120, 100), observed=observed)
    model = RobustPCA(RANK, surrogate=surrogate, quality=quality).fit(X[:100], observed=mask[:100])
    Y = model.transform(X[100:], observed=mask[100:])
    gap = np.linalg.norm(model.inverse_transform(Y) - L[100:]) / np.linalg.norm(L[100:])
    assert gap < (1e-5 if quality == "balanced" else {"lp": 3e-4, "log": 2.1e-3, "atan": 7e-4}[surrogate])


def test_medians_and_deviations():
    X = np.array([[1.0, 2.0, 9.0, 3.0], [5.0] * 4, [2.0, 4.0, np.nan, 6.0], [np.nan] * 4]).T
    known = ~np.isnan(X)
    found = Standardisation.of(np.nan_to_num(X), known, True, True)
    np.testing.assert_allclose(found.location, [2.5, 5, 4, 0])
    np.testing.assert_allclose(found.scale, 1.4826022 * np.array([1, 1.5, 2, 1.5]))  # no deviation: the median one
    assert not found.standard(np.nan_to_num(X), known)[~known].any()
