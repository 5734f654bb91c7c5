"""The scripts of the experiments at tiny sizes: tables, figures, resuming, errors, printed results."""

import csv
import re
from dataclasses import asdict, replace

import cells
import cv2
import grid
import large
import lobby
import lobby_tracking
import methods
import noise
import numpy as np
import phase_transitions
import planted
import pytest
import race
import rank_bound
import stream_drift
import stream_questions
import stream_times
import streams
from click.testing import CliRunner
from stream import Stream
from stream_results import VALUES, evaluate
from stream_trackers import BEFORE_NAME, METHODS, OURS

FAST = "IALM,GoDec,AccAltProj"
TIMES = {"seconds": "", "cpu_seconds": ""}


def call(script, folder, *arguments, code=0):
    """Run a script that writes into a folder (its own one if None); check its exit code and return what it prints."""
    words = [str(word) for word in (*(["--out", folder] if folder else []), *arguments)]
    result = CliRunner().invoke(script.main, words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def rows_of(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def settings_of(path):
    lines = path.read_text().splitlines()
    return dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))


def assert_picture(path):
    """Check that a figure is readable, large enough and not empty."""
    image = cv2.imread(str(path))
    assert image is not None
    assert image.shape[0] > 300
    assert image.shape[1] > 400
    assert len(np.unique(image[::5, ::5].reshape(-1, 3), axis=0)) > 20


@pytest.fixture(scope="module")
def phases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    return folder, call(phase_transitions, folder, "--size", 24, "--steps", 3, "--methods", FAST)


def test_phase_transitions_writes_a_row_per_cell_and_a_figure(phases):
    folder, output = phases
    rows = rows_of(folder / "phase_transitions.csv")
    settings = settings_of(folder / "phase_transitions.csv")
    assert settings == {"experiment": "phase transitions", "size": "24", "steps": "3", "observed": "1"}
    assert len(rows) == 3 * 3 * 3
    axis = ("0.025", "0.2625", "0.5")
    expected = {(name, a, b) for name in FAST.split(",") for a in axis for b in axis}
    assert {(row["method"], row["outlier_share"], row["rank_share"]) for row in rows} == expected
    assert all(float(row["error"]) >= 0 and float(row["seconds"]) > 0 for row in rows)
    assert_picture(folder / "phase_transitions.png")
    assert sorted(path.name for path in folder.iterdir()) == ["phase_transitions.csv", "phase_transitions.png"]
    for name in FAST.split(","):
        count = sum(row["method"] == name and float(row["error"]) < 0.05 for row in rows)
        assert re.search(rf"^{name} +{count} of +9 ", output, re.MULTILINE)
        assert count > 0


def test_resumes_an_interrupted_run(phases, tmp_path, monkeypatch):
    folder, _ = phases
    whole = (folder / "phase_transitions.csv").read_text()
    cut = whole.splitlines(keepends=True)
    kept = 12  # rows
    (tmp_path / "phase_transitions.csv").write_text("".join(cut[: 5 + kept]) + cut[5 + kept][:9])
    computed = []
    evaluate = cells.evaluate
    monkeypatch.setattr(cells, "evaluate", lambda task, **rest: computed.append(task) or evaluate(task, **rest))
    call(phase_transitions, tmp_path, "--size", 24, "--steps", 3, "--methods", FAST)
    assert len(computed) == 27 - kept
    resumed, whole = (rows_of(path / "phase_transitions.csv") for path in (tmp_path, folder))
    assert [row | TIMES for row in resumed] == [row | TIMES for row in whole]


@pytest.mark.large
def test_rank_bound_writes_errors_of_both_parts(tmp_path):
    output = call(rank_bound, tmp_path, "--size", 30, "--points", 3, "--methods", "lp (paper schedule),GoDec")
    rows = rows_of(tmp_path / "rank_bound.csv")
    assert settings_of(tmp_path / "rank_bound.csv")["rank"] == "6"
    assert [int(row["bound"]) for row in rows if row["method"] == "GoDec"] == [4, 6, 8, 12]
    for row in rows:
        assert f"{float(row['error']):.1e}" in output
        assert f"{float(row['sparse_error']):.1e}" in output
    assert_picture(tmp_path / "rank_bound.png")


