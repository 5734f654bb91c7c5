"""Numbers at the limits of their types, and frames of noise, black and white: finite results, or a one-line error."""

import warnings

import numpy as np
import pytest
import soak
from scoring import scored

from bgsub import BackgroundSubtractor, RobustPCA, SubspaceTracker, synthetic
from bgsub.errors import BgsubError, ParameterError

TINY, HUGE = 5e-324, 1.7976931348623157e308
EDGES = (TINY, 1e-300, 1e-60, 1e-45, 1e-38, 1e-30, 1e-15, 1e-9, 1e9, 1e15, 1e30, 1e38, 1e39, 1e60, 1e300, HUGE)
SHARES = (*EDGES, 1 - 2**-53)
SCALES = (*EDGES[:-1], 1e290)


@pytest.fixture(autouse=True)
def strict():
    """Turn warnings of NumPy into failures."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def street():
    return [frame for frame, _ in synthetic.scene("street", size=(32, 24), length=24, empty_start=0)]


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 30))
    return X + (rng.random(X.shape) < 0.1) * rng.uniform(-5, 5, X.shape)


def problem_of(attempt):
    """Return what is wrong if an attempt gives neither finite numbers nor a one-line ParameterError."""
    try:
        results = attempt()
    except ParameterError as error:
        return "" if len(str(error)) < 250 and "\n" not in str(error) else f"long message: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if all(np.isfinite(np.asarray(result, np.float64)).all() for result in results) else "not finite"


@pytest.fixture
def judge(tries, score):
    """Score a function for many values, a list of (name, function, value); without --long, for every fourth."""

    def count(attack, cases):
        chosen = list(cases)[:: tries(4, 1)]
        problems = [(name, value, problem_of(lambda f=function, v=value: f(v))) for name, function, value in chosen]
        score(attack, [((name, str(value)[:80], problem), not problem) for name, value, problem in problems])

    return count


def over(name, function, values):
    return [(name, function, value) for value in values]


def separated(frames, **parameters):
    """Return all results of a subtractor, whose state can be restored."""
    subtractor, results = BackgroundSubtractor(start_frames=12, **parameters), []
    for frame in frames:
        s = subtractor.process(frame)
        results += [s.mask, s.background, s.residual, s.coefficients, s.probability, s.foreground]
        assert s.background.dtype == s.frame.dtype
    BackgroundSubtractor.from_snapshot(*subtractor.snapshot())
    return results


def results_of(tracker):
    return [tracker.components_, tracker.coefficients_, tracker.low_rank_, tracker.objective_]


def tracked(vectors, batch=False, **parameters):
    """Return the results of a tracker, whose restored components are orthonormal."""
    tracker = SubspaceTracker(**{"rank": 2, **parameters})
    if batch:
        tracker.fit(vectors)
    for x in vectors:
        tracker.partial_fit(x)
    U = SubspaceTracker(**{"rank": 2, **parameters}).set_state(tracker.state()).components_
    assert np.abs(U @ U.T - np.eye(len(U))).max() < 1e-4
    return results_of(tracker)


def tracked_after_others(X):
    """Return the results of a tracker for other vectors between usual ones."""
    rng = np.random.default_rng(0)
    tracker = SubspaceTracker(2).fit(rng.random((20, 30)))
    for x in [*samples_of(X), *rng.random((20, 30))]:
        tracker.partial_fit(x)
    return results_of(tracker)


def samples_of(X):
    return X if isinstance(X, np.ndarray) and X.ndim else [X]


def fitted(X, **parameters):
    model = RobustPCA(2, iterations=30, **parameters).fit(X)
    return [model.components_, model.low_rank_, model.sparse_, model.transform(X), model.score(X), model.noise_scale_]


def new_samples(X):
    model = RobustPCA(2, iterations=30).fit(np.random.default_rng(0).random((40, 30)))
    return [model.transform(X), model.score(X)]


USES = {
    "vectors one by one": lambda X: tracked(samples_of(X)),
    "vectors after others": tracked_after_others,
    "vectors, fixed": lambda X: tracked(samples_of(X), mu=0.1, forgetting=0.05),
    "a batch and its vectors": lambda X: tracked(X, batch=True),
    "a batch, rank auto": lambda X: tracked(X, batch=True, rank="auto"),
    "robust PCA": fitted,
    "robust PCA of the paper": lambda X: fitted(X, quality="paper"),
    "samples of robust PCA": new_samples,
    "frames": lambda X: separated([X] * 15) + separated([X * X.dtype.type(0)] * 15 + [X] * 5),
}


@pytest.mark.parametrize(
    "names", ["mu threshold noise_factor", "min_area fps absorb_after", "forgetting scale max_value p"]
)
def test_parameters_of_the_subtractor(names, street, judge):
    cases = []
    for name in names.split():
        more = {"surrogate": "lp"} if name == "p" else {}
        cases += over(name, lambda v, name=name, more=more: separated(street, **{name: v}, **more), EDGES)
    judge(f"parameters of a subtractor: {names}", cases)


@pytest.mark.parametrize(
    ("surrogate", "forgetting"), [("atan", 0.05), ("atan", "auto"), ("log", "auto"), ("lp", "auto")]
)
def test_parameters_of_the_tracker(surrogate, forgetting, matrix, judge):
    given = {"surrogate": surrogate, "forgetting": forgetting}
    cases = over("mu", lambda v: tracked(matrix, mu=v, **given), EDGES)
    cases += over("mu 1e12", lambda v: tracked(1e11 * matrix, mu=v, **given), EDGES)
    cases += over("mu batch", lambda v: tracked(matrix, True, mu=v, **given), EDGES)
    cases += over("p", lambda v: tracked(matrix, p=v, **given), SHARES)
    cases += over("forgetting", lambda v: tracked(matrix, **{**given, "forgetting": v}), SHARES)
    cases += over("scale", lambda v: [SubspaceTracker(2).fit(matrix, v).components_], EDGES)
    judge(f"parameters of the tracker, {surrogate}, {forgetting}", cases)


@pytest.mark.parametrize("quality", ["balanced", "paper"])
@pytest.mark.parametrize("surrogate", ["atan", "log", "lp"])
def test_parameters_of_robust_pca(quality, surrogate, matrix, judge):
    given, cases = {"quality": quality, "surrogate": surrogate}, []
    for dtype in (np.float32, np.float64):
        X = matrix.astype(dtype)
        cases += over("mu_end", lambda v, X=X: fitted(X, mu_end=v, mu_start=max(v, 1.0), **given), EDGES)
        cases += over("mu_start", lambda v, X=X: fitted(X, mu_start=v, mu_end=v, **given), EDGES)
        cases += over("p", lambda v, X=X: fitted(X, p=v, **given), SHARES)
        cases += over("tolerance", lambda v, X=X: fitted(X, tolerance=v, **given), EDGES)
    judge(f"parameters of robust PCA, {surrogate}, {quality}", cases)


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (np.float64, (-990, -200, -130, -127, -64, -1, 1, 64, 126, 127, 128, 200, 990)),
        (np.float32, (-120, -64, -20, 20, 64, 120, 126, 127)),
        (np.float16, (-6, -3, 3, 15)),
    ],
)
def test_frames_in_any_unit_give_the_same_masks(dtype, exponents, street, judge):
    def in_unit(exponent, scale):
        frames = [np.ldexp(frame.astype(dtype) / dtype(256), exponent) for frame in street]
        return separated(frames, max_value=2.0**exponent, scale=scale)

    usual = {scale: in_unit(0, scale) for scale in (1.0, 0.5)}

    def compared(exponent):
        for scale, expected in usual.items():
            found = in_unit(exponent, scale)
            for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
                in_units = i % 6 in (1, 5)  # background, foreground
                same = np.ldexp(theirs.astype(np.float64), exponent).astype(dtype) if in_units else theirs
                np.testing.assert_array_equal(mine, same)
        return found

    judge(f"{dtype.__name__} frames times 2^n", over("2^n", compared, exponents))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("use", [use for use in USES if use != "frames"])
def test_vectors_of_any_scale(use, dtype, matrix, judge):
    def scaled(v):
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (matrix * v).astype(dtype)

    cases = over("all", lambda v: USES[use](scaled(v)), SCALES)
    if "batch" not in use and "PCA" not in use:
        cases += over("later", lambda v: USES[use](np.vstack([scaled(1), scaled(v), scaled(1)])), EDGES[:-1])
    judge(f"{use} times 1e-324 to 1e300, {np.dtype(dtype)}", cases)


def contents():
    """Return unusual matrices, most of them (20, 30), by name."""
    rng = np.random.default_rng(1)
    usual = rng.random((20, 30))
    hot, half = usual.copy(), rng.random((20, 30)) < 0.5
    hot[7, 3] = 1e38
    info = np.iinfo(np.int64)
    return {
        "zeros": np.zeros((20, 30)),
        "all equal": np.full((20, 30), 0.7),
        "1e38 in one entry": hot,
        "1e12 and 1e-12": np.where(half, 1e12, 1e-12),
        "denormals": usual * 1e-310,
        "denormals of float32": (usual * 1e-40).astype(np.float32),
        "one column huge": usual * np.where(np.arange(30) == 5, 1e11, 1),
        "largest of int64": rng.choice([info.min, info.max, 0, -1], (20, 30)),
        "largest of uint64": np.full((20, 30), np.iinfo(np.uint64).max),
        "bool": usual < 0.5,
        "largest of float16": np.full((20, 30), np.finfo(np.float16).max),
        "largest of longdouble": np.full((20, 30), np.finfo(np.longdouble).max),
        "infinity": np.where(usual < 0.1, np.inf, usual),
        "a rank of one": np.outer(usual[:, 0], usual[0]),
        **{f"shape {X.shape}": X for X in (usual[:0], usual[:, :0], usual[:1], usual[:, :1], usual[None], usual[0])},
        **{f"type {dtype}": usual.astype(dtype) for dtype in (complex, object, str, "S4")},
        "dates": np.zeros((20, 30), "datetime64[s]"),
        "records": np.zeros((20, 30), [("a", float)]),
        "others": [np.float64(1), None, "frames", {}, [[1.0], [1.0, 2.0]]],
    }


@pytest.mark.parametrize("use", USES)
def test_unusual_data(use, judge):
    found = contents()
    cases = [*found.items(), *((type(other).__name__, other) for other in found.pop("others"))]
    judge(f"unusual data: {use}", [(name, USES[use], X) for name, X in cases])


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
    change = LAYOUTS[layout]

    def same(use):
        data = {"frames": frames, "frames of float32": reals}.get(use, matrix)
        function = separated if use.startswith("frames") else USES[use]
        found = function([change(x) for x in data] if isinstance(data, list) else change(data))
        for one, other in zip(function(data), found, strict=True):
            np.testing.assert_array_equal(one, other)
        return found

    frames = [np.ascontiguousarray(frame[..., 0]) for frame in street]
    reals = [frame / np.float32(255) for frame in frames]
    judge(f"layout: {layout}", over("use", same, [*USES, "frames of float32"]))


@scored("a model saved after any frame of a hostile stream continues")
def test_a_model_saved_after_any_hostile_frame_continues(monkeypatch, tries):
    monkeypatch.setattr(soak, "EVERY", 40)
    monkeypatch.setattr(soak, "LONGEST", 10)
    subtractor, other = (BackgroundSubtractor(start_frames=20) for _ in range(2))
    for number, frame in enumerate(soak.Street((64, 48), 60).stream(tries(300, 5000))):
        mask = subtractor.apply(frame)
        yield number, other is not None and np.array_equal(other.apply(frame), mask)
        try:
            other = BackgroundSubtractor.from_snapshot(*subtractor.snapshot())
        except BgsubError:
            other = None


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 2), (4, 1)])
def test_long_streams_of_tiny_frames(shape, tries, score):
    """Noise, black and white alternate, with and without known foreground."""

    def last(seed):
        rng = np.random.default_rng(seed)
        subtractor = BackgroundSubtractor(start_frames=12, absorb_after=1.0)
        for number in range(tries(600, 3000)):
            kinds = rng.random(shape), np.zeros(shape), np.ones(shape), rng.integers(0, 2, shape)
            known = rng.random(shape[:2]) < (number // 100 % 3) / 2
            subtractor.apply(kinds[number // 40 % 4].astype(np.float32), knownForegroundMask=known.astype(np.uint8))
        return [subtractor.getBackgroundImage()]

    problems = {seed: problem_of(lambda s=seed: last(s)) for seed in range(tries(3, 20))}
    score(f"frames of {shape}", [((shape, seed), not problem) for seed, problem in problems.items()])
