"""Robust PCA in scikit-learn: its own checks of estimators, pipelines, the choice of a rank."""

import numpy as np
import pytest
from rpca_planted import needs_compiler, planted

from bgsub import RobustPCA
from bgsub.errors import ParameterError

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 or later is not there")

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

ESTIMATORS = [
    RobustPCA(),
    RobustPCA(1, quality="fast", surrogate="atan", forgetting=0.1),
    RobustPCA(1, quality="best", surrogate="lp"),
    RobustPCA(quality="paper", iterations=10),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_model_that_is_not_fitted():
    model = RobustPCA(2)
    with pytest.raises(NotFittedError, match="call fit first") as caught:
        model.transform(np.ones((3, 3)))
    assert isinstance(caught.value, ParameterError)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(np.ones((3, 3))))
    assert not is_classifier(model)
    assert not is_regressor(model)


def test_clones_are_not_fitted_and_have_the_same_parameters():
    model = RobustPCA(2, surrogate="lp", mu_end=1e-3, quality="fast").fit(np.ones((3, 4)))
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "components_")


@needs_compiler
def test_a_pipeline_reduces_what_is_then_regressed():
    X, L, _ = planted(shape=(120, 60))
    target = L @ np.random.default_rng(0).standard_normal(60)
    model = make_pipeline(StandardScaler(with_mean=False), RobustPCA(4), LinearRegression())
    assert model.fit(X[:80], target[:80]).score(X[80:], target[80:]) > 0.999
    assert model[:-1].get_feature_names_out().tolist() == [f"robustpca{i}" for i in range(4)]


@needs_compiler
@pytest.mark.parametrize(("sigma", "share"), [(0.05, 0.05), (0.2, 0.2)])
def test_a_search_finds_the_rank(sigma, share):
    X, _, _ = planted(shape=(120, 80), share=share)
    X += sigma * np.random.default_rng(3).standard_normal(X.shape)
    search = GridSearchCV(RobustPCA(mu_end=(2.4 * sigma) ** 2), {"rank": [2, 3, 4, 5, 8]}, cv=3, error_score="raise")
    assert search.fit(X).best_params_ == {"rank": 4}
