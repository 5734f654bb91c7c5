"""``bgsub search`` and ``bgsub overview``: the results of earlier runs."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from bgsub import events, video
from bgsub.cli import options as opt
from bgsub.cli.help import EVENTS, OUTPUT
from bgsub.cli.reporting import Reporting, json_option
from bgsub.cli.settings import Command
from bgsub.errors import counted, printable
from bgsub.video.timecode import Selection, Timecode

_place = partial(opt.option, group=EVENTS, metavar="TIME", callback=partial(opt.checked, Timecode.parse))


@click.command(
    cls=Command,
    short_help="List what was in a region, from stored results.",
    examples={
        "bgsub search events --region 100,50,80,120": "Objects in a region, from the events of bgsub track",
        "bgsub search results --region door=0,0,200,480 --from 1:00:00 --to 2:00:00": "During one hour, in a batch",
        "bgsub search out/mask.mkv --region 10%,20%,30%,50% --csv found.csv": "From stored masks",
    },
)
@click.argument("place", metavar="RESULTS", type=opt.RESULTS)
@opt.region_option(
    "--region",
    required=True,
    metavar="[NAME=]REGION",
    help="Look here: x,y,w,h or x1,y1;x2,y2;x3,y3;... in pixels or percent, or a mask image. Can be repeated.",
)
@_place(
    "--from", "start", help="List what ends after this: a frame number from 0 (120), seconds (12.5 or 12s), 1:02:03.5."
)
@_place("--to", "end", help="List what begins before this, written like --from.")
@opt.motion_threshold(
    group=EVENTS, help="Share of the region that must be foreground in masks, such as 1%.  [default: 0.2%]"
)
@opt.seconds("--event-gap", group=EVENTS, default=3.0, show_default=True, help="Maximum absence within one event.")
@opt.table_option
@json_option("Print the table as JSON.")
def search(*, place: Path, region: tuple[str, ...], csv: Path | None, **options: Any) -> None:
    """List when something appeared in a region and left it, from the RESULTS of earlier runs.

    RESULTS is a folder that bgsub run, track or batch wrote. Its objects (events.jsonl) are searched or, if there are
    none, its masks (mask.mkv, mask/). Names such as cam-events.jsonl and cam-mask.mkv are found as well. RESULTS can
    also be a video or folder of masks. The number is the ID of the object or of the motion event; the peak is the
    largest share of the region. Times count from the start of each recording; those of cameras also have a date.
    """
    from bgsub.events.search import search_results  # noqa: PLC0415 - it imports NumPy
    from bgsub.events.tables import motion_table, write_motion  # noqa: PLC0415 - as above

    part = Selection.parse(options["start"], options["end"], None, 1, ("--from", "--to", ""))
    regions = video.Regions(region)
    rules = events.MotionRules(max_gap=options["event_gap"], min_duration=0.0, **options["motion_threshold"])
    rules.check_regions(regions.names)
    with opt.claimed(csv):
        rows = search_results(place, regions, rules, part)
        if csv is not None:
            write_motion(csv, rows)
    if Reporting.of().json:
        click.echo(json.dumps(rows))
        return
    if rows:
        click.echo(motion_table(rows))
    what = counted(len(rows), "event") if rows else "nothing"
    click.echo(printable(f"{place}: {what} in {', '.join(regions.names)}"))


@click.command(
    cls=Command,
    short_help="Show the events of many runs on one page.",
    examples={
        "bgsub overview results": "Clips and objects of all results, in results/overview.html",
        "bgsub overview clips -o day.html --title Monday": "The clips of a day",
    },
)
@click.argument("folder", type=opt.PATH)
@opt.file_option(
    "-o",
    "--output",
    group=OUTPUT,
    callback=partial(opt.check_table, (".html", ".htm")),
    help="The page.  [default: overview.html in the folder]",
)
@opt.option("--title", group=OUTPUT, default="", metavar="TEXT", help="Heading.  [default: the name of the folder]")
def overview(*, folder: Path, output: Path | None, title: str) -> None:
    """Write one page with the clips and events of all results in FOLDER and below it, in order of time.

    The page has filters for sources, regions and kinds, plays the clips, and needs no server. It links to the files of
    the results, so keep them together. Results are folders with events.jsonl (or cam-events.jsonl) or clips.csv. At
    most the newest 20,000 events are shown. An existing page is replaced.
    """
    from bgsub.events.results import write_overview  # noqa: PLC0415 - it imports NumPy

    path = output or folder / "overview.html"
    number = write_overview(folder, path, title)
    if not Reporting.of().quiet:
        click.echo(printable(f"{counted(number, 'event')}; wrote {path}"))
