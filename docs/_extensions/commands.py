"""The reference of the command line, made from the commands when the site is built.

A line ``<!-- commands -->`` on a page stands for all of them: usage, description, examples, options in groups. What
an earlier command has in the same words is a link there. An option is linked to as ``{option}`bgsub run --save```.
"""

import re
from inspect import cleandoc

import click
from sphinx.util import rst

from bgsub.cli import program
from bgsub.cli.help import by_group
from bgsub.cli.setting_sources import METHOD
from bgsub.cli.settings import long_names

_PLACE = re.compile(r"^<!-- commands -->$", re.MULTILINE)
_EVERYWHERE = {"--help", "--help-all"}  # need no word in each command
_NOTES = re.compile(r"\s\s\[(.+?)\](?=\s\s\[|$)")  # what Click adds: the default, the range
_FLAG = re.compile(r"(?<![\w`-])(--[a-z][\w-]*)")


def describe_all():
    """Return what a page says of the program and its commands, in Markdown."""
    seen = {}
    parts = [_describe("bgsub", program, seen)]
    for name, command in program.commands.items():
        parts.append(_describe(f"bgsub {name}", command, seen))
    return "\n\n".join(parts)


def _describe(title, command, seen):
    context = click.Context(command, info_name=title)
    usage = " ".join([title, *command.collect_usage_pieces(context)])
    parts = [f"## {title}", f"```text\n{usage}\n```", *map(_paragraph, cleandoc(command.help).split("\n\n"))]
    examples = [f"# {text}\n{line}" for line, text in getattr(command, "examples", {}).items()]
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    for group, options in by_group(command.get_params(context)):
        wanted = [option for option in options if _EVERYWHERE.isdisjoint(option.opts)]
        new = [option for option in wanted if seen.setdefault(_words(option, context), title) == title]
        known = [option for option in wanted if option not in new]
        if wanted:
            parts += [
                f"### {group}",
                *(_option(option, context, title) for option in new),
                *_links(known, context, seen),
            ]
    return "\n\n".join(parts)


def _paragraph(text):
    """Return a paragraph of help in Markdown; Click's sign for one whose lines stay as they are, heeded."""
    if text.startswith("\b"):
        return f"```text\n{cleandoc(text[1:])}\n```"
    escaped = re.sub(r"([*_`<>\[\]#|\\])", r"\\\1", " ".join(text.split()))
    return _FLAG.sub(r"`\1`", escaped)


def _words(option, context):
    return option.get_help_record(context)


def _links(options, context, seen):
    """Return a line for each command that has some of the options in the same words."""
    homes = {}
    for option in options:
        homes.setdefault(seen[_words(option, context)], []).append(max(option.opts, key=len))
    return [
        f"As of `{home}`: " + ", ".join(f"{{option}}`{name} <{home} {name}>`" for name in names) + "."
        for home, names in homes.items()
    ]


def _option(option, context, title):
    """Return an option in a block of reStructuredText."""
    term, text = _words(option, context)
    notes = ", ".join(note for group in _NOTES.findall(text) for note in group.split("; "))
    words = _FLAG.split(_NOTES.sub("", text).strip())  # every second one is an option
    help_text = "".join(f"``{word}``" if i % 2 else rst.escape(word) for i, word in enumerate(words))
    facts = [f"*{rst.escape(notes)}*"] * bool(notes) + _setting(option, context.command)
    body = f"   {help_text}\n\n   {' · '.join(facts)}"
    return f"```{{eval-rst}}\n.. program:: {title}\n.. option:: {term.replace(' / ', ', ')}\n\n{body}\n```"


def _setting(option, command):
    """Return how an option stands in a file and in the environment."""
    variables = option.envvar or ()
    if not getattr(command, "takes_settings", False):
        return [f"``{variable}``" for variable in variables]
    key = next(key for key, one in long_names(command).items() if one is option)  # the British spelling comes first
    is_method = getattr(option, "of_method", False)
    table, variable = (METHOD, variables[-1]) if is_method else (command.name, variables[0])
    return [f"``{key}`` in ``[{table}]``", f"``{variable}``"]


def setup(app):
    """Fill the page when it is read."""

    def fill(_app, _docname, source):
        source[0] = _PLACE.sub(lambda _: describe_all(), source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
