"""Programs for a GPU, or for Numba's simulator of one: ``python cuda_programs.py twin | stream``."""

import sys

import numpy as np

from bgsub import BackgroundSubtractor
from bgsub.scene._frame_kernels import LearnParams
from bgsub.scene.cuda_engine import CudaSweepEngine
from bgsub.scene.engine import PERIOD
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking.basis import Basis, Cost
from bgsub.tracking.subspace import Sweep

F = np.float32


def twin(size, channels, dtype, rank):
    """Compare passes over random data with dense ones in float64."""
    full = 255.0 if dtype == "uint8" else 1.0
    rng, frames = np.random.default_rng(0), FrameFormat((*size, channels), dtype, full)
    m, noise, mu, (threshold, factor) = frames.size, rng.uniform(0.01, 0.05, size).astype(F), 0.04, (F(0.08), F(2.5))
    engine, basis = CudaSweepEngine(frames, rank, 1, noise), Basis(rank, m)
    engine.set_limits(threshold, factor)
    number = np.arange(m) // (engine.block * channels) % PERIOD
    V, e = rng.normal(0.9 / rank, 0.1, (rank, m)), rng.normal(0, 0.02, m)
    shown, sigma = np.zeros(m), noise.astype(float)
    basis.stack[: rank + 1, :m] = np.vstack([V, e])
    for step in range(PERIOD + 1):
        x = np.clip(rng.normal(0.5, 0.03, m) + (rng.random(m) < 0.02) * rng.uniform(-1, 1, m), 0, 1)
        x = (full * x).astype(dtype)
        hidden = rng.integers(0, 2, size, np.uint16) if step % 2 else None
        basis.deferred.G[:] = 0.3 * rng.standard_normal(basis.deferred.G.shape) if step else 0
        visit = basis.begin_visit(rng.uniform(0.4, 0.7, rank), PERIOD, engine.block * channels)
        engine.begin(x.reshape(frames.cube))
        everywhere, visited = step % 3 == 0, number == visit.turn
        result = engine.sweep(Sweep(visit, Cost((), F(mu), F(0)), None, step, basis), hidden, everywhere)
        V = V + visit.G[visit.turn].astype(float)[:, np.newaxis] * (visited * e)
        low_rank = visit.c.astype(float) @ V
        range_ = (0, 255) if dtype == "uint8" else (-np.inf, np.inf)
        shown = np.where(visited | everywhere, np.clip(full * low_rank, *range_), shown)
        unseen = np.zeros(m, bool) if hidden is None else np.repeat(hidden.reshape(-1) != 0, channels)
        t = np.arctan(np.where(visited & ~unseen, x / full - low_rank, 0) / mu)
        e = np.where(visited, PERIOD * mu * t / (1 + np.tan(t) ** 2), e)
        products = np.append(V @ (visited * e), [visited * e @ e, PERIOD * mu**2 / 2 * np.sum(t * t)])
        rounding = 1e-5 * np.abs(products).max()  # sums that nearly cancel are less exact
        np.testing.assert_allclose([*result.products, result.cost], products, rtol=1e-4, atol=rounding)
        np.testing.assert_allclose(engine.picture.reshape(-1), shown, atol=0.51 if dtype == "uint8" else 1e-5)
        d = (x.astype(float) - engine.picture.reshape(-1)).reshape(*size, channels) / full
        d = np.sqrt(np.sum(d * d, axis=2))
        limit = np.hypot(threshold, factor * sigma)
        clear = np.abs(d - limit) > 1e-5
        np.testing.assert_array_equal(engine.strong[clear], (d > threshold)[clear])
        np.testing.assert_array_equal(engine.over[clear], (d > limit)[clear])
        assert result.candidates == np.count_nonzero(engine.over) > 0
        skip, due = rng.integers(0, 2, size, np.uint8), visited[::channels].reshape(size)
        engine.learn(skip, LearnParams(F(0.1), F(0.2), F(1e-6)), (PERIOD, visit.turn))
        sigma += 0.1 * (due & (skip == 0)) * (np.minimum(d, 0.2) - sigma)
    np.testing.assert_allclose(noise, sigma, rtol=1e-4)
    np.testing.assert_allclose(basis.stack[: rank + 1, :m], np.vstack([V, e]), atol=1e-5)
    assert not basis.mirror._is_current  # the next pass takes what the CPU may have changed
    print("same", size, channels, dtype, rank)


def stream(size, count):
    """Compare masks of subtractors on both processors, with known foreground, and after a snapshot."""
    rng = np.random.default_rng(1)
    background = rng.integers(60, 190, (*size, 3))
    noise = (rng.integers(-3, 4, background.shape) for _ in range(count))
    frames = [np.clip(background + one, 0, 255).astype(np.uint8) for one in noise]
    for i, frame in enumerate(frames):
        frame[1 : 1 + size[0] // 2, i % size[1] :][:, : size[1] // 4] = 240
    usual = {"start_frames": 12, "scale": 1, "stabilise": False, "absorb_after": 0.5}
    one, other = BackgroundSubtractor(**usual), BackgroundSubtractor(device="cuda", **usual)
    found = 0
    for i, frame in enumerate(frames):
        known = rng.random(size) < 0.1 if i % 4 == 3 else None
        masks = [s.apply(frame, knownForegroundMask=known) for s in (one, other)]
        assert np.mean(masks[0] != masks[1]) < 2e-3, i
        found += np.count_nonzero(masks[0])
        if i == count - 3:
            other = BackgroundSubtractor.from_snapshot(*other.snapshot())
            assert other.get_params()["device"] == "cuda"
    assert found > 0
    assert one.phase == other.phase == "tracking"
    np.testing.assert_allclose(one.getBackgroundImage(), other.getBackgroundImage(), atol=1)
    print("same masks")


if __name__ == "__main__":
    from numba import config

    small = bool(config.ENABLE_CUDASIM)
    if sys.argv[1] == "twin":
        twin((6, 22), 3, "uint8", 3)
        twin((5, 13), 1, "float32", 2)
        if not small:
            twin((270, 481), 3, "uint8", 3)
            twin((270, 481), 1, "uint8", 5)
            twin((270, 481), 3, "float32", 3)
    else:
        stream((8, 8) if small else (120, 160), 20 if small else 200)
