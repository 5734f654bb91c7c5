"""The options that load and save a model, and what becomes of parameters beside a model that has its own."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import click

from bgsub.cli.blocks import PATH, option
from bgsub.cli.help import METHOD
from bgsub.cli.origins import called, setting_of
from bgsub.cli.settings import METHOD_PARAMETERS
from bgsub.errors import ParameterError
from bgsub.parameters import SUBTRACTOR

logger = logging.getLogger("bgsub")


def check_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the path that an option gives; one where no file can be is refused before the work is done."""
    if path is not None and path.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file, got the folder '{path}'")
    if path is not None and not path.parent.is_dir():
        raise ParameterError(f"{called(context, option)} takes a file in a folder that exists, got '{path}'")
    return path


def reconcile(context: click.Context) -> None:
    """Drop the model that is not there yet, and the parameters of the method that a saved model brings itself.

    A model that is saved into the file it comes from is there from the second run on. Parameters that were typed
    beside it may be typed every day, as long as they are the model's own. Those of files and variables hold for new
    models; where they differ from the model's, a warning says so. What was typed beside any other model is left to
    whoever makes the subtractor, and refused there.

    Raises
    ------
    ParameterError
        When a parameter that was typed is not the one of the kept model.
    SourceError
        When the model cannot be read.
    """
    model: Path | None = context.params.get("model")
    saved: Path | None = context.params.get("save_model")
    kept = model is not None and saved is not None and model.resolve() == saved.resolve()
    if model is not None and kept and not model.exists():
        context.params["model"] = model = None
    given = [option for option in context.command.params if option.name in METHOD_PARAMETERS]
    given = [option for option in given if context.params[option.name or ""] is not None]
    others = {option.name or "": setting for option in given if (setting := setting_of(context, option)) or kept}
    fps = context.params.get("fps")
    if model is None or not (others or fps):
        return
    from bgsub.storage.array_file import read_model_parameters  # noqa: PLC0415 - it imports NumPy

    stored = read_model_parameters(model)
    own_fps = stored.get("fps", fps) * context.params.get("every", 1)
    if fps and not math.isclose(fps, own_fps):
        what = "keeps its seconds, of %g frames: --fps %g holds for times and outputs only"
        logger.warning(f"the model %s {what}", model, own_fps, fps)
    for name, setting in others.items():
        value, own = context.params[name], stored.get(name, SUBTRACTOR[name].default)
        if value != own and setting is None:
            flag = f"--{name.replace('_', '-')}"
            raise ParameterError(f"the model {model} was made with {flag} {own}, so {flag} {value} cannot be given")
        if value != own and setting is not None:
            logger.warning("the model %s keeps its %s = %s; not used is %s", model, name, own, setting.name)
        context.params[name] = None


model_option = option(
    "--model", group=METHOD, type=PATH, metavar="FILE", help="Go on with a model that --save-model wrote."
)
save_model_option = option(
    "--save-model",
    group=METHOD,
    type=PATH,
    callback=check_file,
    metavar="FILE",
    help="Write the model at the end, also after Ctrl-C. With the file of --model, which need not be there the first "
    "time, the same command goes on with it from day to day.",
)
