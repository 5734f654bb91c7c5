"""Robust PCA: reading and setting parameters, and refused parameters and samples."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from bgsub import RobustPCA
from bgsub.errors import ParameterError
from bgsub.robust_pca.parameters import default_rank


def test_get_and_set_params():
    model = RobustPCA(3, surrogate="lp")
    copy = RobustPCA(**model.get_params())
    assert copy.get_params() == model.get_params()
    assert copy.set_params(rank=2, mu_end=0.1) is copy
    assert (copy.rank, copy.mu_end, model.rank) == (2, 0.1, 3)
    with pytest.raises(ParameterError, match=r"parameter must be one of rank, .*, got 'ranks'"):
        copy.set_params(rank=5, ranks=1)
    assert copy.rank == 2
    assert repr(RobustPCA()) == "RobustPCA()"
    assert repr(RobustPCA(3, surrogate="lp", mu_end=1e-3)) == "RobustPCA(rank=3, surrogate='lp', mu_end=0.001)"
    assert repr(RobustPCA(verbose=True, forgetting=0)) == "RobustPCA(forgetting=0, verbose=True)"


def test_fitted_models_can_be_pickled():
    X = np.random.default_rng(0).standard_normal((12, 9))
    model = RobustPCA(2, random_state=np.random.default_rng(1)).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    np.testing.assert_array_equal(copy.partial_fit(X).components_, model.partial_fit(X).components_)


@pytest.mark.parametrize("dtype", [int, np.float32])
def test_hidden_entries_of_a_masked_array_are_missing(dtype):
    X = np.outer(np.arange(1, 10), np.arange(1, 7)).astype(dtype)
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    expected = RobustPCA(1).fit(X, observed=~hidden)
    masked = np.ma.masked_array(np.where(hidden, dtype(99), X), hidden)
    model = RobustPCA(1).fit(masked)
    np.testing.assert_array_equal(model.low_rank_, expected.low_rank_)
    np.testing.assert_array_equal(model.transform(masked), expected.transform(X, observed=~hidden))
    assert model.low_rank_.dtype == expected.low_rank_.dtype
    assert masked.max() == X[~hidden].max()


@pytest.mark.parametrize(("shape", "rank"), [((1, 50), 1), ((50, 11), 2), ((99, 99), 3)])
def test_default_rank(shape, rank):
    assert default_rank(shape) == rank
    X = np.random.default_rng(0).standard_normal(shape)
    assert RobustPCA(iterations=1).fit(X).components_.shape == (rank, shape[1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *(({"rank": rank}, rf"rank .* >= 1, got {rank}") for rank in (0, 2.0, True)),
        ({"rank": 5}, "rank must be in 1..4 for n_samples=4 and n_features=6"),
        ({"surrogate": ["log"]}, "surrogate .* lp, log, atan"),
        ({"p": "half"}, r"p .*\[0.001, 0.999\], got 'half'"),
        ({"quality": "good"}, "quality .* paper, fast, balanced, best"),
        ({"conjugate": "pr"}, "conjugate .* hestenes-stiefel, fletcher-reeves"),
        ({"mu_start": "1"}, "mu_start .* > 0, got '1'"),
        ({"mu_end": np.nan}, "mu_end .* > 0, got nan"),
        ({"mu_start": 0.1, "mu_end": 0.2}, "mu_end .* mu_start = 0.1, got 0.2"),
        ({"quality": "paper", "surrogate": "lp", "mu_start": 1e-5}, "mu_end .* mu_start = 1e-05, got 0.0001"),
        ({"inner_iterations": 0}, "inner_iterations .* >= 1"),
        ({"verbose": -1}, "verbose .* >= 0"),
        ({"tolerance": -1.0}, r"tolerance .*\[0, 1\)"),
        ({"forgetting": None}, r"forgetting .*\[0, 1\)"),
        ({"center": "median"}, "center .* True or False"),
        ({"callback": 3}, "callback .* callable"),
        ({"random_state": "x"}, "random_state .*Generator or None, got 'x'"),
    ],
)
def test_refuses_parameters(parameters, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(**({"rank": 2} | parameters)).fit(np.ones((4, 6)))


@pytest.mark.parametrize(
    ("X", "observed", "message"),
    [
        (np.ones(4), None, r"got shape \(4,\). Reshape your data"),
        (np.ones((0, 4)), None, r"non-empty .* \(0, 4\)"),
        (np.ones((4, 0)), None, r"0 feature\(s\) \(shape=\(4, 0\)\)"),
        (np.ones((4, 2, 2)), None, r"\(4, 2, 2\), .*: X.reshape"),
        ([["a"]], None, "real array"),
        ([[1.0], [1.0, 2.0]], None, "real array"),
        (np.ones((3, 3), complex), None, "Complex data not supported"),
        (sparse.coo_matrix(np.eye(3)), None, r"dense, got a sparse coo_matrix: X.toarray\(\)"),
        ([[1.0, np.inf]], None, "must be finite where observed"),
        ([[1.0, 2.0], [np.nan, np.nan]], None, "got none in sample 1"),
        (np.ones((2, 2)), np.ones((2, 3), bool), r"observed .* \(2, 2\), got bool with .*3\)"),
        (np.ones((2, 2)), np.ones((2, 2)), "observed must be boolean .* got float64"),
        (np.ones((2, 2)), np.eye(2, dtype=bool) & [[True], [False]], "got none in sample 1"),
    ],
)
def test_refuses_samples(X, observed, message):
    with pytest.raises(ParameterError, match=message):
        RobustPCA(1).fit(X, observed=observed)


def test_refuses_calls_that_do_not_fit_the_model():
    for method in ("transform", "inverse_transform", "score", "get_feature_names_out"):
        with pytest.raises(ParameterError, match="call fit first"):
            getattr(RobustPCA(1), method)(np.ones((2, 2)))
    X, mask = np.ones((3, 4)), np.ones((3, 4), bool)
    model = RobustPCA(1).fit(X, np.arange(3))  # targets are ignored, as in scikit-learn
    for method in (model.fit, model.partial_fit, model.fit_transform, model.score):
        with pytest.raises(ParameterError, match=r"mask .* by name, fit\(X, observed=mask\)"):
            method(X, mask)
    for method in (model.transform, model.score, model.partial_fit):
        with pytest.raises(ParameterError, match="X has 3 features, but RobustPCA is expecting 4 features as input"):
            method(np.ones((2, 3)))
    for Y in (np.ones((2, 2)), [["a"]], np.ones(2)):
        with pytest.raises(ParameterError, match=r"\(n_samples, 1\), got type"):
            model.inverse_transform(Y)
    with pytest.raises(ParameterError, match=r"Y must be dense, got a sparse csr_array: Y.toarray\(\)"):
        model.inverse_transform(sparse.csr_array(np.ones((2, 1))))


@pytest.mark.parametrize(("dtype", "scale", "end"), [("f4", 1e14, 1e-24), ("f8", 1e200, 1e-70)])
def test_refuses_samples_and_mu_outside_the_range_of_the_type(dtype, scale, end):
    X = np.random.default_rng(0).standard_normal((12, 9)).astype(dtype)
    model = RobustPCA(2).fit(X)
    with np.errstate(under="ignore"):
        tiny, huge = (X / X.dtype.type(scale)).astype(dtype), X * X.dtype.type(scale)
    assert np.abs(model.transform(tiny)).max() < 1e-10  # small samples are allowed after a fit
    refused = pytest.raises(ParameterError, match=r"scale between .* in float.*, got .*: use another unit")
    for use in (model.transform, model.score, model.partial_fit, RobustPCA(2).fit):
        with refused:
            use(huge)
    with refused:
        RobustPCA(2).fit(tiny)
    for parameters, message in (({"mu_end": end}, r"mu_end .*\[1e-.*\] .*float"), ({"mu_start": 1 / end}, "mu_start")):
        with pytest.raises(ParameterError, match=message):
            RobustPCA(2, **parameters).fit(X)


@pytest.mark.large
@pytest.mark.parametrize("shape", [(10, 20000), (20000, 10)])
def test_callback_cannot_end_a_fit_on_a_part(shape):
    X = np.outer(np.arange(1.0, shape[0] + 1), np.ones(shape[1])) / shape[0]
    halves = []
    model = RobustPCA(1, callback=lambda progress: halves.append(progress.half) is None).fit(X)
    assert halves[0] == "part"
    assert halves[-1] == "both"
    np.testing.assert_allclose(model.low_rank_, X, atol=1e-3)
