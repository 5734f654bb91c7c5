"""Robust PCA: reading and setting parameters, and refused parameters and samples."""

import pickle
import subprocess
import sys
from datetime import datetime

import numpy as np
import pytest
from scipy import sparse

from bgsub import RobustPCA
from bgsub.errors import DependencyError, ParameterError
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
    assert repr(RobustPCA(verbose=True, p=1)) == "RobustPCA(p=1, verbose=True)"


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
        *(({"rank": rank}, rf"rank .* >= 1 or None, got {rank}") for rank in (0, 2.0, True)),
        ({"rank": 5}, "rank must be in 1..4 for n_samples=4 and n_features=6"),
        ({"surrogate": ["log"]}, "surrogate .* lp, log, atan"),
        ({"p": "half"}, r"p .*\[0.001, 0.999\], got 'half'"),
        ({"quality": "good"}, "quality .* paper, fast, balanced, best"),
        ({"mu_start": "1"}, "mu_start .* > 0 or None, got '1'"),
        ({"mu_end": np.nan}, "mu_end .* > 0 or None, got nan"),
        ({"mu_start": 0.1, "mu_end": 0.2}, "mu_end .* mu_start = 0.1, got 0.2"),
        ({"quality": "paper", "surrogate": "lp", "mu_start": 1e-5}, "mu_end .* mu_start = 1e-05, got 0.0001"),
        ({"verbose": -1}, "verbose .* >= 0"),
        ({"tolerance": -1.0}, r"tolerance .*\[0, 1\]"),
        ({"center": "median"}, "center .* true or false"),
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
    for method in (model.fit, model.fit_transform, model.score):
        with pytest.raises(ParameterError, match=r"mask .* by name, fit\(X, observed=mask\)"):
            method(X, mask)
    for method in (model.transform, model.score):
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
    for use in (model.transform, model.score, RobustPCA(2).fit):
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


NAMES = list("abcdef")
PROGRAM = """
import sys, numpy as np, bgsub
X = np.random.default_rng(0).standard_normal((9, 6))
model = bgsub.RobustPCA(2, iterations=2).set_output(transform="default").fit(X)
model.score(X)
model.inverse_transform(model.transform(X))
model.get_feature_names_out(), repr(model)
assert not {'sklearn', 'pandas', 'polars'} & set(sys.modules), sys.modules
"""


@pytest.fixture(scope="module")
def X():
    return np.outer(np.arange(1, 10.0), np.arange(1, 7.0)) + 0.1 * np.random.default_rng(0).standard_normal((9, 6))


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


def frame(library, values, names=NAMES):
    if library.__name__ == "polars":
        return library.DataFrame(values, schema=names, orient="row")
    return library.DataFrame(values, columns=names)


@pytest.mark.extras
def test_accepts_and_returns_frames(library, X):
    data = frame(library, X)
    plain = RobustPCA(2).fit(X)
    model = RobustPCA(2).set_output(transform=library.__name__)
    assert model.set_output() is model
    found = model.fit_transform(data)
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == model.get_feature_names_out().tolist() == ["robustpca0", "robustpca1"]
    assert model.feature_names_in_.tolist() == NAMES
    assert isinstance(model.coefficients_, np.ndarray)
    np.testing.assert_array_equal(np.asarray(found), plain.coefficients_)
    np.testing.assert_array_equal(np.asarray(model.transform(data)), plain.transform(X))
    np.testing.assert_array_equal(model.inverse_transform(found), plain.low_rank_)
    assert model.score(data) == plain.score(X)
    assert isinstance(pickle.loads(pickle.dumps(model)).transform(data), library.DataFrame)
    assert isinstance(model.set_output(transform="default").transform(data), np.ndarray)


@pytest.mark.extras
def test_pandas_index_is_kept_and_names_have_one_type(X):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    days = pandas.date_range("2024-03-01", periods=9)
    data = pandas.DataFrame(X, columns=NAMES, index=days)
    model = RobustPCA(2).set_output(transform="pandas")
    assert model.fit_transform(data).index.equals(days)
    assert model.transform(data[4:]).index.equals(days[4:])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert model.transform(X).index.equals(pandas.RangeIndex(9))
    model = RobustPCA(2)
    with pytest.raises(ParameterError, match="types int, str: X"):
        model.fit(pandas.DataFrame(X, columns=[*NAMES[:-1], 5]))
    assert not model.__sklearn_is_fitted__()
    assert not hasattr(model, "components_")


@pytest.mark.extras
def test_masks_types_and_missing_values_of_frames(library, X):
    gaps = np.random.default_rng(1).random(X.shape) < 0.2
    one = RobustPCA(1).fit(frame(library, X.astype(np.float32)), observed=frame(library, ~gaps))
    np.testing.assert_array_equal(one.low_rank_, RobustPCA(1).fit(X.astype(np.float32), observed=~gaps).low_rank_)
    assert one.low_rank_.dtype == np.float32
    whole = np.round(100 * X)
    rows = [[None if gap else int(x) for x, gap in zip(*pair, strict=True)] for pair in zip(whole, gaps, strict=True)]
    data = frame(library, rows)
    if library.__name__ == "pandas":
        data = data.astype("Int64")
    expected = RobustPCA(1).fit(np.where(gaps, np.nan, whole))
    np.testing.assert_array_equal(RobustPCA(1).fit(data).low_rank_, expected.low_rank_)


@pytest.mark.extras
def test_refuses_other_names_dates_and_words(library, X):
    model = RobustPCA(2).fit(frame(library, X))
    for names, message in (("abcdfe", "same order"), ("abcdeg", r"unseen.*\n- g\n.*yet now missing")):
        for use in (model.transform, model.score):
            with pytest.raises(ParameterError, match=message):
                use(frame(library, X, list(names)))
    data = library.DataFrame({"a": [datetime(2024, 3, day) for day in (1, 2, 3)], "b": [1.0, 2.0, 3.0]})
    for use in (RobustPCA(1).fit, model.inverse_transform):
        with pytest.raises(ParameterError, match=r"got (datetime|Datetime).* in column 'a'"):
            use(data)
    with pytest.raises(ParameterError, match="real array"):
        RobustPCA(2).fit(frame(library, [["x"] * 6] * 9))


@pytest.mark.extras
def test_warns_if_only_one_of_fit_and_samples_has_names(library, X):
    model = RobustPCA(2).fit(frame(library, X))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but RobustPCA was fitted with"):
        model.transform(X)
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but RobustPCA was fitted without feature names"):
        model.transform(frame(library, X))


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_refuses_unknown_and_missing_containers(name, X, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    model = RobustPCA(2).set_output(transform=name).fit(X)
    with pytest.raises(DependencyError, match=f"pip install {name}"):
        model.transform(X)
    with pytest.raises(ParameterError, match="default, pandas, polars, got 'arrow'"):
        model.set_output(transform="arrow")


@pytest.mark.slow
def test_imports_no_optional_package():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
