"""Options for the parameters of the method and for saved models."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import bgsub
from bgsub.cli.help import METHOD, SCENE, SUBSPACE, Option
from bgsub.cli.options import check_file, file_option, number_of
from bgsub.cli.reporting import logger
from bgsub.cli.setting_sources import called, setting_of
from bgsub.cli.settings import Command
from bgsub.errors import ParameterError, did_you_mean
from bgsub.parameters import SPELLINGS, SUBTRACTOR, Parameter, SubspaceParameters, table_of

#: The parameters that commands have: ``--fps`` is that of the source, and `on_change` is not needed for its frames.
METHOD_PARAMETERS = {name: parameter for name, parameter in SUBTRACTOR.items() if name not in ("fps", "on_change")}

#: The parameters that ``--help-all`` does not show: few runs need them.
HIDDEN = (
    *("median", "scene_changes", "max_value"),
    *("surrogate", "mu", "p", "metric", "line_search", "gradient_carry", "subset", "random_state"),
)

_IN_PERCENT = 2  # largest limit of the numbers that may be in percent
_TRUTH = {"true": True, "false": False, "on": True, "off": False, "yes": True, "no": False}
_GROUPS = {
    **dict.fromkeys(table_of(SubspaceParameters), SUBSPACE),
    **dict.fromkeys(("shadows", "light", "stabilise", "ghosts", "absorb_after"), SCENE),
}


class MethodCommand(Command):
    """A command with the parameters of the method as options."""

    def __init__(self, *args: Any, params: Sequence[click.Parameter] | None = None, **options: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *_method_options()], **options)

    def prepare(self, ctx: click.Context) -> None:
        """Drop a model that does not exist yet, and parameters that a model has; ParameterError for others if typed."""
        model: Path | None = ctx.params.get("model")
        saved: Path | None = ctx.params.get("save_model")
        if model is not None and saved is not None and model.resolve() == saved.resolve() and not model.exists():
            ctx.params["model"] = model = None
        parameters = given(ctx.params)
        if model is None or not parameters:
            return
        from bgsub.storage.array_file import read_model_parameters  # noqa: PLC0415 - it imports NumPy

        stored = read_model_parameters(model)
        for option in ctx.command.params:
            name = option.name or ""
            if name not in parameters:
                continue
            value, own, setting = parameters[name], stored.get(name, SUBTRACTOR[name].default), setting_of(ctx, option)
            if value != own and setting is None:
                flag, is_preset = option.opts[0], ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
                what = f"{'--preset with its ' if is_preset else ''}{flag} {value}"
                raise ParameterError(f"the model {model} was made with {flag} {own}, so {what} cannot be given")
            if value != own and setting is not None:
                logger.warning("the model %s keeps its %s = %s; %s is ignored", model, name, own, setting.name)
            ctx.params[name] = None


class MethodParameter(click.ParamType):
    """A value that is converted and checked by the table of parameters."""

    name = "parameter"

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = self.parameter.choices or (("true", "false") if self.parameter.kind is bool else ())
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in the parameter's own type, or raise ParameterError naming the option."""
        with suppress(ValueError):  # the check below raises the error
            truth = self.parameter.kind is bool or self.parameter.of_bool
            if truth:
                value = value if value in self.parameter.choices else _TRUTH.get(value, value)
            else:
                is_share = self.parameter.kind is float and self.parameter.high <= _IN_PERCENT
                value = number_of(value) if is_share and isinstance(value, str) else self.parameter.kind(value)
        assert param is not None
        try:
            return self.parameter.check(called(ctx, param), value)
        except ParameterError as error:
            # None means an option that is not given, and cannot be typed.
            message = str(error).replace(" or None, got", ", got")
            raise ParameterError(message + did_you_mean(str(value), self.parameter.choices)) from None


_METAVARS: dict[type, tuple[str, ...]] = {int: ("N",), float: ("X",), bool: ("true|false",), str: ()}


def _method_options() -> Iterator[Option]:
    """Yield an option for every parameter in the order of the table."""
    american = {british: name for name, british in SPELLINGS.items()}
    for name, parameter in METHOD_PARAMETERS.items():
        flags = [f"--{one.replace('_', '-')}" for one in (name, american.get(name)) if one]
        yield Option(
            [*flags, name],
            hidden=name in HIDDEN,
            group=_GROUPS.get(name, METHOD),
            of_method=True,
            type=MethodParameter(parameter),
            metavar="|".join([*_METAVARS[parameter.kind], *parameter.choices]),
            help=_help(parameter),
        )


def _help(parameter: Parameter) -> str:
    notes = [f"{parameter.symbol} in the paper"] if parameter.symbol else []
    if parameter.kind is not str:  # the metavar lists words
        notes.append(parameter.allowed.removesuffix(" or None"))
    if parameter.default is not None:
        default = parameter.default
        notes.append(f"default: {str(default).lower() if parameter.kind is bool else default}")
    return f"{parameter.help[0].upper()}{parameter.help[1:]}.  [{'; '.join(notes)}]"


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the method among `options` that were set."""
    return {name: value for name, value in options.items() if name in METHOD_PARAMETERS and value is not None}


def make_subtractor(options: dict[str, Any]) -> "bgsub.BackgroundSubtractor":
    """Return a new subtractor with the parameters among `options`; ParameterError for a bad combination."""
    fps = {"fps": options["fps"]} if options.get("fps") else {}
    return bgsub.BackgroundSubtractor(**given(options), **fps)


model_option = file_option("--model", group=METHOD, help="Continue with a saved model.")
save_model_option = file_option(
    "--save-model",
    group=METHOD,
    callback=check_file,
    help="Write the model at the end, also after Ctrl-C. With the same file as --model, every run continues with the "
    "model of the previous run; the first time, the file may be missing.",
)
