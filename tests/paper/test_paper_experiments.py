"""The scripts of the experiments at tiny sizes: tables, figures, resuming, errors, printed results."""

import re

import cells
import grid
import incomplete
import large
import methods
import noise
import numpy as np
import paper_kit
import phase_transitions
import planted
import pytest
import race
import rank_bound
from paper_kit import assert_picture

from bgsub.errors import SinkError, SourceError

FAST = "IALM,GoDec,AccAltProj"


def call(script, folder, *arguments):
    return paper_kit.call(script, "--out", folder, *arguments)


def read(path):
    """Return the settings and the rows of a table."""
    lines = path.read_text().splitlines()
    return dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ")), paper_kit.rows_of(path)


def errors_of(path):
    """Return the rows of a table without times."""
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in read(path)[1]]


@pytest.fixture(scope="module")
def phases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    return folder, call(phase_transitions, folder, "--size", 24, "--steps", 3, "--methods", FAST)


def test_phase_transitions_writes_a_row_per_cell_and_a_figure(phases):
    folder, result = phases
    assert result.exit_code == 0
    settings, rows = read(folder / "phase_transitions.csv")
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
        assert re.search(rf"^{name} +{count} of +9 ", result.output, re.MULTILINE)
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
    arguments = ("--size", 24, "--steps", 3, "--methods", FAST)
    assert call(phase_transitions, tmp_path, *arguments).exit_code == 0
    assert len(computed) == 27 - kept
    resumed, whole = (errors_of(path / "phase_transitions.csv") for path in (tmp_path, folder))
    assert resumed == whole

    computed.clear()
    call(phase_transitions, tmp_path, *arguments)
    assert computed == []
    call(phase_transitions, tmp_path, *arguments, "--redo", "godec")
    assert {task["method"] for task in computed} == {"GoDec"}
    assert len(computed) == 9
    computed.clear()
    call(phase_transitions, tmp_path, *arguments, "--methods", "ialm", "--seeds", 2)
    assert {task["seed"] for task in computed} == {1}
    assert len(read(tmp_path / "phase_transitions.csv")[1]) == 27 + 9  # other rows are preserved


def test_refuses_and_preserves_a_table_of_other_settings(phases, tmp_path):
    folder, _ = phases
    table = tmp_path / "phase_transitions.csv"
    before = (folder / "phase_transitions.csv").read_bytes()
    table.write_bytes(before)
    arguments = ("--size", 20, "--steps", 3, "--methods", "GoDec")
    result = call(phase_transitions, tmp_path, *arguments)
    assert result.exit_code == 1
    assert re.fullmatch(r".*size 24.*size 20.*\n|.*size 20.*size 24.*\n", result.output)
    assert table.read_bytes() == before
    assert call(phase_transitions, tmp_path, *arguments, "--fresh").exit_code == 0
    assert len(read(table)[1]) == 9


def test_refuses_unknown_methods_and_methods_without_mask(tmp_path):
    result = call(phase_transitions, tmp_path, "--methods", "IALM,SVD")
    assert result.exit_code == 2
    assert "'SVD'" in result.output
    result = call(incomplete, tmp_path, "--methods", "IALM")
    assert result.exit_code == 1
    assert "missing entries" in result.output
    assert list(tmp_path.iterdir()) == []
    result = call(large, tmp_path, "--set", "colour=red")
    assert result.exit_code == 1
    assert "'colour=red'" in result.output


@pytest.mark.large
def test_incomplete_writes_a_table_per_share(tmp_path):
    result = call(incomplete, tmp_path, "--size", 20, "--steps", 2, "--methods", "SpaRCS,lp (paper schedule)")
    assert result.exit_code == 0
    for share in (80, 50):
        settings, rows = read(tmp_path / f"incomplete_{share}.csv")
        assert settings["observed"] == str(share / 100)
        assert len(rows) == 2 * 4
    assert result.output.count(" of    4") == 4
    assert_picture(tmp_path / "incomplete.png")


@pytest.mark.large
def test_rank_bound_writes_errors_of_both_parts(tmp_path):
    result = call(rank_bound, tmp_path, "--size", 30, "--points", 3, "--methods", "lp (paper schedule),GoDec")
    assert result.exit_code == 0
    settings, rows = read(tmp_path / "rank_bound.csv")
    assert settings["rank"] == "6"
    assert [int(row["bound"]) for row in rows if row["method"] == "GoDec"] == [4, 6, 8, 12]
    for row in rows:
        assert f"{float(row['error']):.1e}" in result.output
        assert f"{float(row['sparse_error']):.1e}" in result.output
    assert_picture(tmp_path / "rank_bound.png")


def test_noise_writes_errors_and_times(tmp_path):
    result = call(noise, tmp_path, "--size", 24, "--snr", 0, "--snr", 40, "--methods", "GoDec,IALM", "--timed", "IALM")
    assert result.exit_code == 0
    _, rows = read(tmp_path / "noise.csv")
    errors = {(row["method"], row["snr"]): float(row["error"]) for row in rows}
    assert set(errors) == {(name, snr) for name in ("GoDec", "IALM") for snr in ("0", "40")}
    assert errors["GoDec", "40"] < errors["GoDec", "0"]
    _, times = read(tmp_path / "run_times.csv")
    assert [row["method"] for row in times] == ["IALM"]
    assert 0 < float(times[0]["seconds"]) <= float(times[0]["slowest"])
    assert times[0]["seconds"] in result.output
    assert_picture(tmp_path / "noise.png")


