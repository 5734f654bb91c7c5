"""Numbers at the limits of their types: a finite result, or a one-line error."""

import warnings

import numpy as np
import pytest

from bgsub import BackgroundSubtractor, RobustPCA, SubspaceTracker, synthetic
from bgsub.errors import ParameterError

TINY, HUGE = 5e-324, 1.7976931348623157e308
EDGES = (TINY, 1e-300, 1e-60, 1e-45, 1e-38, 1e-30, 1e-15, 1e-9, 1e9, 1e15, 1e30, 1e38, 1e39, 1e60, 1e300, HUGE)
START = 12


@pytest.fixture(autouse=True)
def strict():
    """Turn warnings of NumPy into failures."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def street():
    return [frame for frame, _ in synthetic.scene("street", size=(32, 24), length=24, empty_start=0)]


def survives(attempt):
    """Return whether an attempt gives finite numbers, or a one-line ParameterError."""
    try:
        results = attempt()
    except ParameterError as error:
        return len(str(error)) < 250 and "\n" not in str(error)
    except Exception as error:
        print(type(error).__name__, str(error)[:100])
        return False
    good = all(np.isfinite(np.asarray(r, np.float64)).all() for r in results)
    if not good:
        print("not finite")
    return good


@pytest.fixture
def judge(tries, score):
    """Count the results of attempts, a list of names and functions; without --long, of each fourth."""

    def count(attack, attempts):
        outcomes = []
        for name, attempt in list(attempts)[:: tries(4, 1)]:
            outcomes.append(survives(attempt))
            if not outcomes[-1]:
                print("lost:", name)
        score(attack, len(outcomes), sum(outcomes))

    return count


def separated(frames, **parameters):
    """Return all results of a subtractor for frames."""
    subtractor, results = BackgroundSubtractor(start_frames=START, **parameters), []
    for frame in frames:
        s = subtractor.process(frame)
        results += [s.mask, s.background, s.residual, s.coefficients, s.probability, s.foreground]
        assert s.background.dtype == s.frame.dtype
    BackgroundSubtractor.from_snapshot(*subtractor.snapshot())  # the state can be restored
    return results


def tracked(vectors, batch=False, **parameters):
    tracker = SubspaceTracker(**{"rank": 2, **parameters})
    if batch:
        tracker.fit(vectors)
    for x in vectors:
        tracker.partial_fit(x)
    U = SubspaceTracker(**{"rank": 2, **parameters}).set_state(tracker.state()).components_
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


VIDEO = (
    "mu", "threshold", "noise_factor", "min_area", "fps", "absorb_after", "forgetting", "scale", "max_value", "p",
)  # fmt: skip


@pytest.mark.parametrize("name", VIDEO)
def test_parameters_of_the_video(name, street, judge):
    more = {"surrogate": "lp"} if name == "p" else {}
    cases = [(f"{name}={v!r}", lambda v=v: separated(street, **{name: v}, **more)) for v in EDGES]
    judge(f"{name} from 5e-324 to 1.8e308, video", cases)


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
def test_frames_in_any_unit_give_the_same_masks(dtype, exponents, street, judge):
    usual = [separated(scaled(street, dtype, 0), max_value=1.0, scale=s) for s in (1.0, 0.5)]

    def in_unit(exponent):
        for expected, scale in zip(usual, (1.0, 0.5), strict=True):
            found = separated(scaled(street, dtype, exponent), max_value=2.0**exponent, scale=scale)
            for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
                in_units = i % 6 in (1, 5)  # background, foreground
                same = np.ldexp(theirs.astype(np.float64), exponent).astype(dtype) if in_units else theirs
                np.testing.assert_array_equal(mine, same)
        return found

    judge(f"{dtype.__name__} frames times 2^n", [(e, lambda e=e: in_unit(e)) for e in exponents])


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "own", [{}, {"mu": 0.1, "forgetting": 0.05}, {"mu": 0.1}, {"rank": "auto"}, {"metric": "canonical"}]
)
def test_vectors_of_any_scale(own, batch, matrix, judge):
    scales = [(f"{v:g}", lambda v=v: tracked(matrix * v, batch, **own)) for v in (*EDGES[:-1], 1e290)]
    sudden = [
        (f"then {v:g}", lambda v=v: tracked(np.vstack([matrix, v * matrix, matrix]), batch, **own)) for v in EDGES[:-1]
    ]
    judge(f"vectors times 1e-324 to 1e300, {own or 'default'}, batch {batch}", [*scales, *sudden])


@pytest.mark.parametrize("surrogate", ["atan", "log", "lp"])
@pytest.mark.parametrize("forgetting", [0.05, "auto"])
def test_parameters_of_the_tracker(surrogate, forgetting, matrix, judge):
    given = {"surrogate": surrogate, "forgetting": forgetting}
    cases = [(f"mu={v!r}", lambda v=v: tracked(matrix, mu=v, **given)) for v in EDGES]
    cases += [(f"mu={v!r} 1e12", lambda v=v: tracked(1e11 * matrix, mu=v, **given)) for v in EDGES]
    cases += [(f"mu={v!r} batch", lambda v=v: tracked(matrix, True, mu=v, **given)) for v in EDGES]
    cases += [(f"p={v!r}", lambda v=v: tracked(matrix, p=v, **given)) for v in (*EDGES, 1 - 2**-53)]
    cases += [(f"w={v!r}", lambda v=v: tracked(matrix, **{**given, "forgetting": v})) for v in (*EDGES, 1 - 2**-53)]
    cases += [(f"scale={v!r}", lambda v=v: [SubspaceTracker(2).fit(matrix, v).components_]) for v in EDGES]
    judge(f"parameters of the tracker, {surrogate}, {forgetting}", cases)


@pytest.mark.parametrize("quality", ["balanced", "paper"])
@pytest.mark.parametrize("surrogate", ["atan", "log", "lp"])
def test_parameters_of_robust_pca(quality, surrogate, matrix, judge):
    given = {"quality": quality, "surrogate": surrogate}
    cases = []
    for dtype in (np.float32, np.float64):
        X = matrix.astype(dtype)
        cases += [(f"mu_end={v!r}", lambda X=X, v=v: fitted(X, mu_end=v, mu_start=max(v, 1.0), **given)) for v in EDGES]
        cases += [(f"mu_start={v!r}", lambda X=X, v=v: fitted(X, mu_start=v, mu_end=v, **given)) for v in EDGES]
        cases += [(f"p={v!r}", lambda X=X, v=v: fitted(X, p=v, **given)) for v in (*EDGES, 1 - 2**-53)]
        cases += [(f"tolerance={v!r}", lambda X=X, v=v: fitted(X, tolerance=v, **given)) for v in EDGES]
    judge(f"parameters of robust PCA, {surrogate}, {quality}", cases)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("quality", ["balanced", "paper"])
def test_samples_of_any_scale(dtype, quality, matrix, judge):
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
    judge(f"samples times 1e-324 to 1e300, {np.dtype(dtype)}, {quality}", cases)


def contents():
    """Return unusual matrices of (20, 30) by name."""
    rng = np.random.default_rng(1)
    usual = rng.random((20, 30))
    hot, spotted = usual.copy(), usual.copy()
    hot[7, 3], spotted[::3, ::5] = 1e38, 1e12
    info = np.iinfo(np.int64)
    return {
        "zeros": np.zeros((20, 30)),
        "minus zeros": np.full((20, 30), -0.0),
        "all equal": np.full((20, 30), 0.7),
        "one bright entry in zeros": np.eye(20, 30)[:, ::-1] * (np.arange(20) == 9)[:, None],
        "1e38 in one entry": hot,
        "1e12 in some entries": spotted,
        "1e12 and 1e-12": np.where(rng.random((20, 30)) < 0.5, 1e12, 1e-12),
        "denormals": usual * 1e-310,
        "denormals among others": np.where(rng.random((20, 30)) < 0.5, usual, 1e-310),
        "denormals of float32": (usual * 1e-40).astype(np.float32),
        "one row tiny": usual * np.where(np.arange(20) == 5, 1e-30, 1)[:, None],
        "one column huge": usual * np.where(np.arange(30) == 5, 1e11, 1),
        "largest of int64": rng.choice([info.min, info.max, 0, -1], (20, 30)),
        "largest of uint64": np.full((20, 30), np.iinfo(np.uint64).max),
        "largest of uint32": rng.choice(np.array([0, 2**32 - 1], np.uint32), (20, 30)),
        "uint16": rng.integers(0, 65536, (20, 30), np.uint16),
        "least of int8": np.full((20, 30), -128, np.int8),
        "bool": usual < 0.5,
        "float16": usual.astype(np.float16),
        "largest of float16": np.full((20, 30), np.finfo(np.float16).max),
        "longdouble": usual.astype(np.longdouble),
        "largest of longdouble": np.full((20, 30), np.finfo(np.longdouble).max),
        "infinity": np.where(usual < 0.1, np.inf, usual),
        "a rank of one": np.outer(usual[:, 0], usual[0]),
        "empty": usual[:0],
        "no columns": usual[:, :0],
        "one row": usual[:1],
        "one column": usual[:, :1],
        "three axes": usual[None],
        "one axis": usual[0],
        "a number": np.float64(1),
        "complex": usual + 0j,
        "objects": usual.astype(object),
        "words": usual.astype(str),
        "bytes": usual.astype("S4"),
        "dates": np.zeros((20, 30), "datetime64[s]"),
        "records": np.zeros((20, 30), [("a", float)]),
        "None": None,
        "a word": "frames",
        "a dictionary": {},
        "lists of different lengths": [[1.0], [1.0, 2.0]],
    }


def vectors(X):
    tracker = SubspaceTracker(2)
    for x in X if isinstance(X, np.ndarray) and X.ndim else [X]:
        tracker.partial_fit(x)
    return [tracker.components_, tracker.coefficients_, tracker.low_rank_, tracker.scale_]


def after_others(X):
    """Return the results of a tracker for other vectors between usual ones."""
    rng = np.random.default_rng(0)
    tracker = SubspaceTracker(2).fit(rng.random((20, 30)))
    others = X if isinstance(X, np.ndarray) and X.ndim else [X]
    for x in [*others, *rng.random((20, 30))]:
        tracker.partial_fit(x)
    return [tracker.components_, tracker.coefficients_, tracker.low_rank_, tracker.scale_]


def repeated(X):
    """Return the results of a subtractor for a repeated frame, alone and after others."""
    return separated([X] * 15) + separated([X * X.dtype.type(0)] * 15 + [X] * 5)


def new_samples(X):
    model = RobustPCA(2).fit(np.random.default_rng(0).random((40, 30)))
    return [model.transform(X), model.score(X), model.partial_fit(X).components_, model.sparse_]


USES = {
    "vectors one by one": vectors,
    "vectors after others": after_others,
    "a batch of vectors": lambda X: [SubspaceTracker(2).fit(X).components_],
    "a batch, rank auto": lambda X: [SubspaceTracker("auto").fit(X).components_],
    "a batch, mu given": lambda X: [SubspaceTracker(2, mu=0.1).fit(X).components_],
    "robust PCA": fitted,
    "robust PCA of the paper": lambda X: fitted(X, quality="paper"),
    "samples of a fit": new_samples,
    "frames": repeated,
}


@pytest.mark.parametrize("use", USES)
def test_unusual_data(use, judge):
    cases = [(name, lambda X=X: USES[use](X)) for name, X in contents().items()]
    judge(f"unusual data: {use}", cases)


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "every other": lambda X: np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3],
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "unaligned": lambda X: np.frombuffer(b"\0" + X.tobytes(), X.dtype, offset=1).reshape(X.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_give_identical_results(layout, matrix, street, judge):
    def same(use, data):
        change = LAYOUTS[layout]
        usual, found = use(data), use([change(x) for x in data] if isinstance(data, list) else change(data))
        for one, other in zip(usual, found, strict=True):
            np.testing.assert_array_equal(one, other)
        return found

    frames = [np.ascontiguousarray(frame[..., 0]) for frame in street]
    reals = [frame / np.float32(255) for frame in frames]
    cases = [(name, lambda use=use: same(use, matrix)) for name, use in USES.items() if name != "frames"]
    cases += [("frames", lambda: same(separated, frames)), ("frames of float32", lambda: same(separated, reals))]
    judge(f"layout: {layout}", cases)
