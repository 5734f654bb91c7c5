"""Robust PCA: parameters and samples that are refused, each by its name."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from bgsub import RobustPCA
from bgsub.errors import ParameterError
from bgsub.robust_pca.parameters import default_rank


def test_parameters_can_be_read_and_set():
    model = RobustPCA(3, surrogate="lp")
    copy = RobustPCA(**model.get_params())
    assert copy.get_params() == model.get_params()
    assert copy.set_params(rank=2, mu_end=0.1) is copy
    assert (copy.rank, copy.mu_end, model.rank) == (2, 0.1, 3)
    with pytest.raises(ParameterError, match=r"parameter must be one of rank, .*, got 'ranks'"):
        copy.set_params(rank=5, ranks=1)
    assert copy.rank == 2


def test_the_representation_lists_what_is_not_default():
    assert repr(RobustPCA()) == "RobustPCA()"
    assert repr(RobustPCA(3, surrogate="lp", mu_end=1e-3)) == "RobustPCA(rank=3, surrogate='lp', mu_end=0.001)"
    assert repr(RobustPCA(verbose=True, forgetting=0)) == "RobustPCA(forgetting=0, verbose=True)"


def test_a_fitted_model_can_be_pickled():
    X = np.random.default_rng(0).standard_normal((12, 9))
    model = RobustPCA(2, random_state=np.random.default_rng(1)).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    np.testing.assert_array_equal(copy.partial_fit(X).components_, model.partial_fit(X).components_)


@pytest.mark.parametrize("dtype", [int, np.float32])
def test_what_a_masked_array_hides_is_missing(dtype):
    X = np.outer(np.arange(1, 10), np.arange(1, 7)).astype(dtype)
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    expected = RobustPCA(1).fit(X, observed=~hidden)
    masked = np.ma.masked_array(np.where(hidden, dtype(99), X), hidden)
    model = RobustPCA(1).fit(masked)
    np.testing.assert_array_equal(model.low_rank_, expected.low_rank_)
    np.testing.assert_array_equal(model.transform(masked), expected.transform(X, observed=~hidden))
    assert model.low_rank_.dtype == expected.low_rank_.dtype
    assert masked.max() == X[~hidden].max()


@pytest.mark.parametrize(("shape", "rank"), [((1, 50), 1), ((7, 50), 1), ((8, 50), 2), ((50, 11), 2), ((99, 99), 3)])
def test_the_default_rank(shape, rank):
    assert default_rank(shape) == rank
    X = np.random.default_rng(0).standard_normal(shape)
    assert RobustPCA(iterations=1).fit(X).components_.shape == (rank, shape[1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, "rank must be an integer >= 1, got 0"),
        ({"rank": 2.0}, "rank must be an integer >= 1, got 2.0"),
        ({"rank": True}, "rank must be an integer >= 1, got True"),
        ({"rank": 5}, "rank must be in 1..4 for n_samples=4 and n_features=6, got 5"),
        ({"surrogate": "l1"}, "surrogate must be one of lp, log, atan, got 'l1'"),
        ({"p": 1.5}, r"p must be in \[0.001, 0.999\], got 1.5"),
        ({"quality": "good"}, "quality must be one of paper, fast, balanced, best, got 'good'"),
        ({"surrogate": ["log"]}, r"surrogate must be one of lp, log, atan, got \['log'\]"),
        ({"conjugate": []}, r"conjugate must be one of hestenes-stiefel, fletcher-reeves, got \[\]"),
        ({"p": "half"}, r"p must be in \[0.001, 0.999\], got 'half'"),
        ({"mu_start": -1}, "mu_start must be a finite number > 0, got -1"),
        ({"mu_start": "1"}, "mu_start must be a finite number > 0, got '1'"),
        ({"mu_end": np.nan}, "mu_end must be a finite number > 0, got nan"),
        ({"callback": 3}, "callback must be callable or None, got 3"),
        ({"mu_start": 0.1, "mu_end": 0.2}, "mu_end must be <= mu_start = 0.1, got 0.2"),
        ({"quality": "paper", "surrogate": "lp", "mu_start": 1e-5}, "mu_end must be <= mu_start = 1e-05, got 0.0001"),
        ({"iterations": 0}, "iterations must be an integer >= 1, got 0"),
        ({"inner_iterations": 0}, "inner_iterations must be an integer >= 1, got 0"),
        ({"verbose": -1}, "verbose must be an integer >= 0, got -1"),
        ({"tolerance": -1.0}, r"tolerance must be in \[0, 1\), got -1.0"),
        ({"forgetting": 1}, r"forgetting must be in \[0, 1\), got 1"),
        ({"forgetting": None}, r"forgetting must be in \[0, 1\), got None"),
        ({"conjugate": "pr"}, "conjugate must be one of hestenes-stiefel, fletcher-reeves, got 'pr'"),
        ({"center": "median"}, "center must be True or False, got 'median'"),
        ({"scale": None}, "scale must be True or False, got None"),
        ({"random_state": "x"}, "random_state must be an integer >= 0, a numpy.random.Generator or None, got 'x'"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(**({"rank": 2} | parameters)).fit(np.ones((4, 6)))


@pytest.mark.parametrize(
    ("X", "observed", "message"),
    [
        (np.ones(4), None, r"got shape \(4,\). Reshape your data: one sample is X.reshape\(1, -1\)"),
        (np.ones((0, 4)), None, r"X must be a non-empty array .* got shape \(0, 4\)"),
        (np.ones((4, 0)), None, r"got 0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required"),
        (
            np.ones((4, 2, 2)),
            None,
            r"^X has shape \(4, 2, 2\), RobustPCA needs .*: X.reshape\(len\(X\), -1\), and",
        ),
        (np.ones((4, 2, 2, 3)), None, r"^X has shape \(4, 2, 2, 3\), RobustPCA needs \(n_samples, n_features\): "),
        (np.ones((4, 0, 2)), None, r"^X has shape \(4, 0, 2\), RobustPCA needs"),
        ([["a"]], None, "X must be a real array"),
        ([[1.0], [1.0, 2.0]], None, "X must be a real array"),
        (np.ones((3, 3), complex), None, "Complex data not supported: X must be a real array"),
        (
            sparse.csr_array(np.eye(3)),
            None,
            r"^X must be dense, got a sparse csr_array: X.toarray\(\) has 0 where ",
        ),
        (sparse.coo_matrix(np.eye(3)), None, r"^X must be dense, got a sparse coo_matrix: X.toarray\(\) has 0"),
        ([[1.0, np.inf]], None, "X must be finite where observed, got an infinite entry"),
        ([[1.0, 2.0], [np.nan, np.nan]], None, "each sample must have an observed entry, got none in sample 1"),
        (np.ones((2, 2)), np.ones((2, 3), bool), r"observed must be boolean with shape \(2, 2\), got bool with .*3\)"),
        (np.ones((2, 2)), np.ones((2, 2)), r"observed must be boolean with shape \(2, 2\), got float64 with"),
        (np.ones((2, 2)), np.eye(2, dtype=bool) & [[True], [False]], "got none in sample 1"),
    ],
)
def test_wrong_samples_are_named(X, observed, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(1).fit(X, observed=observed)


def test_a_mask_goes_by_name():
    X, mask = np.ones((4, 6)), np.ones((4, 6), bool)
    model = RobustPCA(1).fit(X, observed=mask)
    for method in (model.fit, model.partial_fit, model.fit_transform, model.score):
        with pytest.raises(ParameterError, match=r"y is not used: pass a mask .* by name, fit\(X, observed=mask\)"):
            method(X, mask)
    model.fit(X, np.arange(4))  # a target means nothing and is let through, as everywhere in scikit-learn


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "score", "get_feature_names_out"])
def test_a_fit_comes_first(method):
    with pytest.raises(ParameterError, match="RobustPCA must be fitted before use; call fit first"):
        getattr(RobustPCA(1), method)(np.ones((2, 2)))


def test_features_must_be_those_of_the_fit():
    model = RobustPCA(1).fit(np.ones((3, 4)))
    for method in (model.transform, model.score, model.partial_fit):
        with pytest.raises(ParameterError, match="X has 3 features, but RobustPCA is expecting 4 features as input"):
            method(np.ones((2, 3)))
    for Y, got in (
        (np.ones((2, 2)), r"float64 with shape \(2, 2\)"),
        ([["a"]], "<U1"),
        (np.ones(2), r"float64 .*\(2,\)"),
    ):
        with pytest.raises(ParameterError, match=rf"Y must be a real array of shape \(n_samples, 1\), got type {got}"):
            model.inverse_transform(Y)
    with pytest.raises(ParameterError, match=r"Y must be dense, got a sparse csr_array: Y.toarray\(\)"):
        model.inverse_transform(sparse.csr_array(np.ones((2, 1))))


class Frame:
    """The little of a data frame that is looked at."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values, float), columns

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_names_of_features():
    X = np.random.default_rng(0).standard_normal((8, 3))
    model = RobustPCA(2).fit(Frame(X, ["a", "b", "c"]))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.get_feature_names_out().tolist() == ["robustpca0", "robustpca1"]
    model.transform(Frame(X, ["a", "b", "c"]))
    for columns, message in (
        (["a", "c", "b"], "Feature names must be in the same order as they were in fit"),
        (
            ["a", "b", "d"],
            "Feature names unseen at fit time:\n- d\nFeature names seen at fit time, yet now missing:\n- c",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            model.transform(Frame(X, columns))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but RobustPCA was fitted with"):
        model.transform(X)
    model.fit(Frame(X, [0, 1, 2]))
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but RobustPCA was fitted without feature names"):
        model.transform(Frame(X, ["a", "b", "c"]))


@pytest.mark.parametrize(("dtype", "scale"), [("f4", 1e-14), ("f4", 1e14), ("f8", 1e-100), ("f8", 1e200)])
def test_samples_whose_squares_leave_their_type_are_refused(dtype, scale):
    X = (scale * np.random.default_rng(0).standard_normal((12, 9))).astype(dtype)
    with pytest.raises(ParameterError, match=r"X must have a scale between .* in float.*, got .*: use another unit"):
        RobustPCA(2).fit(X)


@pytest.mark.parametrize(("dtype", "scale", "end"), [("f4", 1e14, 1e-24), ("f8", 1e200, 1e-70)])
def test_new_samples_and_widths_beyond_their_type_are_refused(dtype, scale, end):
    X = np.random.default_rng(0).standard_normal((12, 9)).astype(dtype)
    model = RobustPCA(2).fit(X)
    with np.errstate(under="ignore"):
        tiny, huge = (X / X.dtype.type(scale)).astype(dtype), X * X.dtype.type(scale)
    assert np.abs(model.transform(tiny)).max() < 1e-10  # which a fit explains, however small they are
    for use in (model.transform, model.score, model.partial_fit):
        with pytest.raises(ParameterError, match=r"X must have a scale between .* got .*: use another unit"):
            use(huge)
    with pytest.raises(ParameterError, match=r"mu_end must be in \[1e-.*\] for samples of float.., got 1e-"):
        RobustPCA(2, mu_end=end).fit(X)
    with pytest.raises(ParameterError, match="mu_start must be in"):
        RobustPCA(2, mu_start=1 / end).fit(X)


@pytest.mark.large
@pytest.mark.parametrize("shape", [(10, 20000), (20000, 10)])
def test_callback_that_ends_the_fit_of_a_part_gets_factors_of_the_whole(shape):
    X = np.outer(np.arange(1.0, shape[0] + 1), np.ones(shape[1])) / shape[0]
    halves = []
    model = RobustPCA(1, callback=lambda progress: halves.append(progress.half) is None).fit(X)
    assert halves[0] == "part"
    assert halves[-1] == "both"
    np.testing.assert_allclose(model.low_rank_, X, atol=1e-3)
