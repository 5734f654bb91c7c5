"""``bgsub evaluate``: scores on sequences in the layout of changedetection.net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bgsub.cli.options import given, make_subtractor, method_options


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--against",
    default="",
    metavar="METHOD,...",
    help="Peers to run on the same frames: mog2, knn.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Score the masks bin000123.png in this folder instead of running the method; for one DIR.",
)
@method_options
def evaluate(directories: tuple[Path, ...], against: str, results: Path | None, **options: Any) -> None:
    """Run the method on the frames of each DIR and score its masks.

    DIR holds input/in000123.jpg, groundtruth/gt000123.png and, if wanted, temporalROI.txt and ROI.bmp. All frames
    are fed in order, those with a mask inside the temporal region are scored: recall, specificity, false positive
    and false negative rate, percentage of wrong classifications, precision, F.
    """
    from bgsub.evaluation import Score, Sequence, format_table, make_method, score_results  # noqa: PLC0415
    from bgsub.evaluation import evaluate as evaluate_method  # noqa: PLC0415

    peers = [name.strip() for name in against.split(",") if name.strip()]
    for peer in peers:
        make_method(peer)
    if results is not None and (len(directories) > 1 or peers or given(options)):
        raise click.UsageError("--results scores one DIR as it is, without peers and method parameters")
    sequences = [Sequence(directory) for directory in directories]
    scores: list[Score] = []
    for sequence in sequences:
        if results is not None:
            scores.append(score_results(sequence, results))
            continue
        scores.append(evaluate_method(sequence, make_subtractor(options), name="bgsub"))
        scores += [evaluate_method(sequence, peer) for peer in peers]
    click.echo(format_table(scores))
