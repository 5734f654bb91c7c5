"""Robust PCA in scikit-learn: its estimator checks and pipelines."""

import numpy as np
import pytest
from rpca_planted import needs_compiler, planted

from bgsub import RobustPCA
from bgsub.errors import ParameterError

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 or later is not there")

from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

pytestmark = pytest.mark.extras
OPTIONS = {"quality": "fast", "surrogate": "lp", "center": True, "scale": True}


# The ridge shrinks the coefficients of noisy samples by up to 1 %: too much for the few samples of these checks if the
# fit ends at the noise, which depends on the rounding of the BLAS. The next test checks the same more closely.
SHRUNK = dict.fromkeys(("check_transformer_general", "check_transformer_data_not_an_array"), "the ridge shrinks them")


@parametrize_with_checks(
    [RobustPCA(), RobustPCA(2, **OPTIONS)], expected_failed_checks=lambda model: SHRUNK if model.rank is None else {}
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_fit_transform_agrees_with_transform():
    blobs = make_blobs(30, centers=[[0, 0, 0], [1, 1, 1]], random_state=0, cluster_std=0.1)[0]
    X = StandardScaler().fit_transform(blobs)
    model = RobustPCA(random_state=0)
    coefficients = model.fit_transform(X)
    np.testing.assert_allclose(coefficients, model.transform(X), rtol=0.01)
    np.testing.assert_array_equal(coefficients, model.fit_transform(X))


def test_unfitted_models_clones_and_notebooks():
    model = RobustPCA(2, surrogate="lp", mu_end=1e-3, quality="fast")
    assert "RobustPCA" in make_pipeline(StandardScaler(), model)._repr_html_()
    with pytest.raises(NotFittedError, match="call fit first") as caught:
        model.transform(np.ones((3, 3)))
    assert isinstance(caught.value, ParameterError)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(np.ones((3, 3))))
    assert not is_classifier(model)
    assert not is_regressor(model)
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "components_")


@needs_compiler
def test_pipeline_with_a_regression():
    X, L, _ = planted(shape=(120, 60))
    target = L @ np.random.default_rng(0).standard_normal(60)
    model = make_pipeline(StandardScaler(with_mean=False), RobustPCA(4), LinearRegression())
    assert model.fit(X[:80], target[:80]).score(X[80:], target[80:]) > 0.999
    assert model[:-1].get_feature_names_out().tolist() == [f"robustpca{i}" for i in range(4)]


def test_follows_the_configuration_of_scikit_learn():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X = np.random.default_rng(0).standard_normal((9, 4))
    model = RobustPCA(2).fit(X)
    with config_context(transform_output="pandas"):
        assert isinstance(model.transform(X), pandas.DataFrame)
        assert isinstance(clone(model).set_output(transform="default").fit_transform(X), np.ndarray)
    assert isinstance(model.transform(X), np.ndarray)
    assert isinstance(clone(model.set_output(transform="pandas")).fit_transform(X), pandas.DataFrame)
    steps = make_pipeline(StandardScaler(), RobustPCA(2))
    both = ColumnTransformer([("left", RobustPCA(1), ["a", "b"]), ("right", "passthrough", ["c"])])
    for model, names in ((steps, ["robustpca0", "robustpca1"]), (both, ["left__robustpca0", "right__c"])):
        found = model.set_output(transform="pandas").fit_transform(pandas.DataFrame(X, columns=list("abcd")))
        assert found.columns.tolist() == names
