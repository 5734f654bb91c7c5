"""``bgsub demo``: the whole chain on a scene made on the spot; no camera, no screen, no download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.logs import Reporting, report_options
from bgsub.cli.settings import Command

if TYPE_CHECKING:
    import numpy as np

    from bgsub.separation import Separation
    from bgsub.video.sources.base import Frame

_SIZE = (320, 240)


@click.command(cls=Command, short_help="Separate a synthetic scene and score the masks; needs no camera and no screen.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("bgsub-demo"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--scene",
    "name",
    type=click.Choice(["lobby", "street"]),
    default="lobby",
    show_default=True,
    help="A room whose lamps switch, or a road under passing clouds.",
)
@click.option(
    "--frames",
    "length",
    type=click.IntRange(1),
    default=300,
    show_default=True,
    metavar="N",
    help="Length of the scene.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Another seed, another scene.",
)
@report_options
def demo(output: Path, name: str, length: int, seed: int, quiet: bool) -> None:
    """Make a scene with movers and changing light, separate it, and score the masks.

    Writes mask.mkv, panel.mp4 (input, background, foreground, mask) and strip.png (input, background and mask
    of the busiest frame), and prints how well the masks agree with the exact ones.
    """
    strip = output / "strip.png"
    import numpy as np  # noqa: PLC0415

    from bgsub import synthetic  # noqa: PLC0415
    from bgsub.cli.pipeline import run_pipeline  # noqa: PLC0415
    from bgsub.subtractor import BackgroundSubtractor  # noqa: PLC0415
    from bgsub.video.sinks.base import prepare_folder  # noqa: PLC0415
    from bgsub.video.sinks.create import create_sinks  # noqa: PLC0415
    from bgsub.video.sinks.images import write_image  # noqa: PLC0415
    from bgsub.video.sources.array import ArraySource  # noqa: PLC0415

    prepare_folder(output)  # before the work of making the scene
    scene = synthetic.scene(name, size=_SIZE, length=length, seed=seed)
    pictures, truths = (np.stack(part) for part in zip(*scene, strict=True))
    referee = Referee(truths)
    with ArraySource(pictures, rate=scene.rate) as source:
        source.name = f"scene '{name}'"
        sinks = create_sinks(output, ["mask", "panel"], source, "video")
        subtractor = BackgroundSubtractor(fps=float(scene.rate))
        run_pipeline(source, subtractor, sinks, quiet=quiet, callback=referee, details=referee.scores)
    write_image(strip, referee.strip())
    if not (quiet or Reporting.of().json):
        click.echo(f"against the exact masks: {referee.verdict()}; one frame of it: {strip}")


class Referee:
    """Scores masks against the exact ones, (n, h, w) uint8, and keeps the busiest well-separated frame."""

    def __init__(self, truths: np.ndarray) -> None:
        from bgsub.evaluation.metrics import Confusion  # noqa: PLC0415

        self._truths = truths
        self._total = Confusion()
        self._best: tuple[int, Separation] | None = None

    def __call__(self, frame: Frame, separation: Separation) -> None:
        """Score one frame."""
        from bgsub.evaluation.metrics import confusion  # noqa: PLC0415

        counts = confusion(separation.mask, self._truths[frame.index])
        self._total += counts
        merit = counts.tp - counts.fp - counts.fn
        if self._best is None or merit > self._best[0]:
            self._best = (merit, separation)

    def strip(self) -> np.ndarray:
        """Return input, background and mask of one frame side by side, (h, 3 w, 3) uint8."""
        import numpy as np  # noqa: PLC0415

        from bgsub.video.views import to_bgr8  # noqa: PLC0415

        if self._best is None:
            raise click.ClickException("no frame was processed, so there is no picture to write")
        best = self._best[1]
        return np.hstack([to_bgr8(image) for image in (best.frame, best.background, best.mask)])

    def scores(self) -> dict[str, Any]:
        """Return the scores by name."""
        c = self._total
        return {"recall": c.recall, "precision": c.precision, "f_measure": c.f_measure}

    def verdict(self) -> str:
        """Return the scores in words."""
        c = self._total
        return f"recall {c.recall:.3f}, precision {c.precision:.3f}, F {c.f_measure:.3f}"
