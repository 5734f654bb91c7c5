"""Commands that measure: ``demo`` scores a synthetic scene, ``evaluate`` scores masks, ``bench`` times the method."""

import glob
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import bgsub
from bgsub import evaluation, synthetic, video
from bgsub.cli import options as opt
from bgsub.cli.help import INPUT, OUTPUT
from bgsub.cli.method_options import MethodCommand, given, make_subtractor
from bgsub.cli.pipeline import RunReporter, check_whole, run_pipeline
from bgsub.cli.reporting import Reporting, json_option, show_progress
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError, SinkError
from bgsub.evaluation.methods import OPENCV_METHODS
from bgsub.video.timecode import Timecode

_output_file = partial(opt.file_option, group=OUTPUT, callback=opt.check_file)


@click.command(
    cls=MethodCommand,
    short_help="Score the masks against ground truth.",
    common="fps against results masks sheet overwrite json threshold min-area scale shadows absorb-after",
    examples={
        "bgsub evaluate highway --against mog2,knn --online": "One sequence of changedetection.net, and OpenCV on it",
        "bgsub evaluate dataset --sheet worst.html": "All in a folder; the worst frames",
    },
)
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=opt.FOLDER)
@opt.option(
    "--against",
    "peers",
    group=INPUT,
    default="",
    callback=partial(opt.names_from, OPENCV_METHODS),
    shell_complete=partial(opt.complete_last, OPENCV_METHODS),
    metavar="METHOD,...",
    help=f"OpenCV's subtractors to run on the same frames: {', '.join(OPENCV_METHODS)}. Those after knn need "
    "opencv-contrib-python.",
)
@opt.in_folder(
    "--results",
    group=INPUT,
    help="Score the masks in this folder instead of running the method: CATEGORY/VIDEO/bin000123.png, or for one "
    "sequence bin000123.png.",
)
@opt.in_folder(
    "--masks",
    group=OUTPUT,
    help="Write the masks of all frames as CATEGORY/VIDEO/bin000123.png; with --against, a folder for each method.",
)
@_output_file("--sheet", "sheet_file", help="Show the worst frames with their errors in colour, as .html.")
@opt.count(
    "--worst",
    group=OUTPUT,
    least=1,
    most=100,
    default=8,
    help="Frames of each sequence on the sheet: those with the most wrong pixels, not too close together.",
)
@opt.overwrite_option(help="Replace files and masks that exist.")
@opt.rate_option
@opt.online_option
@json_option("Print counts, metrics, averages, versions and parameters as one JSON object, not the table.")
def evaluate(
    directories: tuple[Path, ...],
    peers: list[str],
    results: Path | None,
    masks: Path | None,
    sheet_file: Path | None,
    **options: Any,
) -> None:
    """Run the method on sequences with ground truth and score the masks.

    DIR is a sequence, or a folder in which sequences are found at any depth: a category, or the whole tree of
    changedetection.net. A sequence contains input/in000123.jpg, groundtruth/gt000123.png and, optionally,
    temporalROI.txt and ROI.bmp. Its category is the folder that contains it. All frames are processed in order; those
    with ground truth in the temporal region are scored. The table shows recall, specificity, false positive and
    negative rates, percentage of wrong classifications, precision, F, and the median time of a frame in milliseconds.
    To compare with causal methods, use --online.

    For several sequences, averages follow: a category is the mean of its videos, overall the mean of the categories. A
    metric that is undefined for a video is left out of the mean; a line below the table says so. It is null in --json.
    """
    if Reporting.of().json and directories[-1].suffix == ".json" and not directories[-1].is_dir():
        raise ParameterError(f"--json prints and takes no file: bgsub evaluate ... --json > {directories[-1]}")
    if sheet_file is None and click.get_current_context().get_parameter_source("worst") is ParameterSource.COMMANDLINE:
        raise ParameterError("--worst needs --sheet")
    if results is not None and (peers or masks or given(options)):
        raise click.UsageError("--results scores masks as they are, without --against, --masks and method parameters")
    makers: dict[str, Callable[[], Any]] = {"bgsub": partial(make_subtractor, options)}
    makers |= {name: partial(evaluation.make_method, name) for name in peers}
    if results is None:
        made = {name: make() for name, make in makers.items()}  # errors show now, not after hours
        parameters = {name: method.get_params() if name == "bgsub" else {} for name, method in made.items()}
    else:
        parameters = {results.resolve().name: {"results": str(results)}}
    sheet = None if sheet_file is None else evaluation.Sheet(sheet_file)
    sequences = evaluation.find_sequences(directories)
    if not options["overwrite"]:
        _check_free(sequences, masks, sheet_file)
    run = partial(evaluation.compare, sequences, makers, masks=masks, online=options["online"])
    if results is not None:
        run = partial(evaluation.compare_results, sequences, results)
    scores: list[evaluation.Score] = []
    try:
        for score in run(sheet=sheet, worst=options["worst"], progress=show_progress):
            scores.append(score)
    finally:  # also after an error, and first, so that a full disk loses only the files
        if Reporting.of().json:
            click.echo(evaluation.format_json(scores, parameters))
        elif scores:
            click.echo(evaluation.format_table(scores, evaluation.summarise(scores)))
    if sheet is not None:
        sheet.write()


