"""``bgsub decompose``: robust PCA of a whole video, of images, or of a matrix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub.cli.blocks import PATH, block, choice, one_of_files, option
from bgsub.cli.help import INPUT, METHOD, OUTPUT, Example
from bgsub.cli.logs import Reporting, logger, progress_logger, report_options, to_file
from bgsub.cli.options import folder_option
from bgsub.cli.progress import progress_bar
from bgsub.cli.settings import Command
from bgsub.cli.source_options import on_error_option, rate_option, source_options
from bgsub.errors import ParameterError
from bgsub.jobs import decomposition

_ESTIMATOR = ("surrogate", "p", "mu_start", "mu_end", "iterations", "quality")
_SOURCE = ("start", "end", "duration", "every", "backend", "on_error", "fps")
_FOR_FRAMES = (*_SOURCE, "factor", "grey", "kind", "sparse_picture")
_FOR_MATRICES = ("key", "columns", "float32")
_OBSERVED = ("observed", "observed_key")
_SAME = (*_OBSERVED, "grey", "sparse_picture", "key", "float32", "save_arrays", "plot", "overwrite")
_POSITIVE = click.FloatRange(0, min_open=True)


_estimator_options = block(
    option(
        "--rank",
        "dimension",
        group=METHOD,
        type=click.IntRange(1),
        metavar="K",
        help="Dimension of the subspace.  [default: 3, fewer for fewer than 12 samples]",
    ),
    option(
        "--surrogate",
        "cost",
        group=METHOD,
        type=click.Choice(["lp", "log", "atan"]),
        help="Cost of the sparse part.  [default: log]",
    ),
    option(
        "--p",
        "exponent",
        group=METHOD,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="P",
        help="Exponent of lp.  [default: 0.5]",
    ),
    option(
        "--mu-start",
        group=METHOD,
        type=_POSITIVE,
        metavar="MU",
        help="Smoothing at the beginning, in units of entries squared, for atan of entries; those of frames are in "
        "units of full scale.  [default: from the data]",
    ),
    option(
        "--mu-end",
        group=METHOD,
        type=_POSITIVE,
        metavar="MU",
        help="Smoothing at the end.  [default: where noise is left]",
    ),
    option(
        "--iterations",
        group=METHOD,
        type=click.IntRange(1),
        metavar="N",
        help="Largest number of steps; for --quality paper, of alternations.  [default: by --quality]",
    ),
    option(
        "--quality",
        group=METHOD,
        type=click.Choice(["fast", "balanced", "best", "paper"]),
        help="How much time the result may take; paper is the schedule of the paper.  [default: balanced]",
    ),
)


_input_options = block(
    option(
        "--observed",
        group=INPUT,
        type=PATH,
        metavar="FILE",
        help="Mask, 0 where an entry is missing: an array like the input, an image, or a folder of images.",
    ),
    option(
        "--observed-key",
        group=INPUT,
        metavar="NAME",
        help="Name of the mask in a file .npz or .mat of several arrays.",
    ),
    option("--key", group=INPUT, metavar="NAME", help="Name of the matrix in a file .npz or .mat of several arrays."),
    choice(
        "--samples",
        "columns",
        group=INPUT,
        of=["rows", "columns"],
        text="What are the samples of a matrix; in Python they are rows.",
    ),
    option(
        "--float32",
        group=METHOD,
        is_flag=True,
        help="Compute a matrix in single precision, in half the memory.",
    ),
    option(
        "--scale",
        "factor",
        group=INPUT,
        type=click.FloatRange(0, 1, min_open=True),
        default=1.0,
        show_default=True,
        metavar="X",
        help="Reduce height and width of frames by this factor.",
    ),
    option("--grey", group=INPUT, is_flag=True, help="Make grey frames of coloured ones."),
)


_output_options = block(
    choice(
        "--format",
        "kind",
        group=OUTPUT,
        of=["auto", "video", "images"],
        text="Kind of output for frames; auto makes images of images and video of video.",
    ),
    choice(
        "--sparse-as",
        "sparse_picture",
        group=OUTPUT,
        of=["absolute", "offset"],
        text="How pictures show the sparse part: its absolute value, or half of it above mid-grey, with its sign.",
    ),
    option(
        "--save-arrays",
        group=OUTPUT,
        is_flag=True,
        help="Write all parts, exact, into decomposition.npz as well.",
    ),
    option(
        "--plot",
        group=OUTPUT,
        is_flag=True,
        help="Draw singular values and some samples into decomposition.png.",
    ),
    option("--overwrite", group=OUTPUT, is_flag=True, help="Replace results that exist."),
)


@click.command(
    cls=Command,
    short_help="Split a whole video, images or a matrix into low rank and sparse.",
    common=(
        *("output", "overwrite", "save-arrays", "plot", "start", "duration", "every", "scale", "grey", "observed"),
        *("samples", "rank", "quality"),
    ),
    examples=(
        Example("bgsub decompose video.mp4 -o parts --rank 1 --scale 0.5", "Background and what moves in a clip"),
        Example("bgsub decompose matrix.npy -o parts --plot", "A matrix, samples as rows, NaN where one is missing"),
    ),
)
@click.argument("source", metavar="INPUT", shell_complete=one_of_files())
@folder_option
@_estimator_options
@_input_options
@source_options
@on_error_option
@rate_option
@_output_options
@report_options
@click.pass_context
def decompose(context: click.Context, *, source: str, output: Path, quiet: bool, **options: Any) -> None:
    """Split INPUT into a low-rank and a sparse part by robust PCA, all samples at once.

    INPUT is a video, a folder or pattern of images ("frames/in*.jpg"), or a matrix: .npy, .npz or .mat. The frames
    are the samples of a video; the rows are those of a matrix, and NaN in it means missing. All samples are in
    memory together.

    A video becomes low_rank.mp4 and sparse.mp4; images become low_rank/NAME.png and sparse/NAME.png; .npy becomes
    low_rank.npy and sparse.npy; .npz and .mat become one file of the same kind, decomposition, with low_rank, sparse,
    components, coefficients and singular_values.
    """
    _check_use(context, source, options)
    options["p"], options["surrogate"] = options.pop("exponent"), options.pop("cost")
    job = decomposition.DecompositionJob(
        source,
        output,
        rank=options["dimension"],
        parameters={name: options[name] for name in _ESTIMATOR if options[name] is not None},
        open_options={name: options[name] for name in _SOURCE},
        scale=options["factor"],
        format=options["kind"],
        columns=options["columns"] == "columns",
        **{name: options[name] for name in _SAME},
    )
    result = decomposition.run_decomposition(job, _watch(quiet), tell=_teller(quiet))
    _report(result, quiet)


def _check_use(context: click.Context, source: str, options: dict[str, Any]) -> None:
    """Refuse options that were typed and mean nothing to this kind of input; settings may hold for other inputs."""
    from bgsub.jobs.decomposition.matrices import is_matrix  # noqa: PLC0415 - it brings NumPy along

    wrong, kind = (_FOR_FRAMES, "frames") if is_matrix(source) else (_FOR_MATRICES, "matrices")
    for one in context.command.params:
        typed = context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if one.name in wrong and typed:
            raise ParameterError(f"{one.opts[0]} is for {kind}, got '{source}'")
    if options["observed_key"] is not None and options["observed"] is None:
        raise ParameterError("--observed-key names an array in the file of --observed, which is missing")


def _watch(quiet: bool) -> Any:
    """Return what draws the progress of a fit."""

    @contextmanager
    def watch(name: str, length: int | None) -> Iterator[Callable[[int], None]]:
        done = 0
        with progress_bar(name, length, quiet, unit="steps") as meter:

            def told(iteration: int) -> None:
                """Count up to an iteration; it is told more than once."""
                nonlocal done
                if iteration > done:
                    meter.update(iteration - done)
                    done = iteration

            yield told

    return watch


def _teller(quiet: bool) -> Callable[[str], None]:
    """Return what takes the sentence about the memory: the screen where progress is told, else the log."""
    silent = quiet or Reporting.of().quiet
    return logger.info if silent else progress_logger.info


def _report(result: decomposition.DecompositionResult, quiet: bool) -> None:
    """Print what was done: a sentence, or one JSON object."""
    sentence = summarise(result)
    to_file(sentence)
    if Reporting.of().json:
        click.echo(json.dumps(result.as_dict()))
    elif not quiet:
        click.echo(sentence)


def summarise(result: decomposition.DecompositionResult) -> str:
    """Return the summary of a decomposition in words."""
    parts = result.parts
    words = [
        f"{result.name}: {result.description} in {result.seconds:.1f} s",
        f"rank {len(parts.components)}, outliers {100 * parts.outliers:.1f} % (beyond {parts.threshold:.2g})",
    ]
    if result.skipped:
        words.append(f"{result.skipped} frame{'' if result.skipped == 1 else 's'} skipped as unreadable")
    return "; ".join([*words, f"wrote {', '.join(map(str, result.outputs))}"])
