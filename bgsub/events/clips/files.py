"""Names of clips, and the list of them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bgsub.errors import ParameterError, SinkError
from bgsub.storage.atomic import write_whole
from bgsub.video.output_names import safe_name

LIST_NAME = "clips.csv"
_COLUMNS = ("file", "start", "end", "peak_share", "began")


@dataclass(frozen=True)
class Clip:
    """One recording."""

    path: Path  # the file
    start: float  # times of its first and last frame in the source, in seconds
    end: float
    peak_share: float  # largest share of the frame in motion, in [0, 1]
    began: datetime | None  # date and time of the first frame, of a camera


class ClipNames:
    """Gives each clip a file name, with `ending`, that is not taken yet in the folder.

    The template has ``{source}``, ``{date}``, ``{time}``, ``{start}`` (whole seconds) and ``{number}``, which is
    appended where it is missing; ParameterError where it has other fields or leads out of the folder. Without a
    template, date and time are part of the name for cameras.
    """

    def __init__(self, folder: Path, template: str | None, source: str, ending: str) -> None:
        self._folder, self._template, self._ending = folder, template, ending
        self._source = safe_name(source)
        self._number = 0
        if template is not None:
            self._fill(template, 0.0, datetime(2000, 1, 1))

    def next(self, start: float, began: datetime | None) -> Path:
        """Return the path of a clip that begins at `start` seconds, and at date and time `began`."""
        template = self._template or ("{source}-{date}-{time}-{number}" if began else "{source}-{number}")
        while True:
            self._number += 1
            path = self._folder / (self._fill(template, start, began) + self._ending)
            if not path.exists():
                return path

    def _fill(self, template: str, start: float, began: datetime | None) -> str:
        if "{number" not in template:
            template += "-{number}"
        fields = {
            "source": self._source,
            "date": f"{began:%Y%m%d}" if began else "",
            "time": f"{began:%H%M%S}" if began else "",
            "start": f"{int(start):06d}",
            "number": f"{self._number:04d}",
        }
        try:
            name = template.format(**fields)
        except (KeyError, IndexError, ValueError, AttributeError):
            name = ""
        if not name or name != Path(name).name:
            allowed = ", ".join(f"{{{field}}}" for field in fields)
            raise ParameterError(f"the name of a clip takes {allowed} and no folder, got '{template}'")
        return name


def append_to_list(folder: Path, clip: Clip) -> None:
    """Add a clip to the list of the folder, which is replaced as a whole; SinkError where that fails."""
    path = folder / LIST_NAME
    text = io.StringIO()
    began = clip.began.isoformat(timespec="seconds") if clip.began else ""
    row = (clip.path.name, f"{clip.start:.3f}", f"{clip.end:.3f}", f"{clip.peak_share:.6f}", began)
    csv.writer(text, lineterminator="\n").writerow(row)
    try:
        before = path.read_bytes() if path.exists() else (",".join(_COLUMNS) + "\n").encode()
    except OSError as error:
        raise SinkError(f"'{path}' cannot be read: {error.strerror or error}") from None
    write_whole(path, before + text.getvalue().encode())
