"""Parts of options: kinds, groups and checks of values; the options for the source."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce
from pathlib import Path
from typing import Any

import click

from bgsub.cli.help import EVENTS, INPUT, METHOD, OUTPUT, Option
from bgsub.cli.setting_sources import called
from bgsub.errors import ParameterError, did_you_mean
from bgsub.video.output_names import ENDINGS, OWN_FILES
from bgsub.video.regions import Regions
from bgsub.video.timecode import Selection, Timecode

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Path(click.Path):
    """A path that is not empty, as by an unset variable of a shell."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path)
FOLDER = _Path(path_type=Path, file_okay=False)
RESULTS = _Path(path_type=Path, exists=True)
SOURCE = _Path()  # a text that may be the name of a file, which the shell completes
option = partial(click.option, cls=Option)  # as `click.option`, with the `group` of the option in the help
flag = partial(option, is_flag=True)
in_folder = partial(option, type=FOLDER, metavar="FOLDER")
file_option = partial(option, type=PATH, metavar="FILE")
limit = partial(option, type=click.IntRange(1), metavar="N")


def number_of(text: str) -> float:
    """Return the number in a text such as ``0.05`` or ``5%``; ValueError if it is none."""
    return float(text.rstrip()[:-1]) / 100 if text.rstrip().endswith("%") else float(text)


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


seconds = partial(option, type=Number(0), metavar="SECONDS")


class Share(Number):
    """A share between 0 and 1, also in percent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            try:
                value = number_of(value)
            except ValueError:
                self.fail(f"{value!r} is not a valid share.", param, ctx)
        return super().convert(value, param, ctx)


def parse_shares(value: str | Sequence[str] | float) -> dict[str, Any]:
    """Return the fields of `MotionRules` for shares such as ``0.01``, ``1%`` and ``gate=2%``; or ParameterError."""
    fields: dict[str, Any] = {}
    for text in map(str, value if isinstance(value, (list, tuple)) else [value]):
        region, _, share = text.rpartition("=")
        try:
            number = number_of(share)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            raise ParameterError(f"takes a share from 0 to 1 or in percent, or REGION=SHARE, got '{text}'")
        if region.strip():
            fields.setdefault("region_shares", {})[region.strip()] = number
        else:
            fields["min_share"] = number
    return fields


def count(*names: str, least: int, most: int | None = None, **more: Any) -> Decorator:
    """Return an option that takes an integer from `least` to `most`."""
    return option(*names, type=click.IntRange(least, most), show_default=True, metavar="N", **more)


def choice(*names: str, of: Sequence[str], **more: Any) -> Decorator:
    """Return an option that takes one of several words, by default the first."""
    return option(*names, type=click.Choice(of), default=of[0], show_default=True, **more)


def combine(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def converted(convert: Callable[[Any], Any], context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Return the converted value of an option; errors name the option. This and the next are callbacks by `partial`."""
    try:
        return value if context.resilient_parsing else convert(value)  # import nothing heavy for a completion
    except ParameterError as error:
        raise ParameterError(f"{called(context, option)}: {error}") from None


def checked(check: Callable[[Any], Any], context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Return the value of an option, after a check if there is one; errors name the option."""
    if value not in (None, ()):
        converted(check, context, option, value)
    return value


def names_from(
    allowed: Sequence[str], context: click.Context, option: click.Parameter, value: str | Sequence[str]
) -> list[str]:
    """Split ``mask,panel`` into a list without duplicates; ParameterError for other names than the `allowed` ones."""
    names = split_at_commas(value)
    for name in names:
        if name not in allowed:
            came = f"{name!r}{did_you_mean(name, allowed)}"
            raise ParameterError(f"{called(context, option)} takes {', '.join(allowed)}, got {came}")
    return names


def complete_last(
    names: Sequence[str], _context: click.Context, _option: click.Parameter, incomplete: str
) -> list[str]:
    """Return the completions of the last of several names that are separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]


def split_at_commas(value: str | Sequence[str]) -> list[str]:
    """Return the words of ``mask,panel``, or of several such texts, without duplicates."""
    texts = [value] if isinstance(value, str) else value
    words = (word.strip() for text in texts for word in text.split(","))
    return list(dict.fromkeys(word for word in words if word))


def check_folder(context: click.Context, option: click.Parameter, value: Path) -> Path | None:
    """Return the path of a folder; ParameterError for standard output and for the name of a file."""
    if str(value) == "-":
        raise ParameterError(f"{called(context, option)} takes a folder here; bgsub run writes to standard output")
    return check_no_file(context, option, value)


