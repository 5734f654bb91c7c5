"""Robust PCA and data frames of pandas and polars."""

import pickle
import subprocess
import sys
from datetime import datetime

import numpy as np
import pytest

from bgsub import RobustPCA
from bgsub.errors import DependencyError, ParameterError

NAMES = list("abcdef")
PROGRAM = """
import sys, numpy as np, bgsub
X = np.random.default_rng(0).standard_normal((9, 6))
model = bgsub.RobustPCA(2, iterations=2).set_output(transform="default").fit(X)
model.partial_fit(X).score(X)
model.inverse_transform(model.transform(X))
model.get_feature_names_out(), repr(model), model._repr_html_()
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
    assert model.partial_fit(data).n_samples_seen_ == 18
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
    np.testing.assert_array_equal(
        RobustPCA(1).fit(data).low_rank_, RobustPCA(1).fit(np.where(gaps, np.nan, whole)).low_rank_
    )


@pytest.mark.extras
def test_refuses_other_names_dates_and_words(library, X):
    model = RobustPCA(2).fit(frame(library, X))
    for names, message in (("abcdfe", "same order"), ("abcdeg", r"unseen.*\n- g\n.*yet now missing")):
        for use in (model.transform, model.score, model.partial_fit):
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