@pytest.mark.large
def test_race_times_each_method_to_the_goal(tmp_path):
    arguments = ("--size", 40, "--rank", 2, "--rounds", 3, "--rivals", "IALM,AccAltProj")
    result = call(race, tmp_path, *arguments, "--goal", 1e-5)
    assert result.exit_code == 0
    settings, rows = read(tmp_path / "race.csv")
    assert settings["goal"] == "1e-05"
    ours = [row for row in rows if row["method"].startswith(race.OURS)]
    assert len(ours) == len(race.TOLERANCES) * len(race.QUALITIES)
    assert {row["method"] for row in rows} - {row["method"] for row in ours} == {"IALM", "AccAltProj"}
    for row in rows:
        reached = float(row["seconds"]) < np.inf
        assert reached == (float(row["floor"]) < 1e-5)
        assert float(row["total_seconds"]) > 0
    assert min(float(row["ratio"]) for row in ours) == 1
    assert_picture(tmp_path / "race.png")


def test_time_to_the_goal_of_a_curve():
    curve = race.Curve()
    curve.add([1.0, 2.0, 3.0], [1.0, 1e-3, 1e-7])
    curve.add([1.0, 4.0], [1e-2, 1e-4])
    curve.add([1.0, 5.0], [1e-2, 1e-3])
    assert curve.until(5e-3) == 4.0
    assert curve.until(1e-6) == np.inf
    assert curve.floor == 1e-4


@pytest.mark.large
def test_large_measures_time_error_and_memory(tmp_path):
    settings = {"experiment": "large matrix", "outliers": large.OUTLIERS}
    table = grid.Table(tmp_path / "large.csv", settings, large.KEYS, large.VALUES)
    earlier = dict.fromkeys(table.columns, "1")
    table.write([earlier])
    arguments = ("--size", 60, "--rank", 2, "--threads", 1, "--set", "iterations=20", "--float32")
    result = call(large, tmp_path, *arguments)
    assert result.exit_code == 0
    rows = read(table.path)[1]
    assert rows[0] == earlier
    (row,) = rows[1:]
    assert (row["dtype"], row["settings"], row["iterations"]) == ("float32", "iterations=20", "20")
    assert float(row["error"]) < 0.05
    assert 0 < float(row["before_mib"]) <= float(row["peak_mib"])
    assert all(text in result.output for text in row.values())


def test_planted_problem_with_missing_entries():
    truth = planted.planted(40, 0.1, 0.2, 3, observed_share=0.5)
    X, observed, rank, cardinality = truth.problem
    assert observed.mean() == 0.5
    assert not X[~observed].any()
    assert np.array_equal(X[observed], (truth.L + truth.S)[observed])
    assert rank == 4
    assert cardinality == np.count_nonzero(truth.S * observed)
    assert planted.planted(40, 0.1, 0.2, 3).problem.observed is None


def test_noise_ratio_and_errors_that_are_not_finite():
    noisy, clean = (planted.planted(40, 0.1, 0.2, 3, snr_db=decibels) for decibels in (20.0, np.inf))
    assert np.array_equal(noisy.L, clean.L)
    noise = np.linalg.norm(noisy.problem.X - clean.problem.X)
    assert 20 * np.log10(np.linalg.norm(clean.L) / noise) == pytest.approx(20.0)
    assert planted.relative_error(np.full((2, 2), np.nan), np.eye(2)) == np.inf
    assert planted.relative_error(2 * np.eye(2), np.eye(2)) == 1


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


def test_counts_a_method_that_raises_as_a_failure(tmp_path, monkeypatch):
    def diverge(problem, seed):
        raise np.linalg.LinAlgError("SVD did not converge")

    broken = methods.Method(diverge, True, "nothing")
    monkeypatch.setitem(methods.METHODS, "GoDec", broken)
    monkeypatch.setattr("timing.first_call", lambda name: 0.0)
    result = call(phase_transitions, tmp_path, "--size", 20, "--steps", 2, "--methods", "GoDec")
    assert result.exit_code == 0
    assert re.search(r"^GoDec +0 of +4", result.output, re.MULTILINE)
    assert "GoDec raised in 4 cells: LinAlgError: SVD did not converge" in result.output
    assert {row["error"] for row in read(tmp_path / "phase_transitions.csv")[1]} == {"inf"}


def test_refuses_other_columns_and_a_file_as_folder(tmp_path):
    table = grid.Table(tmp_path / "a.csv", {"size": 3}, ("method",), ("error",))
    table.write([{"method": "x", "error": "1"}])
    assert table.read() == {("x",): {"method": "x", "error": "1"}}
    with pytest.raises(SourceError, match="has the columns method,error, wanted method,seconds"):
        grid.Table(table.path, {"size": 3}, ("method",), ("seconds",)).read()
    with pytest.raises(SinkError, match="cannot be made"):
        grid.make_folder(table.path / "below")
