"""Dense float64 twins of the one-pass engine, and random cases for both."""

import math
from collections import namedtuple

import numpy as np
from reference_tracking import F, separate

from bgsub.parameters import SubtractorParameters
from bgsub.scene.background import TrackedBackground
from bgsub.scene.engine import SweepEngine
from bgsub.scene.frame_format import FrameFormat
from bgsub.tracking import _step_kernels

LIMITS = F(0.08), F(2.5)


CompareParams = namedtuple("CompareParams", "surrogate scale channels full top threshold factor")
SweepResult = namedtuple("SweepResult", "V e picture products")  # the picture is not rounded


def numbers(m: int, block: int, period: int):
    """Return the number of the block of every entry, (m,), for blocks of `block` entries."""
    return np.arange(m) // block % period


def sweep(V, e, G, c, turn, everywhere, before, hidden, pixels, block, look: CompareParams) -> SweepResult:
    """Step the blocks of number `turn` and show the background ``V c`` there, or everywhere.

    V (m, k); e, before, pixels (m,); G (period, k); c (k,); hidden (n,); `block` in entries. The other
    blocks keep the background before.
    """
    period = len(G)
    visited = numbers(len(V), block, period) == turn
    V = V + np.outer(visited * e, G[turn])
    low_rank = V @ c
    top = look.top or np.inf
    shown = np.clip(look.full * low_rank, 0 if look.top else -np.inf, top)
    r = look.scale * pixels - low_rank
    seen = np.repeat(1.0 - (hidden != 0), look.channels)
    influence = period * visited * look.surrogate.influence(seen * r)
    cost = period * np.sum(visited * look.surrogate.value(seen * r))
    products = np.concatenate([V.T @ influence, [influence @ influence, cost]])
    picture = np.where(visited | everywhere, shown, before)
    return SweepResult(V, np.where(visited, influence, e), picture, products)


def distances(pixels, picture, look):
    """Return the joint residual of a frame and a background, (m,) both: (n,)."""
    r = look.scale * (pixels.astype(float) - picture.astype(float))
    return np.sqrt(np.sum(r.reshape(-1, look.channels) ** 2, axis=1))


def deferred_basis(V, e, G, N, block):
    """Return ``(V + D(e) G) N`` as a full matrix, (m, k); D(e) has the entries of e in the columns of their blocks."""
    D = np.zeros((len(V), len(G)))
    D[np.arange(len(V)), numbers(len(V), block, len(G))] = e
    return (V + D @ G) @ N


def step(U, e, T):
    """Return the new basis, (m, k): row i of its transpose is ``sum_j T[i, j] U'_j + T[i, k] e``."""
    return np.column_stack([U, e]) @ T.T


class Case:
    """A random model and frame of a shape, (h, w), for an engine with blocks of `block` pixels."""

    def __init__(self, shape, block, channels, dtype, k, period, seed, surrogate, everywhere, hides):
        rng = np.random.default_rng(seed)
        cube, full = (*shape, channels), 255.0 if dtype == np.uint8 else 1.0
        m = math.prod(cube)
        self.block, self.everywhere, self.k = block, everywhere, k
        V, e = rng.standard_normal((m, k)) / np.sqrt(k), 0.05 * rng.standard_normal(m)
        self.stack = np.full((k + 2, m + 5), 7, F)
        self.stack[:k, :m], self.stack[k, :m] = V.T, e
        self.G = (0.5 * rng.standard_normal((period, k))).astype(F)
        self.c = rng.standard_normal(k).astype(F)
        self.period, self.turn = period, int(rng.integers(period))
        l = np.clip(V @ self.c, -0.2, 1.2)
        x = np.clip(l + 0.02 * rng.standard_normal(m) + (rng.random(m) < 0.2) * rng.uniform(-1, 1, m), 0, 1)
        self.pixels = (full * x).astype(dtype).reshape(cube)
        self.before = (full * np.clip(l + 0.05, 0, 1)).astype(dtype).reshape(cube)
        self.hidden = (rng.random(shape) < 0.3).astype(np.uint16) if hides else None
        self.sigma = (0.05 * rng.random(shape)).astype(F)
        self.look = CompareParams(surrogate, 1 / full, channels, full, full if dtype == np.uint8 else 0.0, *LIMITS)

    def expected(self):
        m, k, stack = self.pixels.size, self.k, self.stack.astype(float)
        hidden = np.zeros(self.sigma.size) if self.hidden is None else self.hidden.ravel()
        model = stack[:k, :m].T, stack[k, :m], self.G.astype(float), self.c.astype(float), self.turn
        frame = self.everywhere, self.before.ravel().astype(float), hidden, self.pixels.ravel().astype(float)
        return sweep(*model, *frame, self.block * self.look.channels, self.look)