def check_no_file(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Return the path of a folder; ParameterError for the name of a file."""
    if value is not None and value.suffix.lower() in (*ENDINGS, ".avi", ".webm") and not value.is_dir():
        raise ParameterError(f"{called(context, option)} takes a folder, got the name of a file, '{value}'")
    return value


def check_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the path of a file; ParameterError for a folder and for a file in a folder that is missing."""
    if path is not None and path.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file, got the folder '{path}'")
    if path is not None and not path.parent.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file in a folder that exists, got '{path}'")
    return path


def check_table(
    endings: Sequence[str], context: click.Context, option: click.Parameter, path: Path | None
) -> Path | None:
    """Return the path as `check_file`, but refuse to replace files that do not end in one of `endings`."""
    if str(path) == "-":
        raise ParameterError(f"{called(context, option)} takes a file, got '-'")
    if path is not None and path.name in OWN_FILES:
        raise ParameterError(f"{called(context, option)} takes another name than the files of a run, got '{path}'")
    if path is not None and path.exists() and not path.is_dir() and path.suffix.lower() not in endings:
        raise ParameterError(f"{called(context, option)} replaces only files that end in {endings[0]}, got '{path}'")
    return check_file(context, option, path)


def claimed(path: Path | None) -> AbstractContextManager[Any]:
    """Return a context in which no other run writes a file; SinkError if one does."""
    from bgsub.storage.file_lock import Claims  # noqa: PLC0415 - few commands need it

    claims = Claims()
    if path is not None:
        claims.take(path)
    return claims


table_option = file_option(
    "--csv",
    group=OUTPUT,
    callback=partial(check_table, (".csv", ".txt")),
    help="Write the table to this file as well, replacing it, with times in seconds and boxes in pixels.",
)
motion_threshold = partial(
    option, "--motion-threshold", multiple=True, callback=partial(converted, parse_shares), metavar="[REGION=]SHARE"
)
region_option = partial(option, group=EVENTS, multiple=True, callback=partial(checked, Regions))
overwrite_option = partial(flag, "--overwrite", group=OUTPUT)
output_option = partial(option, "-o", "--output", group=OUTPUT, type=PATH)
folder_option = output_option(required=True, callback=check_folder, help="Folder for the results.")
scene_option = choice(
    "--scene", group=INPUT, of=["lobby", "street"], help="A room with switching lamps, or a road under moving clouds."
)


def _check_place(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        Timecode.parse(value, called(context, option))
    return value


of_input = partial(option, group=INPUT)
_place = partial(of_input, callback=_check_place, metavar="TIME")


def duration_option(default: str | None = None, text: str = "Stop after this length") -> Decorator:
    """Return the option ``--duration`` of a command that reads from the start; its value is a `Timecode` or None."""

    def parse(context: click.Context, option: click.Parameter, value: str | None) -> Timecode | None:
        length = None if value is None else Timecode.parse(value, called(context, option))
        if length is not None and not length.amount:
            raise ParameterError(f"{called(context, option)} must be more than 0, got '{value}'")
        return length

    return of_input(
        "--duration",
        default=default,
        show_default=True,
        callback=parse,
        metavar="TIME",
        help=f"{text}: frames (250), seconds (10.0 or 10s), or 0:10.",
    )


start_option = _place("--start", help="Start here: a frame number from 0 (120), seconds (12.5 or 12s), or 1:02:03.5.")


def check_part(options: Mapping[str, Any]) -> None:
    """Raise ParameterError for --start, --end and --duration that exclude each other."""
    start, end, duration = map(options.get, ("start", "end", "duration"))
    Selection.parse(start, end, duration, 1, ("--start", "--end", "--duration"))


#: The values are as `open_source` takes them: `start`, `end` and `duration` are text or None.
source_options = combine(
    start_option,
    _place("--end", help="Stop before this position, written like --start."),
    _place("--duration", help="Stop after this length: frames (250), seconds (10.0 or 10s), or 0:10; not with --end."),
    count("--every", group=INPUT, least=1, default=1, help="Read only the first of every N frames."),
)

reconnect_option = option(
    "--reconnect",
    type=click.FloatRange(0),
    metavar="SECONDS",
    group=INPUT,
    help="How long to retry a camera that is lost or missing; 0 does not retry, inf never gives up.  "
    "[default: inf for lost network cameras, else 0]",
)
insecure_option = flag(
    "--insecure",
    group=INPUT,
    help="Do not verify the certificates of cameras (https, rtsps); needed for self-signed certificates. "
    "Others on the network can then read the password in the address.",
)
on_error_option = of_input(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    help="Stop at a frame that cannot be read, or skip it with a warning.  [default: skip for cameras, else stop]",
)
online_option = flag(
    "--online",
    group=METHOD,
    help="Use only the frames so far for each mask. Otherwise the first 500 frames of a file are learned in advance.",
)
rate_option = of_input(
    "--fps",
    type=Number(1e-6, 1000, max_open=True),
    metavar="X",
    help="Frames per second, for images and for videos with a wrong frame rate.  [default: that of the source]",
)
