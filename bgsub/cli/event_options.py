"""The options of events and regions."""

from __future__ import annotations

from bgsub.cli.blocks import block, list_of, one_of_files, option
from bgsub.cli.help import EVENTS, OUTPUT
from bgsub.cli.options import names_from, passed_through
from bgsub.video.output_names import EVENT_FORMATS
from bgsub.video.regions import Regions


def _checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts:
        Regions(texts)
    return texts


boxes_option = option(
    "--boxes",
    group=OUTPUT,
    is_flag=True,
    help="Draw objects, regions, time and events onto panel, overlay and contours as well.",
)

event_options = block(
    option(
        "--event-formats",
        group=EVENTS,
        default="",
        callback=names_from(tuple(EVENT_FORMATS), optional=True),
        shell_complete=list_of(lambda _begun: EVENT_FORMATS),
        metavar="FORMAT,...",
        help="Follow the objects and write what happens: csv, jsonl (with tracks), coco (every object in every "
        "frame), html (all at a glance).",
    ),
    option(
        "--roi",
        group=EVENTS,
        shell_complete=one_of_files(),
        multiple=True,
        callback=passed_through(_checked),
        metavar="[NAME=]REGION",
        help="Look at this region only: x,y,w,h or x1,y1;x2,y2;x3,y3;... in pixels or percent, or the image of a "
        "mask. May be given several times.",
    ),
    option(
        "--privacy",
        group=EVENTS,
        shell_complete=one_of_files(),
        multiple=True,
        callback=passed_through(_checked),
        metavar="REGION",
        help="Make this region black before anything looks at the frames; written as --roi, and as often.",
    ),
)
"""The command gets `event_formats` (list of str), `roi` and `privacy` (tuple of str)."""
