"""``bgsub decompose``: robust PCA of a whole video, of images, or of a matrix."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bgsub import robust_pca
from bgsub.cli import options as opt
from bgsub.cli.help import INPUT, METHOD, OUTPUT
from bgsub.cli.pipeline import show_result
from bgsub.cli.reporting import json_option, show_progress
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError, counted
from bgsub.jobs import decomposition
from bgsub.numerics.memory import in_words

_ESTIMATOR = ("iterations", "quality")
_SOURCE = ("start", "end", "duration", "every", "on_error", "fps")
_FOR_FRAMES = (*_SOURCE, "factor", "grey")
_FOR_MATRICES = ("key", "columns", "float32")
_SURE = 0.1  # share of the way of mu from which the number of steps is estimated
_PHASES = {"part": "a random part first", "both": "all values", "basis": "subspace", "coefficients": "coefficients"}
_SAME = ("grey", "key", "float32", "save_arrays", "overwrite")

_options = opt.combine(
    opt.limit(
        "--rank",
        "dimension",
        group=METHOD,
        metavar="K",
        help="Dimension of the subspace.  [default: 3, fewer for fewer than 12 samples]",
    ),
    opt.limit(
        "--iterations",
        group=METHOD,
        help="Maximum number of steps; for --quality paper, of alternations.  [default: by --quality]",
    ),
    opt.option(
        "--quality",
        group=METHOD,
        type=click.Choice(["fast", "balanced", "best", "paper"]),
        help="Trade computing time for accuracy; paper is the schedule of the paper.  [default: balanced]",
    ),
    opt.flag("--float32", group=METHOD, help="Process a matrix in single precision, with half the memory."),
    opt.of_input("--key", metavar="NAME", help="Name of the matrix in a file .npz or .mat with several arrays."),
    opt.choice(
        "--samples",
        "columns",
        group=INPUT,
        of=["rows", "columns"],
        help="Whether the samples of a matrix are its rows or its columns; in Python they are rows.",
    ),
    opt.of_input(
        "--scale",
        "factor",
        type=opt.Share(0, 1, min_open=True),
        default=1.0,
        show_default=True,
        metavar="X",
        help="Reduce height and width of frames by this factor.",
    ),
    opt.flag("--grey", "--gray", "grey", group=INPUT, help="Convert frames to grey."),
    opt.source_options,
    opt.on_error_option,
    opt.rate_option,
    opt.flag("--save-arrays", group=OUTPUT, help="Also write all parts, without rounding, into decomposition.npz."),
    opt.overwrite_option(help="Replace results that exist."),
    json_option(),
)


@click.command(
    cls=Command,
    short_help="Split a video, images or a matrix into low rank and sparse.",
    common="output overwrite save-arrays start duration every scale grey samples rank quality",
    examples={
        "bgsub decompose video.mp4 -o parts --rank 1 --scale 0.5": "Background and moving objects of a clip",
        "bgsub decompose matrix.npy -o parts": "A matrix, samples as rows, NaN for missing entries",
    },
)
@click.argument("source", metavar="INPUT", type=opt.SOURCE)
@opt.folder_option
@_options
@click.pass_context
def decompose(context: click.Context, *, source: str, output: Path, **options: Any) -> None:
    """Split INPUT into a low-rank and a sparse part by robust PCA, all samples at once.

    INPUT is a video, a folder or pattern of images ("frames/in*.jpg"), or a matrix: .npy, .npz or .mat. The samples
    are the frames of a video or the rows of a matrix, in which NaN means missing. All samples are kept in memory.

    A video becomes low_rank.mp4 and sparse.mp4; images become low_rank/NAME.png and sparse/NAME.png; .npy becomes
    low_rank.npy and sparse.npy. .npz and .mat become one file, decomposition.npz or decomposition.mat, with low_rank,
    sparse, components, coefficients and singular_values. bgsub.RobustPCA in Python has further parameters.
    """
    _check_use(context, source)
    opt.check_part(options)
    job = decomposition.DecompositionJob(
        source,
        output,
        rank=options["dimension"],
        parameters={name: options[name] for name in _ESTIMATOR if options[name] is not None},
        open_options={name: options[name] for name in _SOURCE},
        scale=options["factor"],
        columns=options["columns"] == "columns",
        **{name: options[name] for name in _SAME},
    )
    result = decomposition.run_decomposition(job, _watch)
    show_result(result.as_dict(), summarise(result))


def _check_use(context: click.Context, source: str) -> None:
    """Raise ParameterError for typed options of the other kind of input; settings may be for other inputs."""
    from bgsub.jobs.decomposition.samples import is_matrix  # noqa: PLC0415 - it imports NumPy

    wrong, kind = (_FOR_FRAMES, "frames") if is_matrix(source) else (_FOR_MATRICES, "matrices")
    for one in context.command.params:
        typed = context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if one.name in wrong and typed:
            raise ParameterError(f"{one.opts[0]} is for {kind}, got '{source}'")


@contextmanager
def _watch(name: str, memory: int, last: float | None) -> "Iterator[Callable[[robust_pca.Progress], None]]":
    """Show the progress of a fit that needs some bytes of memory; `last` is the mu of its last steps, if known."""
    first: robust_pca.Progress | None = None
    done = 0
    with show_progress(f"{name}, {in_words(memory)}", None, unit="steps") as meter:

        def tell(step: "robust_pca.Progress") -> None:
            nonlocal first, done
            if first is None or step.half != first.half:
                first = step
            way = math.log(first.mu / step.mu)
            share = way / math.log(first.mu / last) if last and last < first.mu else 0.0  # of the way of mu
            is_known = _SURE < share < 1  # how many steps follow with the last mu is not
            length = first.iteration + round((step.iteration - first.iteration) / share) if is_known else None
            meter.begin(_PHASES[step.half], length)
            if step.iteration > done:  # an iteration is reported more than once
                meter.update(step.iteration - done)
                done = step.iteration

        yield tell


def summarise(result: "decomposition.DecompositionResult") -> str:
    """Return the summary of a decomposition in words."""
    words = [
        f"{result.name}: {result.description} in {result.seconds:.1f} s",
        f"rank {len(result.model.components_)}, outliers {100 * result.outliers:.1f} % (beyond {result.threshold:.2g})",
    ]
    if result.skipped:
        words.append(f"{counted(result.skipped, 'frame')} skipped as unreadable")
    return "; ".join([*words, f"wrote {', '.join(map(str, result.outputs))}"])
