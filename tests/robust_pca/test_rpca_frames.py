"""Robust PCA and data frames: in and out, and no package imported for them where there are none."""

import pickle
import subprocess
import sys
from datetime import datetime

import numpy as np
import pytest

from bgsub import RobustPCA
from bgsub.errors import DependencyError, ParameterError

NAMES = list("abcdef")
QUIET = "import sys; assert not {'sklearn', 'pandas', 'polars'} & set(sys.modules), sys.modules"
PROGRAM = f"""
import numpy as np, bgsub
X = np.random.default_rng(0).standard_normal((9, 6))
model = bgsub.RobustPCA(2, iterations=2).set_output(transform="default").fit(X)
model.partial_fit(X).score(X)
model.inverse_transform(model.transform(X))
model.get_feature_names_out(), repr(model), model._repr_html_()
{QUIET}
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


def test_frames_go_in_and_come_out(library, X):
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


def test_the_index_of_pandas_stays(X):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    days = pandas.date_range("2024-03-01", periods=9)
    data = pandas.DataFrame(X, columns=NAMES, index=days)
    model = RobustPCA(2).set_output(transform="pandas")
    assert model.fit_transform(data).index.equals(days)
    assert model.transform(data[4:]).index.equals(days[4:])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert model.transform(X).index.equals(pandas.RangeIndex(9))


def test_a_mask_may_be_a_frame_and_types_are_kept(library, X):
    mask = np.random.default_rng(1).random(X.shape) < 0.8
    one = RobustPCA(1).fit(frame(library, X.astype(np.float32)), observed=frame(library, mask))
    np.testing.assert_array_equal(one.low_rank_, RobustPCA(1).fit(X.astype(np.float32), observed=mask).low_rank_)
    assert one.low_rank_.dtype == np.float32


def test_missing_values_of_frames_are_missing_entries(library, X):
    whole = np.round(100 * X)
    gaps = np.random.default_rng(1).random(X.shape) < 0.2
    expected = RobustPCA(1).fit(np.where(gaps, np.nan, whole)).low_rank_
    rows = [[None if gap else int(x) for x, gap in zip(*pair, strict=True)] for pair in zip(whole, gaps, strict=True)]
    data = frame(library, rows)
    if library.__name__ == "pandas":
        data = data.astype("Int64")
    np.testing.assert_array_equal(RobustPCA(1).fit(data).low_rank_, expected)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (list("abcdfe"), "Feature names must be in the same order as they were in fit"),
        (
            list("abcdeg"),
            "Feature names unseen at fit time:\n- g\nFeature names seen at fit time, yet now",
        ),
    ],
)
def test_other_names_are_refused(library, X, names, message):
    model = RobustPCA(2).fit(frame(library, X))
    for use in (model.transform, model.score, model.partial_fit):
        with pytest.raises(ParameterError, match=message):
            use(frame(library, X, names))


def test_dates_among_numbers_are_refused(library, X):
    data = library.DataFrame({"a": [datetime(2024, 3, day) for day in (1, 2, 3)], "b": [1.0, 2.0, 3.0]})
    for use in (RobustPCA(1).fit, RobustPCA(2).fit(X).inverse_transform):
        with pytest.raises(ParameterError, match=r"must be a real array, got (datetime|Datetime).* in column 'a'"):
            use(data)


def test_words_in_a_frame_are_refused(library, X):
    data = frame(library, [["x"] * 6] * 9)
    with pytest.raises(ParameterError, match="X must be a real array"):
        RobustPCA(2).fit(data)


def test_names_of_two_kinds_are_refused_before_the_fit(X):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    model = RobustPCA(2)
    with pytest.raises(ParameterError, match="must be all strings or none, got types int, str: X"):
        model.fit(pandas.DataFrame(X, columns=[*NAMES[:-1], 5]))
    assert not model.__sklearn_is_fitted__()
    assert not hasattr(model, "components_")


def test_another_container_is_refused():
    with pytest.raises(ParameterError, match="transform must be one of default, pandas, polars, got 'arrow'"):
        RobustPCA().set_output(transform="arrow")


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_package_that_is_missing_is_named(name, X, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    model = RobustPCA(2).set_output(transform=name).fit(X)
    with pytest.raises(DependencyError, match=f"{name} is not installed: pip install {name}"):
        model.transform(X)


def test_without_frames_none_of_the_packages_is_imported():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
