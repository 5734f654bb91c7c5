"""The scripts that measure speed and memory, on small frames."""

import cv2
import numpy as np
import pytest
from video_fakes import read_table

from bgsub.evaluation.speed import time_methods


@pytest.mark.slow
def test_speed_by_size_rank_and_streams(tmp_path, capsys, monkeypatch):
    scaling = pytest.importorskip("scaling", reason="the script draws with Matplotlib")
    monkeypatch.setattr(scaling, "SIZE", (160, 120))
    small = ["--sizes", "64x48,96x72", "--ranks", "1,2", "--streams", "1,2", "--frames", "61", "--seconds", "0.1"]
    scaling.main([*small, "-o", str(tmp_path / "speed")], standalone_mode=False)
    rows = read_table(tmp_path / "speed.csv")
    cells = {(r["panel"], r["method"], r["width"], r["rank"], r["streams"], r["kind"], r["threads"]) for r in rows}
    threads = {"1", str(scaling.cores())}
    for method in ("bgsub", "mog2"):
        assert {("resolution", method, w, "3", "1", "threads", n) for w in ("64", "96") for n in threads} <= cells
        assert {("rank", method, "160", k, "1", "threads", "1") for k in ("1", "2")} <= cells
        for kind in ("processes", "threads"):
            assert {("streams", method, "160", "3", n, kind, "1") for n in ("1", "2")} <= cells
    assert len(cells) == len(rows) == 4 * len(threads) + 4 + 8
    assert all(float(row["fps"]) > 0 and float(row["p99"]) >= float(row["milliseconds"]) > 0 for row in rows)
    assert cv2.imread(str(tmp_path / "speed.png")).shape[1] == 1440
    assert capsys.readouterr().out.splitlines()[-1].startswith("64 cameras of ")


@pytest.mark.parametrize(("frames", "counted"), [(61, 1), (60, 30), (80, 20)])
def test_start_frames_are_not_timed(frames, counted):
    class Nothing:
        def apply(self, image):
            return image

    pictures = [np.zeros((4, 4, 3), np.uint8)] * frames
    (timing,) = time_methods(pictures, Nothing, warm_up=60, peers=())
    assert len(timing.milliseconds) == counted
