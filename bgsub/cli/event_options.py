"""The options of events and regions."""

from __future__ import annotations

import click

from bgsub.cli.blocks import block
from bgsub.cli.options import names_from, passed_through
from bgsub.video.output_names import EVENT_FILES
from bgsub.video.regions import Regions


def _checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts:
        Regions(texts)
    return texts


boxes_option = click.option(
    "--boxes", is_flag=True, help="Draw objects, regions, time and events onto panel, overlay and contours as well."
)

event_options = block(
    click.option(
        "--event-files",
        default="",
        callback=names_from(tuple(EVENT_FILES), optional=True),
        metavar="FORMAT,...",
        help="Follow the objects and write what happens: csv (events.csv), jsonl (events.jsonl, with tracks), "
        "coco (objects.json, every object in every frame), html (summary.html, all at a glance).",
    ),
    click.option(
        "--roi",
        multiple=True,
        callback=passed_through(_checked),
        metavar="[NAME=]REGION",
        help="Look at this region only: x,y,w,h or x1,y1;x2,y2;x3,y3... in pixels or percent, or the image of a "
        "mask. What sticks out of the frame is cut off. May be given several times; --event-files csv then writes "
        "regions.csv, too.",
    ),
    click.option(
        "--privacy",
        multiple=True,
        callback=passed_through(_checked),
        metavar="REGION",
        help="Make this region black before anything looks at the frames; written as --roi, and as often.",
    ),
)
"""The command gets `event_files` (list of str), `roi` and `privacy` (tuple of str)."""