def _check_free(sequences: "Sequence[evaluation.Sequence]", masks: Path | None, *files: Path | None) -> None:
    """Raise SinkError for outputs that exist, before the run."""
    places = [glob.escape(f"{sequence.category}/{sequence.name}") for sequence in sequences] if masks else []
    patterns = (f"{method}{place}/bin*.png" for place in places for method in ("", "*/"))
    there = (path for pattern in patterns for path in Path(masks or "").glob(pattern))
    for path in (*files, min(there, default=None)):
        if path is not None and path.exists():
            raise SinkError(f"the output '{path}' exists already; --overwrite replaces it")


@click.command(
    cls=MethodCommand,
    short_help="Compare the speed with OpenCV's subtractors.",
    common="duration rank scale threads",
    examples={
        "bgsub bench": "On a synthetic street of 320x240",
        "bgsub bench video.mp4 --duration 200 --scale 0.5": "On a video, at half its size",
    },
)
@click.argument("source", required=False, type=opt.SOURCE)
@opt.duration_option("300", "Maximum length")
def bench(source: str | None, duration: Timecode, **options: Any) -> None:
    """Measure the speed of bgsub, MOG2 and KNN on the frames of SOURCE, by default a synthetic street of 320x240.

    The methods alternate every 20 frames; up to 60 frames at the start are not counted. The first frame and the
    longest one (the batch start) are listed separately; compilation is excluded. --threads applies to OpenCV, too.
    """
    from bgsub.evaluation.speed import format_speed, load_frames, time_methods  # noqa: PLC0415 - it imports OpenCV

    pictures = load_frames(source, duration)
    timings = time_methods(pictures, lambda: make_subtractor(options), options["threads"])
    click.echo(format_speed(timings))


@click.command(
    cls=Command,
    short_help="Process a synthetic scene and score the masks; needs no camera.",
    examples={"bgsub demo -o demo --scene street --duration 10s": "A video of a scene and its masks"},
)
@opt.output_option(
    default=Path("bgsub-demo"), show_default=True, callback=opt.check_folder, help="Folder for the results."
)
@opt.scene_option
@opt.duration_option("300", "Length of the scene")
@opt.count("--seed", group=INPUT, least=0, default=0, help="Seed of the random scene.")
@opt.overwrite_option(help="Replace results that exist.")
@json_option()
def demo(output: Path, scene: str, duration: Timecode, seed: int, overwrite: bool) -> None:
    """Generate a scene with moving objects and changing light, separate it, and score the masks.

    Writes mask.mkv, panel.mp4 (input, background, foreground, mask) and input.mp4, a video to try the other commands
    on, and prints the scores of the masks against ground truth.
    """
    from bgsub.evaluation.sequences import OnlineScorer  # noqa: PLC0415 - it imports OpenCV
    from bgsub.video.sinks.base import prepare_folder  # noqa: PLC0415 - as above

    prepare_folder(output)  # before the scene is generated
    made = synthetic.scene(scene, size=(320, 240), length=duration.in_frames(synthetic.Scene.fps) or 1, seed=seed)
    scorer = OnlineScorer(made)
    with scorer.source as source:
        source.name = f"scene '{scene}'"
        outputs = video.create_sinks(output, ["mask.mkv", "panel.mp4", "input.mp4"], source, overwrite)
        subtractor = bgsub.BackgroundSubtractor(fps=float(made.fps))
        result = run_pipeline(source, subtractor, outputs, reporter=RunReporter(observer=scorer))
    check_whole(result, ends=True)
    if not (Reporting.of().quiet or Reporting.of().json):
        click.echo(f"against ground truth: {scorer.text()}")