def test_noise_writes_errors_and_times(tmp_path):
    output = call(noise, tmp_path, "--size", 24, "--snr", 0, "--snr", 40, "--methods", "GoDec,IALM", "--timed", "IALM")
    errors = {(row["method"], row["snr"]): float(row["error"]) for row in rows_of(tmp_path / "noise.csv")}
    assert set(errors) == {(name, snr) for name in ("GoDec", "IALM") for snr in ("0", "40")}
    assert errors["GoDec", "40"] < errors["GoDec", "0"]
    (times,) = rows_of(tmp_path / "run_times.csv")
    assert times["method"] == "IALM"
    assert 0 < float(times["seconds"]) <= float(times["slowest"])
    assert times["seconds"] in output
    assert_picture(tmp_path / "noise.png")


@pytest.mark.large
def test_race_times_each_method_to_the_goal(tmp_path):
    call(race, tmp_path, "--size", 40, "--rank", 2, "--rounds", 3, "--rivals", "IALM,AccAltProj", "--goal", 1e-5)
    rows = rows_of(tmp_path / "race.csv")
    assert settings_of(tmp_path / "race.csv")["goal"] == "1e-05"
    ours = [row for row in rows if row["method"].startswith(race.OURS)]
    assert len(ours) == len(race.TOLERANCES) * len(race.QUALITIES)
    assert {row["method"] for row in rows} - {row["method"] for row in ours} == {"IALM", "AccAltProj"}
    for row in rows:
        reached = float(row["seconds"]) < np.inf
        assert reached == (float(row["floor"]) < 1e-5)
        assert float(row["total_seconds"]) > 0
    assert min(float(row["ratio"]) for row in ours) == 1
    assert_picture(tmp_path / "race.png")


@pytest.mark.large
def test_large_measures_time_error_and_memory(tmp_path):
    arguments = ("--size", 60, "--rank", 2, "--threads", 1, "--set", "iterations=20", "--float32")
    output = call(large, tmp_path, *arguments)
    (row,) = rows_of(tmp_path / "large.csv")
    assert (row["dtype"], row["settings"], row["iterations"]) == ("float32", "iterations=20", "20")
    assert float(row["error"]) < 0.05
    assert 0 < float(row["before_mib"]) <= float(row["peak_mib"])
    assert all(text in output for text in row.values())


@pytest.mark.large
@pytest.mark.parametrize("name", list(methods.METHODS))
def test_every_method_solves_an_easy_problem(name):
    truth = planted.planted(60, 0.03, 0.03, 0)
    method = methods.METHODS[name]
    result = method.solve(truth.problem, 0)
    assert planted.relative_error(result.low_rank, truth.L) < 0.05
    assert planted.relative_error(result.sparse, truth.S) < 0.2
    if method.masks:
        part = planted.planted(60, 0.03, 0.03, 0, observed_share=0.8)
        assert planted.relative_error(method.solve(part.problem, 0).low_rank, part.L) < 0.05


@pytest.mark.large
def test_lobby_writes_all_variants_and_mu_trades_people_against_lamps(tmp_path):
    call(lobby, tmp_path, "--size", 48, 32, "--length", 97)
    rows = rows_of(tmp_path / "lobby.csv")
    variants = 3 * 2 * 3 + 2
    assert len({(row["surrogate"], row["mu"], row["variant"]) for row in rows}) == variants
    assert len(rows) == variants * 3  # before, when and after the lamps go out
    spans = {f"{row['phase']} {row['first_frame']} {row['last_frame']}" for row in rows}
    assert spans == {"before 50 82", "within 83 83", "after 84 96"}
    for name in ("lobby_people", "lobby_lamp", "lobby_curves"):
        assert_picture(tmp_path / f"{name}.png")

    def measured(phase, name):
        """Return a number for a small and one for a large mu."""
        wanted = {"surrogate": "atan", "variant": "objective", "phase": phase}
        return [float(row[name]) for mu in ("0.01", "2") for row in rows if row.items() >= {**wanted, "mu": mu}.items()]

    f_measures, errors = measured("before", "f_measure"), measured("before", "background_error")
    assert f_measures[0] > f_measures[1]
    assert errors[0] < errors[1]
    errors, shares = measured("after", "background_error"), measured("after", "share_above")
    assert errors[1] < errors[0] / 1.5
    assert shares[1] < shares[0] / 2


