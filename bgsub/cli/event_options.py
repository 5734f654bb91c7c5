"""The options of events and regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bgsub.cli.options import names_from, passed_through
from bgsub.video.regions import Regions

# Written out here because importing them from where they live would import NumPy and OpenCV.
EVENT_FORMATS = ("csv", "jsonl", "coco")


def event_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--event-files`` (list of str), ``--plot`` (bool) and ``--roi`` (tuple of str)."""
    events = click.option(
        "--event-files",
        default="",
        callback=names_from(EVENT_FORMATS, optional=True),
        metavar="FORMAT,...",
        help="Follow the objects and write what happens: csv (events.csv), jsonl (events.jsonl, with tracks), "
        "coco (objects.json, every object in every frame).",
    )
    plot = click.option("--plot", is_flag=True, help="Draw the run over time into timeline.png.")
    roi = click.option(
        "--roi",
        multiple=True,
        callback=passed_through(_checked),
        metavar="[NAME=]REGION",
        help="Look at this region only: x,y,w,h or x1,y1;x2,y2;x3,y3... in pixels or percent, or the image of a "
        "mask. May be given several times; --event-files csv then writes regions.csv, too.",
    )
    return events(plot(roi(command)))


def _checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts:
        Regions(texts)
    return texts
