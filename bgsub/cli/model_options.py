"""The options that load and save a model, and what becomes of parameters beside a model that has its own."""

from __future__ import annotations

import logging
from pathlib import Path

import click
from click.core import ParameterSource

from bgsub.cli.blocks import PATH, block
from bgsub.cli.origins import called, setting_of
from bgsub.errors import ParameterError
from bgsub.parameters import SUBTRACTOR

logger = logging.getLogger("bgsub")

_KEPT = f"{__name__}.kept"


def _keep(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    context.meta[_KEPT] = check_file(context, option, path)
    return path


def _model_to_load(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    kept = _kept_beside(context, option, path)
    if kept is None:
        return path
    return kept if kept.exists() else None


def _model_to_save(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    return _kept_beside(context, option, path) or check_file(context, option, path)


def _kept_beside(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the file of --keep-model, None when there is none or `path` was typed and it was not."""
    kept: Path | None = context.meta.get(_KEPT)
    if kept is None or path is None:
        return kept
    typed = [context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("keep_model", option.name)]
    if typed[0] == typed[1]:
        raise ParameterError(
            f"--keep-model loads and saves the model, so {called(context, option)} cannot be given beside it"
        )
    return kept if typed[0] else None


def check_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the path that an option gives; one where no file can be is refused before the work is done."""
    if path is not None and path.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file, got the folder '{path}'")
    if path is not None and not path.parent.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file in a folder that exists, got '{path}'")
    return path


def reconcile(context: click.Context) -> None:
    """Drop the parameters of the method that a saved model brings itself.

    Those that were typed beside ``--keep-model`` may be typed every day, as long as they are the model's own. Those
    of files and variables hold for new models; where they differ from the model's, a warning says so. What was typed
    beside ``--model`` is left to whoever makes the subtractor, and refused there.

    Raises
    ------
    ParameterError
        When a parameter that was typed is not the one of the kept model.
    SourceError
        When the model cannot be read.
    """
    model = context.params.get("model")
    kept = model is not None and model == context.meta.get(_KEPT)
    given = [option for option in context.command.params if option.name in SUBTRACTOR]
    given = [option for option in given if context.params[option.name or ""] is not None]
    others = {option.name or "": setting for option in given if (setting := setting_of(context, option)) or kept}
    if model is None or not others:
        return
    from bgsub.storage.model_file import read_parameters  # noqa: PLC0415 - it brings NumPy along

    stored = read_parameters(model)
    for name, setting in others.items():
        value, own = context.params[name], stored.get(name, SUBTRACTOR[name].default)
        if value != own and setting is None:
            flag = f"--{name.replace('_', '-')}"
            raise ParameterError(f"the model {model} was made with {flag} {own}, so {flag} {value} cannot be given")
        if value != own and setting is not None:
            logger.warning("the model %s keeps its %s = %s; not used is %s", model, name, own, setting.name)
        context.params[name] = None


model_options = block(
    click.option("--model", type=PATH, callback=_model_to_load, help="Go on with a model that --save-model wrote."),
    click.option(
        "--save-model", type=PATH, callback=_model_to_save, help="Write the model at the end, also after Ctrl-C."
    ),
)
keep_model_option = click.option(
    "--keep-model",
    type=PATH,
    is_eager=True,  # the callbacks of the other two look at it
    expose_value=False,
    callback=_keep,
    help="Go on with the model in this file, if it is there, and write it at the end.",
)
"""``--model`` and ``--save-model`` in one, for a command that has these.

It is not passed to the command: `model` is the file if it exists and None if not, `save_model` is the file.
"""
