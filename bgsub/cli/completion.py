"""``bgsub completion``: the script with which a shell completes the commands, options and values of bgsub."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bgsub.cli.help import Example
from bgsub.cli.settings import CommandOfItself


@click.command(
    cls=CommandOfItself,
    short_help="Print what lets the Tab key complete options and values.",
    examples=(
        Example("""echo 'eval "$(bgsub completion bash)"' >> ~/.bashrc""", "bash, 4.4 or newer"),
        Example("""echo 'eval "$(bgsub completion zsh)"' >> ~/.zshrc""", "zsh, below the line with compinit"),
        Example("echo 'bgsub completion fish | source' >> ~/.config/fish/config.fish", "fish"),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which SHELL, one of bash, zsh and fish, completes what is typed after bgsub.

    One line in the file that the shell reads when it starts is all it takes, see the examples; it holds in the next
    shell. Commands, options, words and lists such as --save mask,panel are completed, and the names of files.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    program = click.get_current_context().find_root()
    script = kind(program.command, {}, "bgsub", "_BGSUB_COMPLETE").source()
    # That of fish would cut mask,panel at its comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