@pytest.mark.large
def test_boxes_measure_the_found_share_of_each_person(tmp_path, monkeypatch):
    """Frames 5 to 26: the lamps switch at 19, a person is in frame 16."""
    frames, people, out = tmp_path / "input", tmp_path / "people.csv", tmp_path / "results"
    frames.mkdir()
    for i in range(5, 27):
        image = np.clip(np.random.default_rng(i).normal(120 if i < 19 else 60, 1, (20, 24)), 0, 255).astype(np.uint8)
        image[3:15, 4:10] = 10 if i == 16 else image[3:15, 4:10]
        assert cv2.imwrite(str(frames / f"lobby{i}.bmp"), image)
    people.write_text("frame,x0,y0,x1,y1\n16,4,3,10,15\n17,,,,\n18,0,0,2,3\n18,20,10,24,20\n")
    monkeypatch.setattr(lobby, "RESULTS", out)
    call(lobby, None, "--frames", frames, "--people", people, "--start", 8)
    rows = [row for row in rows_of(out / "lobby_real_boxes.csv") if row["variant"] == lobby_tracking.SELF_TUNED]
    found = [f"{row['frame']}: {row['box']}: {row['found']}" for row in rows]
    assert found == ["16: 4 3 10 15: 1", "17: : ", "18: 0 0 2 3: 0", "18: 20 10 24 20: 0"]
    names = {path.name for path in out.iterdir()}  # no output shows the frames
    assert names == {"lobby_real.csv", "lobby_real_boxes.csv", "lobby_real_curves.png"}
    assert_picture(out / "lobby_real_curves.png")


def made(**changes):
    return Stream(**{"dimension": 60, "rank": 2, "length": 400, **changes})


@pytest.mark.large
@pytest.mark.parametrize("method", [OURS, BEFORE_NAME])
def test_angle_to_a_static_subspace_falls(method):
    stream = made()
    found = evaluate({**asdict(stream), "method": method}, shown=frozenset([replace(stream, seed=0)]))
    curve = [float(value) for value in found["curve"].split()]
    assert curve[0] > 0.3
    assert found["end"] < 0.05
    assert found["end"] == pytest.approx(np.median(curve[-3:]), rel=1)
    assert (found["rank_found"], found["ranks"], found["note"]) == (2, "", "")
    assert found["seconds"] > 0


SIZES = ("--dimension", 60, "--rank", 2, "--length", 60, "--large-dimension", 80, "--large-length", 60, "--seeds", 1)
FIGURES = ("", "_speed", "_outliers", "_observed", "_noise", "_block", "_change", "_large", "_rank")


def run(folder, *arguments, **options):
    return call(streams, folder, *SIZES, *arguments, **options)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two questions, the rivals first."""
    folder = tmp_path_factory.mktemp("streams")
    rivals = run(folder, "--questions", "b,f", "--methods", ",".join(name for name in METHODS if name != OURS))
    assert "12 of " in rivals  # streams have not been run
    ours = run(folder, "--questions", "b,f", "--methods", OURS)
    assert "not been run" not in ours
    assert "ms per sample" in ours
    return folder


@pytest.mark.large
@pytest.mark.parametrize(("end", "code"), [(1e-9, 0), (2.0, 1)])
def test_check_fails_if_a_limit_is_missed(results, tmp_path, end, code):
    table = grid.Table(tmp_path / "streams.csv", {"experiment": "streams"}, stream_questions.KEYS, VALUES)
    table.write(row | ({"end": str(end)} if row["method"] == OURS else {}) for row in rows_of(results / "streams.csv"))
    assert ("(f) complete: " in run(tmp_path, "--questions", "f", "--check", code=code)) == bool(code)


@pytest.mark.large
def test_table_of_all_cells_and_a_figure_per_question(results):
    run(results, "--methods", OURS)
    asked = stream_questions.questions(made(length=300), made(dimension=80, length=300))
    table = (results / "streams_table.md").read_text().splitlines()
    assert len(table) == 2 + sum(len(question.cells) for question in asked.values())
    assert len({row.count("|") for row in table}) == 1
    for name in FIGURES:
        assert_picture(results / f"streams{name}.png")


@pytest.mark.large
def test_times_and_drift(tmp_path):
    sizes = ("--dimension", 40, "--ranks", 2, "--ranks", 3, "--rounds", 2, "--each", 2)
    call(stream_times, tmp_path, *sizes, "--methods", "bgsub,GRASTA")
    rows = rows_of(tmp_path / "streams_times.csv")
    assert [row["method"] for row in rows] == ["bgsub", "GRASTA"] * 4
    assert all(float(row["lowest_ms"]) <= float(row["ms"]) <= float(row["highest_ms"]) for row in rows)
    assert {row["ratio"] for row in rows if row["method"] == "bgsub"} == {"1"}
    call(stream_drift, tmp_path, "--updates", 1000)
    rows = rows_of(tmp_path / "streams_drift.csv")
    assert [row["updates"] for row in rows] == [str(100 * i) for i in range(1, 11)] * 2
    assert max(float(row["orthonormality_error"]) for row in rows) < 1e-5
    assert float(rows[9]["angle"]) < 0.05 < float(rows[0]["angle"])
