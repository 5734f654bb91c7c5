"""The scripts of the experiments at tiny sizes: tables, figures, resuming, errors, printed results."""

import re

import cells
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

FAST = "IALM,GoDec,AccAltProj"
TIMES = {"seconds": "", "cpu_seconds": ""}


def call(script, folder, *arguments):
    return paper_kit.call(script, "--out", folder, *arguments)


def read(path):
    """Return the settings and the rows of a table."""
    lines = path.read_text().splitlines()
    return dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ")), paper_kit.rows_of(path)


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
    resumed, whole = (read(path / "phase_transitions.csv")[1] for path in (tmp_path, folder))
    assert [row | TIMES for row in resumed] == [row | TIMES for row in whole]


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


@pytest.mark.large
def test_large_measures_time_error_and_memory(tmp_path):
    arguments = ("--size", 60, "--rank", 2, "--threads", 1, "--set", "iterations=20", "--float32")
    result = call(large, tmp_path, *arguments)
    assert result.exit_code == 0
    (row,) = read(tmp_path / "large.csv")[1]
    assert (row["dtype"], row["settings"], row["iterations"]) == ("float32", "iterations=20", "20")
    assert float(row["error"]) < 0.05
    assert 0 < float(row["before_mib"]) <= float(row["peak_mib"])
    assert all(text in result.output for text in row.values())


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
