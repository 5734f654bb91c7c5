"""Parse names of outputs such as ``panel.mp4``, and templates of file names. Without heavy imports."""

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

from bgsub.errors import ParameterError, did_you_mean

# Equal to the keys of bgsub.video.views.VIEWS, whose import would take NumPy and OpenCV.
VIEWS = (
    "mask", "background", "foreground", "residual", "probability", "cutout", "overlay", "contours", "panel", "boxes",
    "input",
)  # fmt: skip
ANNOTATED = ("overlay", "contours", "panel", "boxes")  # the views that can show detected objects; boxes always does

STILL = "background-image"

VIDEO_ENDINGS = (".mkv", ".mp4", ".m4v", ".mov")
IMAGE_ENDINGS = (".png", ".jpg", ".tif", ".webp")
ARRAY_ENDINGS = (".npz",)
ENDINGS = VIDEO_ENDINGS + IMAGE_ENDINGS + ARRAY_ENDINGS
STILL_ENDINGS = (".png", ".jpg", ".tif")
ALPHA_VIDEO_ENDINGS = (".mkv", ".mov")
LOSSLESS_IMAGE_ENDINGS = (".png", ".tif", ".webp")

#: Names of the files, or of the folder, by format of events.
EVENT_FORMATS = {"csv": "events.csv", "jsonl": "events.jsonl", "html": "summary.html", "pictures": "objects"}
#: Names of files that runs write into their folders, which no other command may replace.
OWN_FILES = (*EVENT_FORMATS.values(), "regions.csv", "clips.csv", "manifest.csv")

FIELDS = ("view", "source", "date", "time")
DEFAULT_NAME = "{view}"
_LONGEST = 100  # bytes of a source in a file name, of which file systems allow 255


@dataclass(frozen=True)
class OutputSpec:
    """One output: a view, or `STILL`, and the ending of its file or images; None if it depends on the source."""

    view: str
    ending: str | None = None

    @property
    def kind(self) -> str | None:
        """One of video, images, array, still; None if it depends on the source."""
        if self.view == STILL:
            return "still"
        if self.ending is None:
            return None
        kinds = (("video", VIDEO_ENDINGS), ("images", IMAGE_ENDINGS), ("array", ARRAY_ENDINGS))
        return next(kind for kind, endings in kinds if self.ending in endings)

    def __str__(self) -> str:
        return f"{self.view}{self.ending or ''}"


def allowed_endings(view: str) -> tuple[str, ...]:
    """Return the allowed endings of a view: no JPEG for masks, only containers with alpha for cutouts."""
    if view == STILL:
        return STILL_ENDINGS
    videos = {"mask": VIDEO_ENDINGS, "cutout": ALPHA_VIDEO_ENDINGS}
    return videos[view] + LOSSLESS_IMAGE_ENDINGS + ARRAY_ENDINGS if view in videos else ENDINGS


def parse_output(text: str) -> OutputSpec:
    """Parse ``mask``, ``panel.mp4`` or ``background-image``; ParameterError if view or ending is not allowed."""
    view, dot, ending = text.strip().partition(".")
    views = (*VIEWS, STILL)
    if view not in views:
        raise ParameterError(f"an output must be one of {', '.join(views)}, got '{view}'{did_you_mean(view, views)}")
    if not dot:
        return OutputSpec(view, ".png" if view == STILL else None)
    ending = f".{ending.lower()}"
    allowed = allowed_endings(view)
    if ending in allowed:
        return OutputSpec(view, ending)
    why = {"mask": ", which blurs the labels", "cutout": ", which has no alpha channel"}.get(view)
    if why is None or ending not in ENDINGS:
        why = did_you_mean(ending, allowed)
    raise ParameterError(f"{view} can end in {', '.join(allowed)}, got '{text.strip()}'{why}")


def parse_outputs(texts: Iterable[str]) -> list[OutputSpec]:
    """Parse outputs, each once, in order; ParameterError as `parse_output`, and if there are none."""
    specs = list(dict.fromkeys(parse_output(text) for text in texts if text.strip()))
    if not specs:
        raise ParameterError(f"at least one output is needed out of {', '.join((*VIEWS, STILL))}")
    return specs


def check_name(template: str) -> None:
    """Check a template of file names, such as ``{source}/{view}``; ParameterError as `expand_name`."""
    expand_name(template, view="mask", source="source", started=datetime(2000, 1, 1))


def expand_name(template: str, *, view: str, source: str, started: datetime) -> Path:
    """Return the file name of a template, below the output folder and without ending; ParameterError if it is wrong."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ParameterError(
            f"a name must be a template such as {{source}}-{{view}}, got '{template}': {error}"
        ) from None
    for _text, field, form, conversion in parts:
        if field is not None and (field not in FIELDS or form or conversion):
            allowed = ", ".join(f"{{{known}}}" for known in FIELDS)
            hint = "" if field in FIELDS else did_you_mean(field, FIELDS)
            raise ParameterError(f"a name can have the fields {allowed}, got {{{field}{form and ':' + form}}}{hint}")
    result = template.format(view=view, source=safe_name(source), date=f"{started:%Y-%m-%d}", time=f"{started:%H%M%S}")
    windows = PureWindowsPath(result)
    inside = not (windows.drive or windows.root or PurePosixPath(result).is_absolute() or ".." in windows.parts)
    if not inside or not windows.name or result.endswith(("/", "\\", "/.")):
        raise ParameterError(f"a name must be that of a file below the output folder, got '{template}'")
    return Path(result)


def safe_name(text: str, default: str = "source") -> str:
    """Return a text as part of a file name, such as ``camera-0`` for ``camera 0``; `default` if the result is empty."""
    name = re.sub(r"[^\w.-]+", "-", text).strip("-.")
    return name.encode()[:_LONGEST].decode(errors="ignore") or default
