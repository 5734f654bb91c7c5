"""Lines of events and objects: CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bgsub.events.event import Event, EventKind

COLUMNS = (
    "type", "id", "start_frame", "end_frame", "start_time", "end_time", "frames",
    "peak_area", "peak_frame", "peak_x", "peak_y", "peak_w", "peak_h", "regions",
)  # fmt: skip


def csv_cell(value: Any) -> Any:
    """Return a value for a CSV file: None is empty, floats have three decimals, and no text is a formula."""
    if isinstance(value, str):  # spreadsheets run a cell that begins with such a sign
        text = value.encode("utf-8", "backslashreplace").decode()
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else value


def csv_row(values: Iterable[Any]) -> str:
    """Return a CSV line of some values, see `csv_cell`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(csv_cell, values))
    return text.getvalue()


def csv_line(event: Event) -> str:
    """Return an event as a line with `COLUMNS`: ``type`` is the kind; events of the whole frame have no ID and size."""
    times = [None if time is None else float(time) for time in (event.start_time, event.end_time)]
    values = [event.kind, event.id or None, event.start_frame, event.end_frame, *times, event.frames]
    if event.kind == EventKind.OBJECT:
        return csv_row([*values, event.peak_area, event.peak_frame, *event.peak_box, ";".join(event.regions)])
    return csv_row([*values, *[None] * 7])


def json_line(event: Event, folder: Path) -> str:
    """Return an event as a line of JSON for a file in `folder`; times in milliseconds, positions to 0.01 pixels."""
    start, end = (None if time is None else round(time, 3) for time in (event.start_time, event.end_time))
    record: dict[str, Any] = {
        "type": event.kind,
        "start_frame": event.start_frame,
        "end_frame": event.end_frame,
        "start_time": start,
        "end_time": end,
        "frames": event.frames,
    }
    if event.began is not None:
        record["began"] = event.began
    if event.kind == EventKind.OBJECT:
        record |= {
            name: getattr(event, name)
            for name in ("id", "peak_area", "peak_frame", "peak_box", "frame_size", "regions")
        }
        if event.picture is not None:
            record["picture"] = Path(os.path.relpath(event.picture, folder)).as_posix()
        record["track_step"] = event.step
        record["track"] = {
            "frame": [box[0] for box in event.boxes],
            "box": [box[1:] for box in event.boxes],
            "centroid": [[round(x, 2), round(y, 2)] for x, y in event.centroids],
            "area": event.areas,
        }
    return json.dumps(record, separators=(",", ":")) + "\n"
