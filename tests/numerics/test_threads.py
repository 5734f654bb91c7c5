"""The thread pool: each band runs once, threads are returned, and there are never more helpers than cores."""

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from cli_inputs import make_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_info, threadpool_limits

from bgsub import BackgroundSubtractor
from bgsub.numerics import compilation, threads
from bgsub.numerics.threads import blas_lock, copied, in_bands, one_blas_thread, overwriting

CORES = 4
needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork")


@pytest.fixture
def pool(monkeypatch):
    """Return a new pool, for four cores."""
    monkeypatch.setattr(threads, "cores", lambda: CORES)
    pool = threads._Pool()
    monkeypatch.setattr(threads, "_pool", pool)
    yield pool
    assert pool.idle._value == CORES - 1
    pool.executor.shutdown()


def calls(length, threads, grain=1):
    """Return the (begin, end, band) with which `in_bands` calls its function, by band."""
    seen = []
    in_bands(lambda *band: seen.append(band), length, threads, grain)
    return sorted(seen, key=lambda band: band[2])


@pytest.mark.usefixtures("pool")
def test_bands_cover_the_range_once():
    @given(length=st.integers(1, 500), threads=st.integers(1, 9), grain=st.integers(1, 64))
    @settings(max_examples=60)
    def check(length, threads, grain):
        found = calls(length, threads, grain)
        assert [band for _, _, band in found] == list(range(len(found)))
        assert len(found) == min(threads, CORES, -(-length // grain))
        begins, ends = [begin for begin, _, _ in found], [end for _, end, _ in found]
        assert begins == [0, *ends[:-1]]
        assert ends[-1] == length
        assert all(begin % grain == 0 and begin < end for begin, end, _ in found)

    check()


def test_one_thread_uses_no_pool_and_the_caller_runs_the_first_band(pool):
    assert calls(1000, 1) == [(0, 1000, 0)]
    assert not pool.executor._threads
    names = {}
    in_bands(lambda begin, end, band: names.update({band: threading.current_thread()}), 10, 3)
    assert names[0] is threading.current_thread()
    assert all(names[band].name.startswith("kernel-pool") for band in (1, 2))


@pytest.mark.parametrize("failing", [{0}, {3}, {0, 2}, {0, 1, 2, 3}])
def test_an_exception_reaches_the_caller_after_all_bands_end(pool, failing):
    ended = []

    def work(begin, end, band):
        if band in failing:
            raise ZeroDivisionError(band)
        time.sleep(0.01)
        ended.append(band)

    with pytest.raises(ZeroDivisionError, match=str(min(failing))):
        in_bands(work, 100, 4)
    assert set(ended) == set(range(4)) - failing
    assert pool.idle._value == CORES - 1
    assert len(calls(100, 4)) == 4


def test_simultaneous_callers_share_the_helpers(pool):
    """No caller waits for another, and together they use all helpers."""
    callers = 6
    together = threading.Barrier(callers)

    def call(_):
        bands = []

        def work(begin, end, band):
            bands.append((begin, end))
            if band == 0:
                together.wait(timeout=10)

        in_bands(work, 120, 3)
        return sorted(bands)

    with ThreadPoolExecutor(callers) as executor:
        results = list(executor.map(call, range(callers)))
    for bands in results:
        assert [begin for begin, _ in bands] == [0, *(end for _, end in bands[:-1])]
        assert bands[-1][1] == 120
    assert sum(len(bands) - 1 for bands in results) == CORES - 1
    assert pool.idle._value == CORES - 1
    total = np.zeros(100, int)

    def inner(begin, end, band):
        total[begin:end] += 1

    in_bands(lambda begin, end, band: in_bands(inner, 100, 4), 4, 4)  # nested
    np.testing.assert_array_equal(total, CORES)


@needs_fork
@pytest.mark.parametrize("lock", [blas_lock, global_compiler_lock])
def test_a_forked_child_gets_the_locks(lock):
    """Another thread holds a lock at the time of the fork; the child does not count the wait of its parent."""
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.2)

    def use():
        with lock:
            pass
        with compilation.planned(1):
            time.sleep(0.01)
            sender.send(compilation.waited())

    receiver, sender = multiprocessing.Pipe(duplex=False)
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=use)
    child.start()
    thread.join()
    assert receiver.poll(20)
    assert receiver.recv() == 0
    child.join()
    with lock:
        pass


