"""One page for the events of many runs: clips and objects by time, with filters; ``templates/overview.html``."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bgsub.errors import counted
from bgsub.events.results import Result, find_results, inside, read_clips, read_objects
from bgsub.storage.durable_io import write_whole
from bgsub.storage.file_lock import Claims
from bgsub.video.timecode import clock_text
from bgsub.video.web_page import link, render

#: Most events on a page: the newest ones.
MOST = 20_000


def write_overview(folder: Path, path: Path, title: str = "") -> int:
    """Write the page of all results in a folder and below it; return the number of events. SourceError, SinkError."""
    results, number = find_results(folder), 0

    def read() -> Iterator[dict[str, Any]]:
        nonlocal number
        for result in results:
            for event in _events(result, path.parent):
                number += 1
                yield event

    def order(event: dict[str, Any]) -> tuple[Any, ...]:
        return event["date"], event["source"], event["second"]

    with Claims() as claims:
        claims.take(path)
        shown = sorted(heapq.nlargest(MOST, read(), key=order), key=order)  # not all of them in memory
        # A script element ends at </script> even inside of a text.
        data = json.dumps(shown, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        page = render(
            "overview.html",
            title=title or Path(os.path.abspath(folder)).name,
            data=data,
            number=counted(number, "event"),
            left_out=number - len(shown),
        )
        write_whole(path, page)
    return len(shown)


def _events(result: Result, base: Path) -> Iterator[dict[str, Any]]:
    """Yield the clips and objects of a result as the page takes them."""
    for path in result.clips:
        for row in read_clips(path):
            first, last = _number(row.get("start", "")), _number(row.get("end", ""))
            yield {
                "kind": "clip",
                "source": result.name if result.events is not None else row.get("source") or result.name,
                "date": row.get("began", ""),
                "second": first,
                "time": clock_text(first, whole=True),
                "text": f"{last - first:.1f} s, at most {100 * _number(row.get('peak_share', '')):.2g} % in motion",
                "regions": [],
                "picture": link(base, inside(path.parent, row.get("thumbnail", ""))),
                "clip": link(base, inside(path.parent, row["file"])),
            }
    for one in read_objects(result.events) if result.events is not None else ():
        if one.start is None or one.end is None:
            begin, time = float(one.start_frame), f"frame {one.start_frame}"
            text = f"object {one.id}, {one.end_frame - one.start_frame + 1} frames"
        else:
            begin, time = one.start, clock_text(one.start, whole=True)
            text = f"object {one.id}, {one.end - one.start:.1f} s"
        yield {
            "kind": "object",
            "source": result.name,
            "date": one.began,
            "second": begin,
            "time": time,
            "text": text,
            "regions": one.regions,
            "picture": link(base, inside(result.folder, one.picture)),
            "clip": "",
        }


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if abs(number) < 1e9 else 0.0
