"""Options shared by the commands; those of the method come from the table of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from bgsub.cli.blocks import PATH, choice, list_of, option
from bgsub.cli.help import INPUT, METHOD, OUTPUT, SCENE, SUBSPACE, Option
from bgsub.cli.model_options import reconcile
from bgsub.cli.origins import called
from bgsub.cli.settings import METHOD_PARAMETERS, Command
from bgsub.errors import ParameterError, did_you_mean
from bgsub.parameters import Parameter, SubspaceParameters, table_of
from bgsub.video.output_names import ENDINGS, STILL, VIEWS, allowed_endings, parse_outputs

if TYPE_CHECKING:
    from bgsub.subtractor.subtractor import BackgroundSubtractor

_TRUTH = {"true": True, "false": False}
_GROUPS = {
    **dict.fromkeys(table_of(SubspaceParameters), SUBSPACE),
    **dict.fromkeys(("shadows", "light", "stabilise", "scene_changes", "ghosts", "absorb_after"), SCENE),
}


class MethodCommand(Command):
    """A command with an option for every parameter of the method."""

    def __init__(self, *args: Any, params: Sequence[click.Parameter] | None = None, **options: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *_method_options()], **options)

    def prepare(self, ctx: click.Context) -> None:
        """Leave the parameters that a saved model has already to it."""
        reconcile(ctx)


class MethodParameter(click.ParamType):
    """A value of the table of parameters, checked by the table."""

    name = "parameter"

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = self.parameter.choices or (tuple(_TRUTH) if self.parameter.kind is bool else ())
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in the parameter's own type, or raise ParameterError naming the option."""
        with suppress(ValueError):  # the check below says what is allowed
            truth = self.parameter.kind is bool or self.parameter.of_bool
            value = _TRUTH.get(value, value) if truth else self.parameter.kind(value)
        assert param is not None
        try:
            return self.parameter.check(called(ctx, param), value)
        except ParameterError as error:
            # None stands for an option that is not given, and cannot be typed.
            message = str(error).replace(" or None, got", ", got")
            raise ParameterError(message + did_you_mean(str(value), self.parameter.choices)) from None


def _method_options() -> Iterator[Option]:
    """Yield an option for every parameter of the method, in the order of the table."""
    for name, parameter in METHOD_PARAMETERS.items():
        flag = f"--{name.replace('_', '-')}"
        kind = MethodParameter(parameter)
        group = _GROUPS.get(name, METHOD)
        yield Option([flag, name], group=group, type=kind, metavar=_metavar(parameter), help=_help(parameter))


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
    return {name: value for name, value in options.items() if name in METHOD_PARAMETERS and value is not None}


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
            return value if context.resilient_parsing else convert(value)  # nothing heavy while words are completed
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


def _views(begun: str) -> list[str]:
    """Return what may stand where that has begun: the views, with endings once there is a dot."""
    view, dot, _ = begun.partition(".")
    return [f"{view}{ending}" for ending in allowed_endings(view)] if dot else [*VIEWS, STILL]


save_option = option(
    "--save",
    "views",
    group=OUTPUT,
    multiple=True,
    callback=passed_through(_outputs),
    shell_complete=list_of(_views),
    metavar="VIEW,...",
    help=f"What to write, as panel.mp4 or mask.png: {', '.join(VIEWS)}, {STILL}.  [default: mask]",
)
"""``--save`` (`views`: list of str such as "mask" and "panel.mp4", or None where it was not given)."""


def check_folder(context: click.Context, option: click.Parameter, value: Path) -> Path | None:
    """Return the path; ParameterError if it stands for standard output."""
    if str(value) == "-":
        raise ParameterError(f"{called(context, option)} takes a folder here; bgsub run writes to standard output")
    return check_no_file(context, option, value)


def check_no_file(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Return the path; ParameterError if it has the name of a file, as with programs that write a single one."""
    if value is not None and value.suffix.lower() in ENDINGS and not value.is_dir():
        raise ParameterError(f"{called(context, option)} takes a folder, got the name of a file, '{value}'")
    return value


folder_option = option(
    "-o", "--output", group=OUTPUT, required=True, type=PATH, callback=check_folder, help="Folder for the results."
)
scene_option = choice(
    "--scene", group=INPUT, of=["lobby", "street"], text="A room whose lamps switch, or a road under passing clouds."
)
