"""Help of the commands: options in groups, the common ones (``--help``) or all (``--help-all``), and examples."""

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any

import click

INPUT, SCREEN, OUTPUT = "Input", "Window and browser", "Output"
EVENTS, CLIPS, NOTIFICATIONS = "Events and regions", "Clips of motion", "Notifications to other programs"
METHOD, SCENE, RUNNING = "Method", "Light, shadows, camera and standing objects", "Running"
SUBSPACE = "Subspace, with the symbols of the paper"
#: The headings in order.
GROUPS = (INPUT, SCREEN, OUTPUT, EVENTS, CLIPS, NOTIFICATIONS, METHOD, SCENE, SUBSPACE, RUNNING)
REPORTING = "Reporting, before or after the command"

_ALL = f"{__name__}.all"  # key in the context: whether to show every option
_WIDEST = 28  # columns of the options
#: An option that prints something and exits.
EXITING: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False}
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_PARAGRAPHS = 2  # of the description above the common options


class Option(click.Option):
    """An option in a `group` of `GROUPS`, or `REPORTING`; with `of_method` it can be set in ``[method]`` of a file."""

    def __init__(self, *args: Any, group: str, of_method: bool = False, **more: Any) -> None:
        super().__init__(*args, **more)
        self.group, self.of_method, self.common = group, of_method, True


class _Formatter(click.HelpFormatter):
    """A formatter that breaks no line at a hyphen, so that options stay whole."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], *args: Any, **more: Any) -> None:
        super().write_dl([(term, text.replace("-", _HYPHEN)) for term, text in rows], *args, **more)

    def getvalue(self) -> str:
        return super().getvalue().replace(_HYPHEN, "-")


class HelpContext(click.Context):
    """A context whose help keeps options whole."""

    formatter_class = _Formatter


class HelpfulCommand(click.Command):
    """A command that shows examples and options in groups: without ``--help-all`` the `common` ones, if it has any."""

    context_class = HelpContext

    def __init__(self, *args: Any, common: str = "", examples: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.common, self.examples = common.split(), examples or {}
        flags = {f"--{name}" for name in self.common}
        for option in self.params:
            if isinstance(option, Option):
                option.common = not flags or not flags.isdisjoint(option.opts)
        of_help = {**EXITING, "group": REPORTING, "help": "Show every option and exit."}
        self._help_all = Option(["--help-all"], hidden=not common, callback=_show_all, **of_help)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), self._help_all]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        paragraphs = cleandoc(self.help or "").split("\n\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(paragraphs if self._is_all(ctx) else paragraphs[:_PARAGRAPHS]))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for command, text in self.examples.items():
                    formatter.write(f"{'':>{formatter.current_indent}}# {text}\n")
                    formatter.write(f"{'':>{formatter.current_indent}}{command}\n")
        is_all = self._is_all(ctx)
        shown = [one for one in self.get_params(ctx) if is_all or getattr(one, "common", False)]
        sections = {group: [_record(option, ctx) for option in options] for group, options in by_group(shown)}
        write_sections(formatter, sections)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        if not self._is_all(ctx):
            number = sum(len(options) for _, options in by_group(self.get_params(ctx)))
            formatter.write(f"All {number} options: {ctx.command_path} --help-all\n")
        elif any(one.hidden for one in self.params if isinstance(one, Option) and one.of_method):
            formatter.write("Not listed: rare parameters of bgsub.BackgroundSubtractor, such as --max-value\n")
        reporting = (f"{max(one.opts, key=len)}" for one in self.params if getattr(one, "group", "") == REPORTING)
        formatter.write(f"In every command: {', '.join(reporting)}; see {ctx.find_root().command_path} --help\n")

    def _is_all(self, ctx: click.Context) -> bool:
        return not self.common or ctx.meta.get(_ALL, False)


def by_group(options: Iterable[click.Parameter]) -> list[tuple[str, list[click.Option]]]:
    """Return the options that are not hidden by heading, in the order of `GROUPS`."""
    shown = [option for option in options if isinstance(option, click.Option) and not option.hidden]
    of_groups = ((group, [one for one in shown if getattr(one, "group", RUNNING) == group]) for group in GROUPS)
    return [(group, members) for group, members in of_groups if members]


def write_sections(formatter: click.HelpFormatter, sections: dict[str, list[tuple[str, str]]]) -> None:
    """Write lists of terms and descriptions under their headings, all in the same columns."""
    widest = max((len(term) for rows in sections.values() for term, _ in rows), default=0)
    width = min(widest, _WIDEST)
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl([(term.ljust(width), text) for term, text in rows], col_max=_WIDEST)


def _record(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    term, text = option.get_help_record(ctx) or ("", "")
    return term, text.replace("]  [", "; ")  # the default in the help text and the range that click adds


def _show_all(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()
