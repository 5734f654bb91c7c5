"""Print the ablation table: F per condition with all mechanisms on and with each one off, milliseconds per frame.

A switch is "label:name=value,...": the settings that turn one mechanism off. Usage:
python scripts/ablation.py DIR... [--synthetic] [--switch "no shadows:shadows=off"]; without --switch, all of SWITCHES.
"""

from __future__ import annotations

import click
from stress import Run, parse_settings, print_grid, rows_of, sources

from bgsub.errors import BgsubError, ParameterError

SWITCHES: dict[str, dict[str, object]] = {
    "no light": {"light": False},
    "no stabiliser": {"stabilise": False},
    "no shadows": {"shadows": "merged"},
    "no sample memory": {"neighbours": 0},
    "no noise scale": {"noise_factor": 0.0},
    "no majority": {"median": 1},
    "no least area": {"min_area": 0.0},
    "rank 1": {"rank": 1},
    "no ghosts": {"ghosts": False},
    "absorbed in 1 s": {"absorb_after": 1.0},
    "no scene changes": {"scene_changes": False},
}


def parse_switch(text: str) -> tuple[str, dict[str, object]]:
    """Return label and settings of a switch."""
    label, colon, settings = text.partition(":")
    if not colon or not label.strip():
        raise ParameterError(f"switch must be label:name=value,..., got {text!r}")
    return label.strip(), parse_settings(settings.split(","))


@click.command()
@sources
@click.option("--switch", "switches", multiple=True, metavar="LABEL:NAME=VALUE,...", help="Settings of a column.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of all columns.")
def main(switches, settings, jobs, json_path, **chosen) -> None:
    """Print F per condition with all mechanisms on and with each one off."""
    try:
        common = parse_settings(settings)
        off = dict(map(parse_switch, switches)) if switches else SWITCHES
        runs = [Run("all on", settings=common)]
        runs += [Run(label, settings={**common, **changed}) for label, changed in off.items()]
        print_grid(rows_of(**chosen), runs, jobs, json_path)
    except BgsubError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