@needs_fork
def test_a_forked_child_has_its_own_threads(pool):
    expected = calls(100, 4, 5)  # the parent's threads run; the child inherits none of them
    taken = sum(pool.idle.acquire(blocking=False) for _ in range(CORES))  # nor that they are taken
    assert taken == CORES - 1
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send((calls(100, 4, 5), threads._pool.idle._value)))
    child.start()
    sender.close()
    try:
        assert receiver.poll(20)
        assert receiver.recv() == (expected, CORES - 1)
        child.join(10)
    finally:
        child.kill()
        pool.idle.release(CORES - 1)
    assert child.exitcode == 0


@pytest.mark.large
def test_simultaneous_subtractors_give_the_same_masks(pool, monkeypatch):
    for name in ("engine._WORTH_A_THREAD", "segmentation._WORK", "standing_objects._WORK"):
        monkeypatch.setattr(f"bgsub.scene.{name}", 1200)
    monkeypatch.setattr("bgsub.scene.engine._BLOCK_BYTES", 36_000)  # 500 pixels: several blocks in every band
    streams = [np.roll(make_scene(24, 60, 81), 20 * number, axis=2) for number in range(4)]
    ready = threading.Barrier(len(streams))

    def run(frames, wait=None):
        subtractor = BackgroundSubtractor(start_frames=10, subset=500, threads=3)
        if wait is not None:
            wait()
        return [(subtractor.apply(frame), subtractor.getBackgroundImage()) for frame in frames]

    alone = [run(frames) for frames in streams]
    with ThreadPoolExecutor(len(streams)) as executor:
        together = list(executor.map(lambda frames: run(frames, ready.wait), streams))
    assert all(np.count_nonzero(mask) > 50 for result in alone for mask, _ in result[12:])
    for (mask, background), (other_mask, other_background) in zip(chain(*alone), chain(*together), strict=True):
        np.testing.assert_array_equal(mask, other_mask)
        assert np.abs(background.astype(int) - other_background).max() <= 1


def blas_threads():
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas" and "opencv" not in pool["filepath"]]
    return {pool["num_threads"] for pool in pools}  # OpenCV 4.8 brings a BLAS that has but one


@pytest.fixture
def two_blas_threads():
    """Set the limit in a thread that ends; otherwise, other threads could not change it."""
    with ThreadPoolExecutor(1) as executor:
        limits = executor.submit(threadpool_limits, 2, "blas").result()
    yield
    with ThreadPoolExecutor(1) as executor:
        executor.submit(limits.restore_original_limits).result()


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_limits_do_not_overlap():
    assert blas_threads() == {2}
    seen = []

    def other():
        with one_blas_thread():
            for _ in range(20):
                seen.append(blas_threads())
                time.sleep(0.001)

    with ThreadPoolExecutor(4) as executor:
        for future in [executor.submit(other) for _ in range(4)]:
            future.result()
    assert seen == [{1}] * 80
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 400_001), (400, 300, 3), (2, 2, 700_000)])
def test_copied_returns_a_contiguous_copy(shape):
    whole = np.random.default_rng(0).integers(0, 99, (*shape[:-1], 2 * shape[-1]) if shape else ()).astype(np.int16)
    part = whole[..., ::2] if shape else whole
    copy = copied(part)
    np.testing.assert_array_equal(copy, part)
    assert copy.flags.c_contiguous
    assert not np.shares_memory(copy, part)


def test_copies_overwrite_fitting_arrays_of_an_old_state_once():
    image = np.arange(12.0).reshape(3, 4)
    old = {"part": {"alike": np.zeros((3, 4))}, "other": np.zeros((3, 4), np.float32)}
    with overwriting(old):
        copies = copied(image), copied(image)
    np.testing.assert_array_equal(copies, (image, image))
    assert copies[0] is old["part"]["alike"]
    assert not np.shares_memory(copies[1], old["other"])
    assert not any(np.shares_memory(copied(image), copy) for copy in copies)
