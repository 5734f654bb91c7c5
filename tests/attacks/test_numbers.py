"""Numbers at the edge of their types: the right answer, or one line that says what is allowed."""

import warnings

import numpy as np
import pytest

from bgsub import BackgroundSubtractor, RobustPCA, SubspaceTracker, synthetic
from bgsub.errors import ParameterError

TINY, HUGE = 5e-324, 1.7976931348623157e308
EDGES = (TINY, 1e-300, 1e-60, 1e-45, 1e-38, 1e-30, 1e-15, 1e-9, 1e9, 1e15, 1e30, 1e38, 1e39, 1e60, 1e300, HUGE)
ROOT = 2.0**0.5
START = 12


@pytest.fixture(autouse=True)
def strict():
    """A warning of NumPy is a failure."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def street():
    return [frame for frame, _ in synthetic.scene("street", size=(32, 24), length=24, empty_start=0)]


def survives(attempt):
    """Return whether an attempt gives finite numbers, or one clear line."""
    try:
        results = attempt()
    except ParameterError as error:
        return len(str(error)) < 250 and "\n" not in str(error) and " must " in str(error)
    except Exception as error:
        print(type(error).__name__, str(error)[:100])
        return False
    good = all(np.isfinite(np.asarray(r, np.float64)).all() for r in results)
    if not good:
        print("not finite")
    return good


def count(attempts):
    """Return how many attempts there were, and how many of them were survived."""
    outcomes = []
    for name, attempt in attempts:
        outcomes.append(survives(attempt))
        if not outcomes[-1]:
            print("lost:", name)
    return len(outcomes), sum(outcomes)


def separated(frames, **parameters):
    """Return all that a subtractor says of frames."""
    subtractor, results = BackgroundSubtractor(start_frames=START, **parameters), []
    for frame in frames:
        s = subtractor.process(frame)
        results += [s.mask, s.background, s.residual, s.coefficients, s.probability, s.foreground]
        assert s.background.dtype == frame.dtype
    return results


def tracked(vectors, batch=False, **parameters):
    tracker = SubspaceTracker(**{"rank": 2, **parameters})
    if batch:
        tracker.fit(vectors)
    for x in vectors:
        tracker.partial_fit(x)
    U = tracker.components_
    assert np.abs(U @ U.T - np.eye(len(U))).max() < 1e-4
    return [U, tracker.coefficients_, tracker.low_rank_, tracker.objective_]


def fitted(X, **parameters):
    model = RobustPCA(2, iterations=30, **parameters).fit(X)
    return [model.components_, model.low_rank_, model.sparse_, model.transform(X), model.score(X), model.noise_scale_]


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 30))
    return X + (rng.random(X.shape) < 0.1) * rng.uniform(-5, 5, X.shape)


VIDEO = {
    "mu": EDGES, "threshold": EDGES, "noise_factor": EDGES, "min_area": EDGES, "fps": EDGES, "absorb_after": EDGES,
    "forgetting": EDGES, "scale": EDGES, "max_value": EDGES, "p": EDGES,
}  # fmt: skip


@pytest.mark.parametrize("name", VIDEO)
def test_parameters_of_the_video(name, street, score):
    more = {"surrogate": "lp"} if name == "p" else {}
    cases = [(f"{name}={v!r}", lambda v=v: separated(street, **{name: v}, **more)) for v in VIDEO[name]]
    score(f"{name} from 5e-324 to 1.8e308, video", *count(cases))


def kinds(value):
    """Return frames of every type that hold a value as far as they can."""
    return [np.full((12, 16, 3), value, dtype) for dtype in ("float16", "float32", "float64")]


FULL = {"float16": 1.0, "float32": 1.0, "float64": 1.0}


def scaled(street, dtype, exponent):
    """Return float frames whose full scale is a power of two."""
    return [np.ldexp(frame.astype(dtype) / dtype(256), exponent) for frame in street]


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (np.float64, (-990, -200, -130, -127, -64, -1, 1, 64, 126, 127, 128, 200, 990)),
        (np.float32, (-120, -64, -20, 20, 64, 120, 126, 127)),
        (np.float16, (-6, -3, 3, 15)),
    ],
)
def test_frames_in_any_unit_give_the_same_masks(dtype, exponents, street, score):
    usual = [separated(scaled(street, dtype, 0), max_value=1.0, scale=s) for s in (1.0, 0.5)]

    def in_unit(exponent):
        for expected, scale in zip(usual, (1.0, 0.5), strict=True):
            found = separated(scaled(street, dtype, exponent), max_value=2.0**exponent, scale=scale)
            for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
                in_units = i % 6 in (1, 5)  # background, foreground
                same = np.ldexp(theirs.astype(np.float64), exponent).astype(dtype) if in_units else theirs
                np.testing.assert_array_equal(mine, same)
        return found

    score(f"{dtype.__name__} frames times 2^n", *count((e, lambda e=e: in_unit(e)) for e in exponents))


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "own", [{}, {"mu": 0.1, "forgetting": 0.05}, {"mu": 0.1}, {"rank": "auto"}, {"metric": "canonical"}]
)
def test_vectors_of_any_scale(own, batch, matrix, score):
    scales = [(f"{v:g}", lambda v=v: tracked(matrix * v, batch, **own)) for v in (*EDGES[:-1], 1e290)]
    sudden = [
        (f"then {v:g}", lambda v=v: tracked(np.vstack([matrix, v * matrix, matrix]), batch, **own)) for v in EDGES[:-1]
    ]
    score(f"vectors times 1e-324 to 1e300, {own or 'default'}, batch {batch}", *count([*scales, *sudden]))


@pytest.mark.parametrize("surrogate", ["atan", "log", "lp"])
@pytest.mark.parametrize("forgetting", [0.05, "auto"])
def test_parameters_of_the_tracker(surrogate, forgetting, matrix, score):
    given = {"surrogate": surrogate, "forgetting": forgetting}
    cases = [(f"mu={v!r}", lambda v=v: tracked(matrix, mu=v, **given)) for v in EDGES]
    cases += [(f"mu={v!r} 1e12", lambda v=v: tracked(1e11 * matrix, mu=v, **given)) for v in EDGES]
    cases += [(f"mu={v!r} batch", lambda v=v: tracked(matrix, True, mu=v, **given)) for v in EDGES]
    cases += [(f"p={v!r}", lambda v=v: tracked(matrix, p=v, **given)) for v in (*EDGES, 1 - 2**-53)]
    cases += [(f"w={v!r}", lambda v=v: tracked(matrix, **{**given, "forgetting": v})) for v in (*EDGES, 1 - 2**-53)]
    cases += [(f"scale={v!r}", lambda v=v: [SubspaceTracker(2).fit(matrix, v).components_]) for v in EDGES]
    score(f"parameters of the tracker, {surrogate}, {forgetting}", *count(cases))


@pytest.mark.parametrize("quality", ["balanced", "paper"])
@pytest.mark.parametrize("surrogate", ["atan", "log", "lp"])
def test_parameters_of_robust_pca(quality, surrogate, matrix, score):
    given = {"quality": quality, "surrogate": surrogate}
    cases = []
    for dtype in (np.float32, np.float64):
        X = matrix.astype(dtype)
        cases += [(f"mu_end={v!r}", lambda X=X, v=v: fitted(X, mu_end=v, mu_start=max(v, 1.0), **given)) for v in EDGES]
        cases += [(f"mu_start={v!r}", lambda X=X, v=v: fitted(X, mu_start=v, mu_end=v, **given)) for v in EDGES]
        cases += [(f"p={v!r}", lambda X=X, v=v: fitted(X, p=v, **given)) for v in (*EDGES, 1 - 2**-53)]
        cases += [(f"tolerance={v!r}", lambda X=X, v=v: fitted(X, tolerance=v, **given)) for v in EDGES]
    score(f"parameters of robust PCA, {surrogate}, {quality}", *count(cases))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("quality", ["balanced", "paper"])
def test_samples_of_any_scale(dtype, quality, matrix, score):
    model = RobustPCA(2, quality=quality).fit(matrix.astype(dtype))

    def at(v):
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (matrix * v).astype(dtype)

    def one_more(v):
        return RobustPCA(2, quality=quality, iterations=30).fit(matrix.astype(dtype)).partial_fit(at(v))

    cases = []
    for v in (*EDGES[:-1], 1e290):
        cases += [
            (f"fit {v:g}", lambda v=v: fitted(at(v), quality=quality)),
            (f"transform {v:g}", lambda v=v: [model.transform(at(v))]),
            (f"score {v:g}", lambda v=v: [model.score(at(v))]),
            (f"partial_fit {v:g}", lambda v=v: [one_more(v).low_rank_, one_more(v).singular_values_]),
        ]
    score(f"samples times 1e-324 to 1e300, {np.dtype(dtype)}, {quality}", *count(cases))