class SmallStep:
    """One vector at a random subspace, and the full step from there by the kernel."""

    def __init__(self, m, k, seed, surrogate, w=0.05, complete=False):
        rng = np.random.default_rng(seed)
        self.U, self.w = np.linalg.qr(rng.standard_normal((m, k)))[0], w
        Y = rng.standard_normal((3 * k, k)) * np.sqrt(m) * 0.3
        self.y, self.C = Y[0] * rng.choice([0.01, 1, 3]), Y.T @ Y / len(Y)
        self.x = self.U @ self.y + 0.02 * rng.standard_normal(m) + (rng.random(m) < 0.2) * rng.uniform(-1, 1, m)
        self.a = np.ones(m) if complete else (rng.random(m) < 0.8).astype(float)
        _, self.e, self.cost = separate(self.U, self.y, self.x, self.a, surrogate)
        self.stack = np.column_stack([self.U, self.e])
        self.y_new, self.C_new, self.out = self.y.copy(), self.C.copy(), np.zeros(2)
        a, b, work = np.zeros(k + 1), np.zeros(k), np.empty((k + 1, k))
        products, self.fading = self.stack.T @ self.e, rng.standard_normal((2, k, k))
        given = self.fading.copy()
        self.accepted = _step_kernels.full_step(
            products, self.C_new, self.y_new, w, self.cost, a, b, self.out, work, self.fading
        )
        self.T = np.eye(k, k + 1) + np.outer(b, a)
        M = self.T[:, :k]
        self.faded = np.stack([M, M + a[k] * np.outer(b, products[:k])]) @ given


def tracked(frames, rank, sigma=0.02, **parameters):
    """Return a tracked background fitted to the first half of the frames, (n, h, w, c), and an engine."""
    form = FrameFormat.of(frames[0])
    given = SubtractorParameters(rank=rank, subset=400, **parameters)
    engine = SweepEngine(form, rank, given.threads, np.full(form.shape[:2], sigma, F))
    engine.set_limits(*LIMITS)
    background = TrackedBackground(form, given, engine.block)
    X = frames[: len(frames) // 2].reshape(-1, form.size).astype(float) / form.pixels_full
    _, _, components = np.linalg.svd(X, full_matrices=False)
    known = components[:rank], X @ components[:rank].T
    background._subspace = background.tracker.initialise(*known).subspace_
    return background, engine


def planted(shape, dtype, n, seed, directions=2):
    """Return n frames of a picture in changing light, with sparse objects."""
    rng = np.random.default_rng(seed)
    picture, waves = rng.uniform(0.2, 0.8, shape), rng.normal(0, 1, (directions, *shape))
    X = picture + np.tensordot(rng.normal(0, 0.04, (n, directions)), waves, 1) + rng.normal(0, 0.01, (n, *shape))
    hit = rng.random((n, *shape[:2])) < 0.08
    X[hit] = rng.random((np.count_nonzero(hit), shape[2]))
    X = np.clip(X, 0, 1)
    return (255 * X).round().astype(np.uint8) if dtype == np.uint8 else X.astype(F)


def small_blocks(monkeypatch, period, size=4000):
    """Make the engine visit blocks of some dozen pixels, in bands, one of `period` in every frame."""
    monkeypatch.setattr("bgsub.scene.background.PERIOD", period)
    monkeypatch.setattr("bgsub.scene.engine._BLOCK_BYTES", size)
    monkeypatch.setattr("bgsub.scene.engine._WORTH_A_THREAD", 60)


def basis_of(tracker):
    """Return the basis of a tracker without changing it, (m, k)."""
    basis = tracker.subspace_.basis
    k, m, deferred = basis.k, basis.m, basis.deferred
    V, e = basis.stack[:k, :m].T.astype(float), basis.stack[k, :m].astype(float)
    return deferred_basis(V, e, deferred.G, deferred.N, deferred.block)
