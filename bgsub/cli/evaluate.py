"""``bgsub evaluate``: scores on sequences in the layout of changedetection.net."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.options import PEERS, MethodCommand, given, make_subtractor, method_options, names_from
from bgsub.cli.report import progress_bar

if TYPE_CHECKING:
    from bgsub.evaluation import Score, Sequence


@click.command(cls=MethodCommand, short_help="Score the masks on sequences with known ones.")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--against",
    "peers",
    default="",
    callback=names_from(PEERS, optional=True),
    metavar="METHOD,...",
    help=f"Peers to run on the same frames: {', '.join(PEERS)}.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Score the masks bin000123.png in this folder instead of running the method; for one DIR.",
)
@method_options
def evaluate(directories: tuple[Path, ...], peers: list[str], results: Path | None, **options: Any) -> None:
    """Run the method on the frames of each DIR and score its masks.

    DIR holds input/in000123.jpg, groundtruth/gt000123.png and, if wanted, temporalROI.txt and ROI.bmp, the
    layout of changedetection.net. All frames are fed in order, those with a mask inside the temporal region
    are scored: recall, specificity, rates of false positives and negatives, percentage of wrong
    classifications, precision and F; with the median time of a frame in milliseconds.
    """
    from bgsub.evaluation import Sequence, format_table, score_results  # noqa: PLC0415

    if results is not None and (len(directories) > 1 or peers or given(options)):
        raise click.UsageError("--results scores one DIR as it is, without --against and method parameters")
    sequences = [Sequence(directory) for directory in directories]
    if results is not None:
        scores = [score_results(sequences[0], results)]
    else:
        make_subtractor(options)  # a bad combination of parameters shows before the first sequence is run
        scores = [_score(sequence, name, options) for sequence in sequences for name in ("bgsub", *peers)]
    click.echo(format_table(scores))


def _score(sequence: Sequence, name: str, options: dict[str, Any]) -> Score:
    """Return the score of one method on one sequence."""
    from bgsub.evaluation import evaluate as evaluate_method  # noqa: PLC0415

    method = make_subtractor(options) if name == "bgsub" else name
    with progress_bar(f"{sequence.name}, {name}", len(sequence)) as bar:
        return evaluate_method(sequence, method, name=name, on_frame=lambda *_: bar.update())
