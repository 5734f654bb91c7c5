"""``bgsub evaluate``: scores on sequences in the layout of changedetection.net."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.logs import progress_option
from bgsub.cli.model_options import check_file
from bgsub.cli.options import MethodCommand, given, make_subtractor, names_from
from bgsub.cli.progress import progress_bar
from bgsub.errors import BgsubError

if TYPE_CHECKING:
    from bgsub.evaluation.methods import Method
    from bgsub.evaluation.run import Score
    from bgsub.evaluation.sheet import Sheet

# Written out here because importing them from where they live would import NumPy and OpenCV.
OPENCV_METHODS = ("mog2", "knn", "cnt", "gmg", "gsoc", "lsbp", "mog")


def _file_option(flag: str, name: str, text: str) -> Any:
    return click.option(flag, name, type=click.Path(path_type=Path), callback=check_file, metavar="FILE", help=text)


@click.command(cls=MethodCommand, short_help="Score the masks on sequences with known ones.")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--against",
    "peers",
    default="",
    callback=names_from(OPENCV_METHODS, optional=True),
    metavar="METHOD,...",
    help=f"OpenCV's subtractors to run on the same frames: {', '.join(OPENCV_METHODS)}. Those after knn need "
    "opencv-contrib-python.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Score the masks CATEGORY/VIDEO/bin000123.png in this folder instead of running the method; for one "
    "sequence, the folder may hold the masks themselves.",
)
@click.option(
    "--masks",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the masks of all frames as CATEGORY/VIDEO/bin000123.png; with --against, in one folder for "
    "each method.",
)
@_file_option("--json", "json_file", "Write counts, metrics, averages, versions and parameters.")
@_file_option("--csv", "csv_file", "Write a line for each video, category and overall.")
@_file_option("--sheet", "sheet_file", "Show the worst frames with their errors in colour, as .html or .png.")
@click.option(
    "--worst",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    metavar="N",
    help="Frames of each sequence on the sheet: those with the most wrong pixels, not too close together.",
)
@progress_option
def evaluate(
    directories: tuple[Path, ...],
    peers: list[str],
    results: Path | None,
    masks: Path | None,
    json_file: Path | None,
    csv_file: Path | None,
    sheet_file: Path | None,
    worst: int,
    **options: Any,
) -> None:
    """Run the method on sequences with known masks and score its own.

    DIR is a sequence, or a folder in which sequences are found at any depth: a category, or the whole tree of
    changedetection.net. A sequence holds input/in000123.jpg, groundtruth/gt000123.png and, if wanted,
    temporalROI.txt and ROI.bmp; its category is the folder that holds it. All frames are fed in order, those
    with a mask inside the temporal region are scored: recall, specificity, rates of false positives and
    negatives, percentage of wrong classifications, precision and F; with the median time of a frame in
    milliseconds.

    Of several sequences the averages follow: a category is the mean of its videos, overall the mean of the
    categories. A metric that a video does not define is left out of the mean, and a line below the table says
    so; the JSON file has null there, the CSV file an empty cell.
    """
    from bgsub.evaluation.batch import compare, compare_results  # noqa: PLC0415
    from bgsub.evaluation.tree import find_sequences  # noqa: PLC0415

    if results is not None and (peers or masks or given(options)):
        raise click.UsageError("--results scores masks as they are, without --against, --masks and method parameters")
    if results is None:
        makers, parameters = _methods(peers, options)
    else:
        makers, parameters = {}, {results.resolve().name: {"results": str(results)}}
    sheet = _sheet(sheet_file)
    sequences = find_sequences(directories)
    if sheet is not None:
        sheet.check(len(sequences) * len(parameters) * worst)
    scores = _collect(
        compare(sequences, makers, masks=masks, sheet=sheet, worst=worst, progress=progress_bar)
        if results is None
        else compare_results(sequences, results, sheet=sheet, worst=worst, progress=progress_bar)
    )
    _write(scores, parameters, json_file, csv_file, sheet)


def _methods(
    peers: list[str], options: dict[str, Any]
) -> tuple[dict[str, Callable[[], Method]], dict[str, dict[str, Any]]]:
    """Return what makes each method, and its parameters; what cannot be made shows now, not after hours."""
    from bgsub.evaluation.methods import make_method  # noqa: PLC0415

    makers: dict[str, Callable[[], Method]] = {"bgsub": partial(make_subtractor, options)}
    parameters = {"bgsub": make_subtractor(options).get_params()}
    for name in peers:
        make_method(name)
        makers[name], parameters[name] = partial(make_method, name), {}
    return makers, parameters


def _sheet(path: Path | None) -> Sheet | None:
    from bgsub.evaluation.sheet import Sheet  # noqa: PLC0415

    return None if path is None else Sheet(path)


def _collect(runs: Iterable[Score]) -> list[Score]:
    """Return all scores; when a run fails or is stopped, the table of those before it is printed."""
    scores: list[Score] = []
    try:
        for score in runs:
            scores.append(score)
    except (BgsubError, KeyboardInterrupt):
        _print(scores)
        raise
    return scores


def _write(
    scores: list[Score],
    parameters: dict[str, dict[str, Any]],
    json_file: Path | None,
    csv_file: Path | None,
    sheet: Sheet | None,
) -> None:
    from bgsub.evaluation.output import write_csv, write_json  # noqa: PLC0415

    _print(scores)  # first, so that a full disk costs the files only
    if json_file is not None:
        write_json(json_file, scores, parameters)
    if csv_file is not None:
        write_csv(csv_file, scores)
    if sheet is not None:
        sheet.write()


def _print(scores: list[Score]) -> None:
    from bgsub.evaluation.summary import format_table, summarize  # noqa: PLC0415

    if scores:
        click.echo(format_table(scores, summarize(scores)))
