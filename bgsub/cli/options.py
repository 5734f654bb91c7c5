"""Options shared by the commands; those of the method come from the table of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bgsub.cli.blocks import PATH, choice
from bgsub.cli.model_options import reconcile
from bgsub.cli.origins import called
from bgsub.cli.settings import METHOD_PARAMETERS, Command
from bgsub.errors import ParameterError, did_you_mean
from bgsub.parameters import SUBTRACTOR, Parameter
from bgsub.video.output_names import STILL, VIEWS, parse_outputs

if TYPE_CHECKING:
    from bgsub.subtractor import BackgroundSubtractor

_TRUTH = {"true": True, "false": False}


class MethodCommand(Command):
    """A command with an option for every parameter of the method; its help lists them apart from its own options."""

    def __init__(self, *args: Any, params: Sequence[click.Parameter] | None = None, **options: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *_method_options()], **options)

    def prepare(self, ctx: click.Context) -> None:
        """Leave the parameters that a saved model has already to it."""
        reconcile(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        method: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                (method if option.name in SUBTRACTOR else own).append(record)
        for title, records in (("Options", own), ("Parameters of the method", method)):
            with formatter.section(title):
                formatter.write_dl(records)


class MethodParameter(click.ParamType):
    """A value of the table of parameters, checked by the table."""

    name = "parameter"

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in the parameter's own type, or raise ParameterError naming the option."""
        with suppress(ValueError):  # the check below says what is allowed
            value = _TRUTH.get(value, value) if self.parameter.kind is bool else self.parameter.kind(value)
        assert param is not None
        try:
            return self.parameter.check(called(ctx, param), value)
        except ParameterError as error:
            # None stands for an option that is not given, and cannot be typed.
            message = str(error).replace(" or None, got", ", got")
            raise ParameterError(message + did_you_mean(str(value), self.parameter.choices)) from None


def _method_options() -> Iterator[click.Option]:
    """Yield an option for every parameter of the method, in the order of the table."""
    for name, parameter in METHOD_PARAMETERS.items():
        flag = f"--{name.replace('_', '-')}"
        kind = MethodParameter(parameter)
        yield click.Option([flag, name], type=kind, metavar=_metavar(parameter), help=_help(parameter))


def _metavar(parameter: Parameter) -> str:
    return "|".join(parameter.choices) or {int: "N", float: "X", bool: "true|false"}[parameter.kind]


def _help(parameter: Parameter) -> str:
    notes = [f"{parameter.symbol} in the paper"] if parameter.symbol else []
    if not parameter.choices:  # they are listed already, as what may follow the option
        notes.append(parameter.allowed.removesuffix(" or None"))
    if parameter.default is not None:
        default = parameter.default
        notes.append(f"default: {str(default).lower() if parameter.kind is bool else default}")
    return f"{parameter.help[0].upper()}{parameter.help[1:]}.  [{'; '.join(notes)}]"


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the method parameters among `options` that were given on the command line."""
    return {name: value for name, value in options.items() if name in SUBTRACTOR and value is not None}


def make_subtractor(options: dict[str, Any]) -> BackgroundSubtractor:
    """Return a new subtractor as the options ask for; ParameterError for a bad combination of parameters."""
    from bgsub.jobs.run import make_subtractor as make  # noqa: PLC0415 - with it comes the pipeline

    return make(given(options))


def check_model(options: dict[str, Any], model: Path | None) -> None:
    """Refuse parameters of the method beside a saved model, naming the option."""
    parameters = given(options)
    if model is not None and parameters:
        flag = next(iter(parameters)).replace("_", "-")
        raise ParameterError(f"--model brings its own parameters, so --{flag} cannot be given")


def passed_through(convert: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that gives an option what `convert` makes of its value; errors name the option."""

    def callback(context: click.Context, option: click.Parameter, value: Any) -> Any:
        try:
            return convert(value)
        except ParameterError as error:
            raise ParameterError(f"{called(context, option)}: {error}") from None

    return callback


def names_from(
    allowed: Sequence[str], optional: bool = False
) -> Callable[[click.Context, click.Parameter, str | Sequence[str]], list[str]]:
    """Return a callback that makes a list of ``mask,panel``, each once; it raises ParameterError."""

    def split(context: click.Context, option: click.Parameter, value: str | Sequence[str]) -> list[str]:
        names = split_at_commas(value)
        wrong = [name for name in names if name not in allowed]
        if wrong or not (names or optional):
            came = f"{wrong[0]!r}{did_you_mean(wrong[0], allowed)}" if wrong else "nothing"
            raise ParameterError(f"{called(context, option)} takes {', '.join(allowed)}, got {came}")
        return names

    return split


def split_at_commas(value: str | Sequence[str]) -> list[str]:
    """Return the words of ``mask,panel``, or of several such texts, each word once."""
    texts = [value] if isinstance(value, str) else value
    words = (word.strip() for text in texts for word in text.split(","))
    return list(dict.fromkeys(word for word in words if word))


def _outputs(value: Sequence[str]) -> list[str] | None:
    return [str(spec) for spec in parse_outputs(split_at_commas(value))] if value else None


save_option = click.option(
    "--save",
    "views",
    multiple=True,
    callback=passed_through(_outputs),
    metavar="VIEW,...",
    help=f"What to write: {', '.join(VIEWS)}, {STILL}. An ending chooses the kind of file: panel.mp4, mask.png.  "
    "[default: mask, nothing beside --record]",
)
"""``--save`` (`views`: list of str such as "mask" and "panel.mp4", or None where it was not given)."""
format_option = choice(
    "--format",
    "kind",
    of=["auto", "video", "images"],
    text="Kind of output; auto makes images of images and video of video.",
)


def check_folder(context: click.Context, option: click.Parameter, value: Path) -> Path:
    """Return the path; ParameterError if it stands for standard output."""
    if str(value) == "-":
        raise ParameterError(f"{called(context, option)} takes a folder here; bgsub run writes to standard output")
    return value


folder_option = click.option(
    "-o", "--output", required=True, type=PATH, callback=check_folder, help="Folder for the results."
)
scene_option = choice(
    "--scene", of=["lobby", "street"], text="A room whose lamps switch, or a road under passing clouds."
)
