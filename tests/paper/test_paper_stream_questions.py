"""Experiment 6 at tiny sizes: questions, one run, the comparison, tables and figures."""

from dataclasses import asdict, replace

import grid
import numpy as np
import pytest
import stream_drift
import stream_questions
import stream_times
import streams
from paper_kit import assert_picture, call, rows_of
from stream import Stream
from stream_results import VALUES, evaluate
from stream_trackers import BEFORE_NAME, METHODS, OURS

pytestmark = pytest.mark.large  # streams of some hundred vectors


def made(**changes):
    return Stream(**{"dimension": 60, "rank": 2, "length": 400, **changes})


def asked(length=300):
    return stream_questions.questions(made(length=length), made(dimension=80, length=length))


def evaluated(method, **changes):
    stream = made(**changes)
    return evaluate({**asdict(stream), "method": method}, shown=frozenset([replace(stream, seed=0)]))


@pytest.mark.parametrize("method", [OURS, BEFORE_NAME])
def test_angle_to_a_static_subspace_falls(method):
    found = evaluated(method)
    curve = [float(value) for value in found["curve"].split()]
    assert curve[0] > 0.3
    assert found["end"] < 0.05
    assert found["end"] == pytest.approx(np.median(curve[-3:]), rel=1)
    assert (found["rank_found"], found["ranks"], found["note"]) == (2, "", "")
    assert found["seconds"] > 0


SIZES = ("--dimension", 60, "--rank", 2, "--length", 60, "--large-dimension", 80, "--large-length", 60, "--seeds", 1)
FIGURES = ("", "_speed", "_outliers", "_observed", "_noise", "_block", "_change", "_large", "_rank")


def run(folder, *arguments):
    return call(streams, *SIZES, "--out", folder, *arguments)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two questions, the rivals first."""
    folder = tmp_path_factory.mktemp("streams")
    rivals = run(folder, "--questions", "b,f", "--methods", ",".join(name for name in METHODS if name != OURS))
    assert "12 of " in rivals.output  # streams have not been run
    ours = run(folder, "--questions", "b,f", "--methods", OURS)
    assert "not been run" not in ours.output
    assert "ms per sample" in ours.output
    return folder


@pytest.mark.parametrize(("end", "code"), [(1e-9, 0), (2.0, 1)])
def test_check_fails_if_a_limit_is_missed(results, tmp_path, end, code):
    table = grid.Table(tmp_path / "streams.csv", {"experiment": "streams"}, stream_questions.KEYS, VALUES)
    table.write(row | ({"end": str(end)} if row["method"] == OURS else {}) for row in rows_of(results / "streams.csv"))
    result = run(tmp_path, "--questions", "f", "--check")
    assert (result.exit_code, "(f) complete: " in result.output) == (code, bool(code))


def test_table_of_all_cells_and_a_figure_per_question(results):
    assert run(results, "--methods", OURS).exit_code == 0
    table = (results / "streams_table.md").read_text().splitlines()
    assert len(table) == 2 + sum(len(question.cells) for question in asked().values())
    assert len({row.count("|") for row in table}) == 1
    for name in FIGURES:
        assert_picture(results / f"streams{name}.png")


def test_times_and_drift(tmp_path):
    sizes = ("--dimension", 40, "--ranks", 2, "--ranks", 3, "--rounds", 2, "--each", 2)
    assert call(stream_times, *sizes, "--methods", "bgsub,GRASTA", "--out", tmp_path).exit_code == 0
    rows = rows_of(tmp_path / "streams_times.csv")
    assert [row["method"] for row in rows] == ["bgsub", "GRASTA"] * 4
    assert all(float(row["lowest_ms"]) <= float(row["ms"]) <= float(row["highest_ms"]) for row in rows)
    assert {row["ratio"] for row in rows if row["method"] == "bgsub"} == {"1"}
    assert call(stream_drift, "--updates", 1000, "--out", tmp_path).exit_code == 0
    rows = rows_of(tmp_path / "streams_drift.csv")
    assert [row["updates"] for row in rows] == [str(100 * i) for i in range(1, 11)] * 2
    assert max(float(row["orthonormality_error"]) for row in rows) < 1e-5
    assert float(rows[9]["angle"]) < 0.05 < float(rows[0]["angle"])
