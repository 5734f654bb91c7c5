"""Changes of a frame, mask or vector after a call do not affect later results."""

import eventful_scene
import numpy as np
import pytest

from bgsub import BackgroundSubtractor, SubspaceTracker

START = 12
KINDS = {
    "colour": (3, np.uint8, 255),
    "grey": (1, np.uint8, 255),
    "16 bit": (3, np.uint16, 65535),
    "float": (3, np.float32, 1),
    "half": (1, np.float16, 1),
}


def seen(kind):
    channels, dtype, top = KINDS[kind]
    frames = (np.array(eventful_scene.scene(channels)) / 255 * top).astype(dtype)
    return frames[..., 0].copy() if channels == 1 else frames


def results_of(subtractor, frames, draw):
    """Return all results, by `process` and `apply` in turns, after `draw` changed the inputs."""
    results = []
    for t, frame in enumerate(frames):
        known = np.zeros(frame.shape[:2], bool)
        known[50:60, 10:30] = t % 5 == 4
        if t % 3:
            results.append(subtractor.apply(frame, knownForegroundMask=known))
        else:
            result = subtractor.process(frame, knownForegroundMask=known)
        draw(frame)
        draw(known)
        results.append(subtractor.getBackgroundImage())
        if t % 3 == 0:
            results += [result.mask, result.frame, result.background, result.residual]
            results += [result.foreground, result.probability]
    return results


def overwrite(array):
    array[...] = array[::-1, ::-1].copy()
    array[:, :8] = array[:8] = array.max()


def make(scale=1):
    return BackgroundSubtractor(scale=scale, start_frames=START, absorb_after=0.4)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        pytest.param("colour", 1, marks=pytest.mark.large),
        pytest.param("grey", 0.5, marks=pytest.mark.slow),
        pytest.param("16 bit", 1, marks=pytest.mark.slow),
        pytest.param("float", 0.5, marks=pytest.mark.slow),
        pytest.param("half", 1, marks=pytest.mark.slow),
    ],
)
def test_changed_frames_do_not_affect_results(kind, scale):
    plain = results_of(make(scale), seen(kind), lambda _array: None)
    drawn = results_of(make(scale), seen(kind), overwrite)
    assert any(np.ptp(answer) for answer in plain)
    for number, (a, b) in enumerate(zip(plain, drawn, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"result {number}")


@pytest.mark.parametrize("self_tuned", [False, True])
def test_changed_vectors_do_not_affect_the_tracker(self_tuned):
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80)) + 0.01 * rng.standard_normal((60, 80))
    observed = rng.random((60, 80)) < 0.9

    def track(write):
        given, known = vectors.copy(), observed.copy()
        tracker = SubspaceTracker("auto") if self_tuned else SubspaceTracker(2)
        batch = given[:20].copy()
        tracker.fit(batch)
        write(batch)
        found = []
        for x, seen_entries in zip(given[20:], known[20:], strict=True):
            tracker.partial_fit(x, seen_entries)
            write(x)
            write(seen_entries)
            found += [tracker.low_rank_.copy(), tracker.components_.copy(), tracker.coefficients_.copy()]
        return found

    for a, b in zip(track(lambda _x: None), track(lambda x: np.logical_not(x, out=x, casting="unsafe")), strict=True):
        np.testing.assert_array_equal(a, b)
